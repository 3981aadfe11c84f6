// rtrain context list|use|show|add|move|remove and config show: select the cluster that commands use, and show where
// that setting is made.
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/suggest.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Returns the first part of a token, which identifies it. The secret is never printed.
std::string masked(const std::string& token) {
    if (token.empty()) return "";
    const auto last = token.rfind('.');
    return last == token.npos ? "***" : token.substr(0, last) + ".***";
}

json context_json(const std::string& name, const Place& place, const std::string& current) {
    return {{"name", name},
            {"address", place.address},
            {"token", masked(place.token)},
            {"ca", place.ca.empty() ? "" : "pinned"},
            {"ca_fingerprint", place.ca_fingerprint},
            {"current", name == current ? "*" : ""}};
}

Error unknown(const std::string& name, const ConfigFile& config) {
    std::vector<std::string> names;
    for (const auto& [known, place] : config.contexts) names.push_back(known);
    const std::string near = nearest(name, names);
    return {
        .code = ErrorCode::not_found,
        .message = "there is no context \"" + name + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"),
        .next = "rtrain context list"};
}

Result<int> context_list(Invocation& call) {
    Result<ConfigFile> config = read_config(user_config_path(call.arguments));
    if (!config) return config.error();
    json items = json::array();
    for (const auto& [name, place] : config->contexts) items.push_back(context_json(name, place, config->current));
    call.out.list({{"items", items}},
                  {{"", "current"},
                   {"NAME", "name"},
                   {"ADDRESS", "address"},
                   {"CA", "ca"},
                   {"TOKEN", "token", Shape::text, true}},
                  "name", "there are no contexts; rtrain up or rtrain head start make one");
    return 0;
}

Result<int> context_use(Invocation& call) {
    const std::string path = user_config_path(call.arguments);
    const std::string name = call.arguments.argument(0);
    Result<ConfigFile> config = read_config(path);
    if (!config) return config.error();
    if (config->contexts.find(name) == config->contexts.end()) return unknown(name, *config);
    if (Status changed = change_config(path, {}, {}, name); !changed) return changed.error();
    call.out.document({{"name", name}}, "name",
                      "commands go to \"" + name + "\" (" + config->contexts[name].address + ") from now on\n");
    return 0;
}

Result<int> context_show(Invocation& call) {
    Result<ConfigFile> config = read_config(user_config_path(call.arguments));
    if (!config) return config.error();
    const std::string given = call.arguments.argument(0);
    const std::string name = given.empty() ? call.arguments.text("context", environment("RTRAIN_CONTEXT").empty()
                                                                                ? config->current
                                                                                : environment("RTRAIN_CONTEXT"))
                                           : given;
    if (name.empty())
        return Error{
            .code = ErrorCode::not_found, .message = "no context is in use", .next = "rtrain context use NAME"};
    const auto entry = config->contexts.find(name);
    if (entry == config->contexts.end()) return unknown(name, *config);
    const json value = context_json(name, entry->second, config->current);
    call.out.document(value, "name",
                      "name     " + name + "\naddress  " + entry->second.address + "\ntoken    " +
                          masked(entry->second.token) + "\nca       " +
                          (entry->second.ca.empty() ? entry->second.ca_fingerprint : "pinned") + "\n");
    return 0;
}

Result<int> context_add(Invocation& call) {
    const std::string path = user_config_path(call.arguments);
    const std::string name = call.arguments.argument(0);
    for (const char* needed : {"address", "token"})
        if (!call.arguments.has(needed))
            return Error{.code = ErrorCode::usage,
                         .message = std::string("rtrain context add needs --") + needed,
                         .next = usage_line(call.command)};
    Result<HostPort> where = parse_host_port(call.arguments.text("address"), 7433);
    if (!where) return where.error();
    Result<ConfigFile> config = read_config(path);
    if (!config) return config.error();
    if (config->contexts.find(name) != config->contexts.end() && !call.arguments.has("yes"))
        return Error{.code = ErrorCode::conflict,
                     .message = "the context \"" + name + "\" exists",
                     .next = "take another name, or say --yes to replace it"};
    Place place{.address = host_port_text(where->host, where->port),
                .token = call.arguments.text("token"),
                .ca = "",
                .ca_fingerprint = call.arguments.text("ca-fingerprint")};
    if (call.arguments.has("ca")) {
        Arguments only_ca;
        only_ca.flags["ca"] = call.arguments.list("ca");
        only_ca.flags["config"] = {"/dev/null"};
        Result<Settings> settings = Settings::load(only_ca);
        if (!settings) return settings.error();
        place.ca = settings->value("ca");
    }
    if (place.ca.empty() && place.ca_fingerprint.empty())
        return Error{
            .code = ErrorCode::usage,
            .message =
                "rtrain context add needs --ca FILE or --ca-fingerprint HEX: the head must be told from an impostor",
            .next = usage_line(call.command)};
    const bool use = config->current.empty() || call.arguments.has("use");
    if (Status changed = change_config(path, {{name, place}}, {}, use ? std::optional(name) : std::nullopt); !changed)
        return changed.error();
    call.out.document(context_json(name, place, use ? name : config->current), "name",
                      "context \"" + name + "\" added" + (use ? " and in use" : "") + "\n");
    return 0;
}

