// rtrain token create|list|revoke; rtrain access quota: what the head stores for a user, and the user's limits.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/daemons/head_entry.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "daemon/head/access/dropped_tokens.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

std::string nodes_text(std::int64_t uses) {
    return uses == 1 ? ", for one node" : ", for " + std::to_string(uses) + " nodes";
}

// Returns the lifetime of the token in ms. 0: unlimited; nullopt: the head's default.
Result<std::optional<std::int64_t>> lasting_ms(const Arguments& arguments) {
    if (!arguments.has("expires")) return std::optional<std::int64_t>();
    const std::string text = arguments.text("expires");
    if (text == "never") return std::optional<std::int64_t>(0);
    const auto ms = parse_duration(text);
    if (ms && *ms > 0) return ms;
    return Error{.code = ErrorCode::usage,
                 .message = "--expires " + text + " is neither a time nor never",
                 .next = "for example --expires 90d, --expires 8h or --expires never"};
}

// Creates an admin token on the head's machine. It needs no token, and the head need not run.
Result<int> token_create_here(Invocation& call, const std::optional<std::int64_t>& lasts) {
    constexpr std::int64_t person_token_ms = 90LL * 86'400'000, pause_ms = 100;
    constexpr int looks = 50;
    if (call.arguments.text("role", "admin") != "admin" || call.arguments.has("uses"))
        return Error{.code = ErrorCode::usage,
                     .message = "--data makes an admin token, and no other",
                     .next = "make others with it: rtrain token create --role user --user NAME"};
    const std::int64_t ms = lasts.value_or(person_token_ms), until = ms == 0 ? 0 : wall_now_ms() + ms;
    const auto token =
        head::drop_admin_token(absolute(call.arguments.text("data")), call.arguments.text("user", "admin"), until);
    if (!token) return token.error();
    bool taken = false;
    for (int left = looks; left > 0 && !taken; --left) {
        taken = access(token->file.c_str(), F_OK) != 0;
        if (!taken && wait_or_interrupt(pause_ms)) break;
    }
    const json value = {{"id", token->id},
                        {"role", "admin"},
                        {"token", token->text},
                        {"expires", until == 0 ? json() : json(time_text(until))},
                        {"opens", taken}};
    call.out.document(value, "token", token->text + "\n");
    if (call.out.for_people())
        call.out.talk(
            std::string("role admin, ") + (until == 0 ? "without end" : "until " + time_text(until)) +
            (taken ? "" : "; no head has taken it within 5 s: it opens once the head of this directory runs") +
            "; shown only now. Use it so:\n  rtrain context add NAME --address HOST:PORT --token " + token->text +
            " --ca " + shell_word(absolute(call.arguments.text("data")) + "/ca.crt"));
    return 0;
}

// Returns the command that uses a new token, for any machine that reaches the head. Prometheus reads the token from a
// file (`credentials_file`), as configs/prometheus shows. The command for a token of several nodes reads it from
// standard input, because other users can read a process's arguments.
std::string use_of(const std::string& role, const Api& api, const std::string& token, std::int64_t uses) {
    const std::string join = "rtrain node join " + api.address();
    if (role == "node" && uses > 1) return "printf %s " + token + " | " + join + " --token-file -";
    if (role == "node") return join + " --token " + token;
    if (role == "metrics") return "printf %s " + token + " > /etc/prometheus/rtrain.token";
    return "rtrain context add NAME --address " + api.address() + " --token " + token + " --ca-fingerprint " +
           api.ca_fingerprint();
}

bool leads_to_this_machine(const std::string& address) {
    const auto where = parse_host_port(address, 0);
    return where && (where->host == "localhost" || where->host == "::1" || where->host.starts_with("127."));
}

Result<int> token_create(Invocation& call) {
    const auto lasts = lasting_ms(call.arguments);
    if (!lasts) return lasts.error();
    if (Status fine = check_one_head(call.arguments); !fine) return fine.error();
    if (call.arguments.has("data")) return token_create_here(call, *lasts);
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string role = call.arguments.text("role", call.arguments.has("user") ? "user" : "node");
    json body = {{"role", role}, {"user", call.arguments.text("user")}};
    if (*lasts) body["expires_ms"] = **lasts;
    if (call.arguments.has("uses")) body["uses"] = call.arguments.number("uses", 1);
    Result<json> answer = api->post("/v1/tokens", body);
    if (!answer) return answer.error();
    const std::string token = string_of(*answer, "token");
    const std::string expires = string_of(*answer, "expires");
    const std::string line = use_of(role, *api, token, role == "node" ? answer->value("uses_left", 1) : 1);
    (*answer)["command"] = line;
    call.out.document(*answer, "token", token + "\n");
    if (call.out.for_people())
        call.out.talk(
            "role " + role + (expires.empty() ? ", without end" : ", until " + expires) +
            (role == "node" ? nodes_text(answer->value("uses_left", 1)) : "") + "; shown only now. Use it so:\n  " +
            line +
            (role != "metrics" && leads_to_this_machine(api->address())
                 ? "\n" + api->address() + " is this machine alone. For others: rtrain head start --host 0.0.0.0"
                 : ""));
    return 0;
}

Result<int> token_list(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->list("/v1/tokens");
    if (!answer) return answer.error();
    call.out.list(*answer,
                  {{"ID", "id"},
                   {"ROLE", "role"},
                   {"USER", "user"},
                   {"CREATED", "created"},
                   {"EXPIRES", "expires"},
                   {"REVOKED", "revoked"}},
                  "id", "there are no tokens");
    return 0;
}

