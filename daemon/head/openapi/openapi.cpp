// Makes the OpenAPI 3.1 description (openapi.hpp). configs/openapi.json is a copy; a test compares the two.
#include "daemon/head/openapi/openapi.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "daemon/head/openapi/described_routes.hpp"
#include "daemon/head/openapi/schemas.hpp"

namespace rtrain::head {
namespace {

using nlohmann::ordered_json;

const std::map<std::string, std::string>& parameter_texts() {
    static const std::map<std::string, std::string> texts = {
        {"state", "only these states, separated by commas"},
        {"user", "only these users"},
        {"name", "only this name"},
        {"parent", "only runs that the workers of this run have submitted"},
        {"from", "of the chart: the first report's position, or milliseconds since 1970"},
        {"to", "of the chart: the last one; the newest when left out"},
        {"points", "of the chart, at most; 1 to 2000, 500 when left out"},
        {"all", "also what ended more than a day ago"},
        {"last", "the end of the list: so many of its newest items, 1 to 1000"},
        {"limit", "items of one page, 1 to 1000"},
        {"cursor", "next_cursor of the page before"},
        {"from_ms", "begin of the span, in milliseconds since 1970"},
        {"until_ms", "end of the span"},
        {"node", "only these nodes, separated by commas; 100 at most"},
        {"by", "user, queue or run"},
        {"files", "remove the run's directory as well"},
        {"dry_run", "say what would be done, and do nothing"},
        {"rank", "0,3-5 or all (logs: or failed; metrics: rank 0 when left out)"},
        {"attempt", "a number, a list, or all; the newest when left out"},
        {"stream", "out, err, setup, separated by commas"},
        {"since_ms", "only what came within so many milliseconds"},
        {"follow", "server-sent events instead of a list"},
        {"tail", "only the last lines"},
        {"notices_after",
         "with follow: the run's notices as well, those with a higher event id than this; they come as `event: "
         "notice`"},
        {"states_ms",
         "with follow: of a line that is written over with carriage returns the newest state as well, as `event: "
         "state`, "
         "one of each file in so many milliseconds, 100 at least"},
        {"key", "only this metric"},
        {"after", "only what has a higher id; of logs, with follow: only what stands behind this position"},
        {"position",
         "the header x-rtrain-logs-position tells where the lines end; with follow, the last line of each batch has it "
         "as its id"},
        {"run", "only about this run"},
        {"list", "list the files below the path"},
        {"append", "append the body to the file"},
        {"upload", "the id of an upload in pieces; GET tells how many bytes are there"},
        {"offset", "where the piece belongs"},
        {"total", "size of the whole file"},
        {"tree", "everything below the path"},
    };
    return texts;
}

std::string path_of(std::string pattern) {
    const std::size_t dots = pattern.find("...}");
    if (dots != std::string::npos) pattern.erase(dots, 3);
    return pattern;
}

ordered_json parameters(const DescribedRoute& route) {
    ordered_json out = ordered_json::array();
    const std::string path = path_of(route.pattern);
    for (std::size_t at = path.find('{'); at != std::string::npos; at = path.find('{', at + 1))
        out.push_back({{"name", path.substr(at + 1, path.find('}', at) - at - 1)},
                       {"in", "path"},
                       {"required", true},
                       {"schema", {{"type", "string"}}}});
    const std::string names = route.query;
    for (std::size_t begin = 0; begin < names.size();) {
        const std::size_t end = std::min(names.find(' ', begin), names.size());
        const std::string name = names.substr(begin, end - begin);
        out.push_back({{"name", name},
                       {"in", "query"},
                       {"description", parameter_texts().at(name)},
                       {"schema", {{"type", "string"}}}});
        begin = end + 1;
    }
    return out;
}

ordered_json security(Access access) {
    switch (access) {
        case Access::anyone:
        case Access::browser:
            return ordered_json::array();
        case Access::metrics:
        case Access::viewer:
        case Access::user:
        case Access::owner:
        case Access::admin:
            return {{{"bearer", ordered_json::array()}}, {{"session", ordered_json::array()}}};
        case Access::agent:
            return {{{"node", ordered_json::array()}}};
        case Access::agent_or_owner:
        case Access::agent_or_user:
        case Access::agent_or_admin:
            return {{{"bearer", ordered_json::array()}},
                    {{"session", ordered_json::array()}},
                    {{"node", ordered_json::array()}}};
    }
    return ordered_json::array();
}

ordered_json operation(const DescribedRoute& route) {
    ordered_json error = {{"description", "what failed, why, and what to do next"},
                          {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
    ordered_json responses = answers_of(route);
    responses["4XX"] = responses["5XX"] = std::move(error);
    return {{"summary", route.summary},
            {"description", std::string("Needs ") + to_text(route.access) + "."},
            {"parameters", parameters(route)},
            {"security", security(route.access)},
            {"responses", std::move(responses)}};
}

ordered_json components() {
    const ordered_json text = {{"type", "string"}}, number = {{"type", "integer"}};
    const ordered_json problem = {
        {"type", "object"},
        {"properties",
         {{"path", text}, {"line", number}, {"column", number}, {"message", text}, {"suggestion", text}}}};
    const ordered_json codes = {"usage",     "not_found",   "invalid", "unreachable", "unauthorised", "conflict",
                                "timed_out", "unplaceable", "io",      "damaged",     "full",         "internal"};
    ordered_json schemas = answer_schemas();
    schemas["Error"] = {{"type", "object"},
                        {"required", {"code", "message", "problems", "next"}},
                        {"properties",
                         {{"schema_version", number},
                          {"code", {{"type", "string"}, {"enum", codes}}},
                          {"message", text},
                          {"problems", {{"type", "array"}, {"items", problem}}},
                          {"next", text}}}};
    return {{"securitySchemes",
             {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
              {"session",
               {{"type", "apiKey"},
                {"in", "cookie"},
                {"name", "__Host-rtrain-CLUSTER"},
                {"description", "POST /v1/session sets it; a change needs the header x-rtrain-csrf as well"}}},
              {"node", {{"type", "mutualTLS"}}}}},
            {"schemas", std::move(schemas)}};
}

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

}  // namespace

std::string openapi() {
    ordered_json paths = ordered_json::object();
    for (const DescribedRoute& route : described_routes)
        paths[path_of(route.pattern)][lower(route.method)] = operation(route);
    const ordered_json page = {{"openapi", "3.1.0"},
                               {"info",
                                {{"title", "rtrain"},
                                 {"version", RTRAIN_VERSION},
                                 {"description", "The head's API; docs/http-api.md says what the answers hold."}}},
                               {"paths", paths},
                               {"components", components()}};
    return page.dump(2) + "\n";
}

}  // namespace rtrain::head