// Changes the address of a context. The context's token and certificate authority stay. With them, a head of another
// cluster at the new address is refused.
Result<int> context_move(Invocation& call) {
    const std::string path = user_config_path(call.arguments), name = call.arguments.argument(0);
    Result<HostPort> where = parse_host_port(call.arguments.argument(1), 7433);
    if (!where) return where.error();
    Result<ConfigFile> config = read_config(path);
    if (!config) return config.error();
    const auto known = config->contexts.find(name);
    if (known == config->contexts.end()) return unknown(name, *config);
    Place place = known->second;
    place.address = host_port_text(where->host, where->port);
    if (Status changed = change_config(path, {{name, place}}, {}, std::nullopt); !changed) return changed.error();
    call.out.document(context_json(name, place, config->current), "name",
                      "context \"" + name + "\" is at " + place.address + " from now on\n");
    return 0;
}

Result<int> context_remove(Invocation& call) {
    const std::string path = user_config_path(call.arguments);
    const std::string name = call.arguments.argument(0);
    Result<ConfigFile> config = read_config(path);
    if (!config) return config.error();
    if (config->contexts.find(name) == config->contexts.end()) return unknown(name, *config);
    const bool dry = call.arguments.has("dry-run");
    if (!dry) {
        if (Status sure = confirm(call, "The context \"" + name + "\" and its token will be forgotten."); !sure)
            return sure.error();
        if (Status changed = change_config(path, {}, {name}, std::nullopt); !changed) return changed.error();
    }
    call.out.document({{"name", name}, {"dry_run", dry}}, "name", (dry ? "would forget " : "forgot ") + name + "\n");
    return 0;
}

Result<int> config_show(Invocation& call) {
    Result<Settings> settings = Settings::load(call.arguments);
    if (!settings) return settings.error();
    json items = json::array();
    for (const Setting& setting : settings->all()) {
        std::string value = setting.name == "token" ? masked(setting.value) : setting.value;
        if (setting.name == "ca" && !value.empty()) value = "pinned";
        json item = {{"name", setting.name}, {"value", value}};
        if (call.arguments.has("origin")) item["origin"] = setting.origin;
        items.push_back(item);
    }
    std::vector<Column> columns{{"NAME", "name"}, {"VALUE", "value"}};
    if (call.arguments.has("origin")) columns.push_back({"ORIGIN", "origin"});
    call.out.list({{"items", items}}, columns, "name", "");
    return 0;
}

}  // namespace

std::vector<Command> context_commands() {
    const char* group = "Access";
    const Argument name{.name = "NAME", .value = Value::context};
    return {{.words = "context list",
             .group = group,
             .help = "list the clusters of the configuration",
             .handler = context_list},
            {.words = "context use",
             .group = group,
             .help = "send commands to this cluster from now on",
             .arguments = {name},
             .handler = context_use},
            {.words = "context show",
             .group = group,
             .help = "show one cluster of the configuration",
             .arguments = {{.name = "NAME", .value = Value::context, .optional = true}},
             .handler = context_show},
            {.words = "context add",
             .group = group,
             .help = "add a cluster: --address, --token, --ca",
             .arguments = {{.name = "NAME"}},
             .flags = {{.name = "ca-fingerprint",
                        .takes = Value::text,
                        .shown = "HEX",
                        .help = "sha256 of the CA, instead of --ca"},
                       {.name = "use", .help = "send commands there from now on"}},
             .handler = context_add},
            {.words = "context move",
             .group = group,
             .help = "change a cluster's address, and keep its token and CA",
             .arguments = {name, {.name = "HOST:PORT"}},
             .handler = context_move},
            {.words = "context remove",
             .group = group,
             .help = "forget a cluster and its token",
             .arguments = {name},
             .flags = {{.name = "dry-run", .help = "say what would go"}},
             .handler = context_remove},
            {.words = "config show",
             .group = group,
             .help = "show what is in force",
             .flags = {{.name = "origin", .help = "and where it comes from"}},
             .handler = config_show}};
}

}  // namespace rtrain::cmd