Result<int> token_revoke(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string id = call.arguments.argument(0);
    if (call.arguments.has("dry-run")) {
        Result<json> all = api->list("/v1/tokens");
        if (!all) return all.error();
        for (const json& token : (*all)["items"])
            if (string_of(token, "id") == id) {
                call.out.document(
                    token, "id",
                    "would revoke " + id + " (" + string_of(token, "role") + " " + string_of(token, "user") + ")\n");
                return 0;
            }
        return Error{.code = ErrorCode::not_found, .message = "there is no token " + id, .next = "rtrain token list"};
    }
    if (Status sure = confirm(call, "The token " + id + " will be refused from now on."); !sure) return sure.error();
    Result<json> answer = api->remove("/v1/tokens/" + url_part(id));
    if (!answer) return answer.error();
    (*answer)["id"] = id;
    call.out.document(*answer, "id", "revoked " + id + "\n");
    return 0;
}

constexpr const char* kept_places[] = {"memory", "database", "files", "storage"};

std::int64_t bytes_at(const json& of, const char* place) { return of.value(place, std::int64_t{0}); }

std::string in_column(std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
}

// Returns a table with one line for each kind of data, then the sum and the limit.
std::string table(const json& quota) {
    constexpr std::size_t width = 14;
    const auto line = [](const std::string& name, const json& of) {
        std::string text = in_column(name, width);
        for (const char* place : kept_places) text += in_column(bytes_text(bytes_at(of, place)), width);
        return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
    };
    std::string out = in_column("KIND", width);
    for (const char* title : {"MEMORY", "DATABASE", "FILES"}) out += in_column(title, width);
    out += "STORAGE\n";
    for (const auto& [kind, of] : quota["kinds"].items()) out += line(kind, of);
    out += line("all", quota["used"]);
    out += line(quota.value("own_limit", false) ? "own limit" : "limit", quota["limit"]);
    if (!quota.contains("streams_limit")) return out;  // a head of an earlier version does not send this field
    return out + "streams open: " + std::to_string(quota.value("streams", 0)) + " of " +
           std::to_string(quota.value("streams_limit", 0)) + "\n";
}

Result<json> wished(const Arguments& arguments) {
    json body = json::object();
    for (const char* place : kept_places) {
        if (!arguments.has(place)) continue;
        const auto bytes = parse_bytes(arguments.text(place));
        if (!bytes)
            return Error{.code = ErrorCode::usage,
                         .message = std::string("--") + place + " " + arguments.text(place) + " is no size",
                         .next = "for example --files 100GiB"};
        body[place] = *bytes;
    }
    if (arguments.has("streams")) body["streams"] = arguments.number("streams", 0);
    if (arguments.has("default")) {
        if (!body.empty())
            return Error{
                .code = ErrorCode::usage, .message = "--default takes the place of all other limits", .next = ""};
        body["default"] = true;
    }
    return body;
}

Result<int> quota(Invocation& call) {
    const auto body = wished(call.arguments);
    if (!body) return body.error();
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string target = "/v1/quotas/" + url_part(call.arguments.argument(0));
    Result<json> answer = body->empty() ? api->get(target) : api->put(target, *body);
    if (!answer) return answer.error();
    call.out.document(*answer, "user", table(*answer));
    return 0;
}

}  // namespace

std::vector<Command> token_commands() {
    const char* group = "Access";
    return {
        {.words = "token create",
         .group = group,
         .help = "make a token for a node or for a person; shown once",
         .flags = {{.name = "role",
                    .takes = Value::choice,
                    .shown = "ROLE",
                    .help = "node (default; with --user: user), viewer, user, admin, or metrics: for Prometheus",
                    .choices = "node|viewer|user|admin|metrics"},
                   {.name = "user", .takes = Value::text, .shown = "NAME", .help = "whose it is"},
                   {.name = "expires",
                    .takes = Value::text,
                    .shown = "TIME",
                    .help = "for how long: a time such as 30d, or never (people: 90d, node: 1h)"},
                   {.name = "data",
                    .takes = Value::file,
                    .shown = "DIR",
                    .help = "on the head's machine: an admin token, without needing one; the head need not run"},
                   {.name = "uses", .takes = Value::number, .shown = "N", .help = "for how many nodes (default 1)"}},
         .handler = token_create},
        {.words = "token list",
         .group = group,
         .help = "list the tokens, without their secrets",
         .handler = token_list},
        {.words = "token revoke",
         .group = group,
         .help = "refuse a token from now on",
         .arguments = {{.name = "ID", .value = Value::text}},
         .flags = {{.name = "dry-run", .help = "say which"}},
         .handler = token_revoke}};
}

std::vector<Command> quota_commands() {
    const auto size = [](const char* name, const char* help) {
        return Flag{.name = name, .takes = Value::text, .shown = "SIZE", .help = help};
    };
    return {{.words = "access quota",
             .group = "Access",
             .help = "what the head keeps for a user, and how much it may",
             .arguments = {{.name = "USER", .value = Value::text}},
             .flags = {size("memory", "let the user's records take so much memory, such as 1GiB"),
                       size("database", "let the user's rows take so much of the state database"),
                       size("files", "let logs, values and archives take so much on the head's disk"),
                       size("storage", "let files below cluster:// take so much"),
                       {.name = "streams",
                        .takes = Value::number,
                        .shown = "N",
                        .help = "let the user follow so many logs, events and metrics at a time"},
                       {.name = "default", .help = "give the user the limits that all have"}},
             .handler = quota}};
}

}  // namespace rtrain::cmd
