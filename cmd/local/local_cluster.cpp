// rtrain up and down: a head and N agents on this machine, on loopback, as real daemons with TLS and tokens.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cmd/client/api.hpp"
#include "cmd/daemons/head_entry.hpp"
#include "cmd/daemons/node_entry.hpp"
#include "cmd/daemons/supervisor.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/local/local_daemons.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "daemon/agent/peers/joining.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t ready_within_ms = 30'000;
constexpr std::int64_t stop_within_ms = 30'000;

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

std::string base_directory(const Arguments& arguments) { return absolute(arguments.text("data", data_home() + "/up")); }

int until_pid(const Arguments& arguments) { return static_cast<int>(arguments.number("until-pid", 0)); }

// Makes the context of this head the current one. Adds the context's name to the fields in `head`.
Status use_context(Invocation& call, const std::string& base, json& head) {
    Result<std::string> context = keep_context(call, head);
    if (!context) return context.error();
    if (context->empty())
        return Error{.code = ErrorCode::unauthorised,
                     .message = "the cluster in " + base + " exists, but " + user_config_path(call.arguments) +
                                " has no context of it",
                     .next = "use the configuration it was made with, or `rtrain up --data` another directory"};
    head["context"] = *context;
    head.erase("admin_token");
    return change_config(user_config_path(call.arguments), {}, {}, *context);
}

// Starts the head. If agents of this cluster run already, it gets the address at which they expect it.
Result<json> start_head(Invocation& call, const std::string& base, const std::optional<HostPort>& address) {
    HeadOptions options;
    options.data_dir = base + "/head";
    options.name = call.arguments.text("name", "local");
    options.port = static_cast<std::uint16_t>(call.arguments.number("port", options.port));
    if (address) options.port = address->port;
    if (call.arguments.has("storage-root")) options.storage_root = absolute(call.arguments.text("storage-root"));
    if (Status status = make_directory(options.data_dir); !status) return status.error();
    Result<json> head = serve_detached(options, until_pid(call.arguments));
    if (!head) return head;
    for (const json& warning : (*head)["warnings"]) call.out.talk("warning: " + warning.get<std::string>());
    if (Status used = use_context(call, base, *head); !used) return used.error();
    return head;
}

// Returns the same fields as `start_head`, for a head that runs already.
Result<json> running_head(Invocation& call, const std::string& base, const Running& running, const HostPort& address) {
    std::ifstream file(base + "/head/ca.crt");
    const std::string ca{std::istreambuf_iterator<char>(file), {}};
    json head = {{"address", host_port_text(address.host, address.port)},
                 {"host", address.host},
                 {"port", address.port},
                 {"pid", running.pid},
                 {"data", base + "/head"},
                 {"ca", ca},
                 {"admin_token", ""},
                 {"name", ""},
                 {"warnings", json::array()},
                 {"ca_fingerprint", ""}};
    if (Status used = use_context(call, base, head); !used) return used.error();
    Result<Api> api = open_head_in(call, base + "/head");
    Result<json> status = api ? api->get("/v1/status") : Result<json>(api.error());
    if (!status) return status.error();
    head["name"] = (*status)["name"];
    head["cluster_id"] = (*status)["cluster_id"];
    if (const auto print = security::fingerprint(ca)) head["ca_fingerprint"] = *print;
    return head;
}

Result<Api> api_of(Invocation& call, const std::string& context) {
    Result<ConfigFile> config = read_config(user_config_path(call.arguments));
    if (!config) return config.error();
    return Api::open(call, config->contexts[context], 5'000);
}

Result<json> start_node(Invocation& call, Api& api, const std::string& base, const std::string& head,
                        const std::string& name) {
    NodeOptions options;
    options.name = name;
    options.data = base + "/" + options.name;
    options.head = head;
    options.peer_port = 0;
    options.resources = call.arguments.text("resources");
    options.fake_gpus = call.arguments.text("fake-gpus");
    options.allow_root_workers = true;
    auto passed = parse_pass_env(call.arguments.list("pass-env"));
    if (!passed) return passed.error();
    options.pass_env = std::move(*passed);
    options.allow_setuid = call.arguments.has("allow-setuid");
    if (Status fine = take_warm_flags(call.arguments, options); !fine) return fine.error();
    options.agents_here = call.arguments.number("nodes", 1);
    if (Status fine = take_memory_flags(call.arguments, options); !fine) return fine.error();
    options.until_pid = until_pid(call.arguments);
    if (Status status = make_directory(options.data); !status) return status.error();
    Result<json> token = api.post("/v1/tokens", {{"role", "node"}, {"user", options.name}});
    if (!token) return token.error();
    options.token = string_of(*token, "token");
    return run_node_detached(options);
}

// Returns the last line of a daemon's log that is not empty. If the daemon has ended without a request, the line shows
// why.
std::string last_line(const std::string& file) {
    std::ifstream in(file);
    std::string line, last;
    while (std::getline(in, line))
        if (!line.empty()) last = line;
    return last;
}

Status none_has_ended(const std::string& base, const std::set<std::string>& names) {
    for (const std::string& name : names) {
        const std::string log = base + "/" + name + "/agent.log";
        if (!read_daemon(base + "/" + name + node_pid_file))
            return Error{.code = ErrorCode::io, .message = name + " has ended: " + last_line(log), .next = log};
    }
    return Done{};
}

// Waits until the head has a connection to each node. A node that is READY in its records may not have one yet.
Status wait_ready(Api& api, const std::string& base, const std::set<std::string>& names) {
    const std::int64_t deadline = wall_now_ms() + ready_within_ms;
    for (;;) {
        Result<json> nodes = api.list("/v1/nodes");
        if (!nodes) return nodes.error();
        std::size_t ready = 0;
        for (const json& node : (*nodes)["items"])
            if (names.count(string_of(node, "node")) != 0 && node.value("connected", false) &&
                string_of(node, "state") != "LOST")
                ++ready;
        if (ready >= names.size()) return Done{};
        if (Status alive = none_has_ended(base, names); !alive) return alive;
        if (wall_now_ms() > deadline)
            return Error{.code = ErrorCode::timed_out,
                         .message = std::to_string(ready) + " of " + std::to_string(names.size()) +
                                    " nodes are connected after 30 s",
                         .next = "rtrain nodes, and " + base + "/" + *names.begin() + "/agent.log"};
        if (wait_or_interrupt(50))
            return Error{.code = ErrorCode::timed_out, .message = "interrupted", .next = "rtrain down"};
    }
}

// Removes nodes from the cluster that an earlier `rtrain up` started and this one does not. A node with workers of a
// run (down --keep-runs) stays in the cluster, so that a later `up` that starts it finds them.
Status remove_earlier_nodes(Invocation& call, Api& api, const std::string& base, const std::set<std::string>& names) {
    Result<json> nodes = api.list("/v1/nodes");
    if (!nodes) return nodes.error();
    for (const json& node : (*nodes)["items"]) {
        const std::string name = string_of(node, "node");
        std::error_code unknown;
        const bool is_of_up = name.starts_with("node-") && fs::exists(base + "/" + name, unknown);
        if (names.count(name) != 0 || !is_of_up || node.value("connected", false)) continue;
        if (!node.value("runs", json::array()).empty()) {
            call.out.talk("warning: " + name + " of an earlier `rtrain up` has workers of " +
                          cell_text(node, {"", "runs", Shape::list}) + " and is not started; `rtrain up --nodes " +
                          name.substr(std::string("node-").size()) + "` starts it again");
            continue;
        }
        Result<json> left = api.post("/v1/nodes/" + url_part(name) + "/leave", json::object());
        if (!left && left.error().code != ErrorCode::not_found) return left.error();
        if (fs::exists(base + "/" + name + "/identity", unknown))
            if (Status forgotten = forget_identity(base + "/" + name); !forgotten) return forgotten;
    }
    return Done{};
}

// Returns the head's address, which all daemons use as soon as one of them runs. Fails if --port differs from it.
Result<std::optional<HostPort>> address_in_use(const Arguments& arguments, const RunningDaemons& running) {
    if (running.empty()) return std::optional<HostPort>();
    const std::string& first = running.begin()->first;
    const std::string text = head_address(running);
    if (text.empty())
        return Error{.code = ErrorCode::conflict,
                     .message = first + " has ended, and its supervisor starts it again",
                     .next = "rtrain up in some seconds, or rtrain down"};
    Result<HostPort> address = parse_host_port(text, 0);
    if (!address) return address.error();
    const std::int64_t port = arguments.number("port", 0);
    if (port != 0 && port != address->port)
        return Error{
            .code = ErrorCode::usage,
            .message = "--port " + std::to_string(port) + ": " + first + " runs, and uses the head's address " + text,
            .next = "leave out --port, or end the cluster first: rtrain down"};
    return std::optional<HostPort>(*address);
}

// Prints which running daemons `up` keeps, and which flags therefore have no effect on them.
void name_kept_daemons(Invocation& call, const RunningDaemons& running) {
    if (running.empty()) return;
    std::vector<std::string> names, flags;
    for (const auto& [name, daemon] : running) names.push_back(name);
    for (const char* flag : {"resources", "fake-gpus", "pass-env", "allow-setuid", "warm", "no-warm", "warm-memory",
                             "reserve-memory", "memory-limits", "name", "storage-root", "until-pid"})
        if (call.arguments.has(flag)) flags.push_back(std::string("--") + flag);
    const std::string unchanged =
        flags.empty() ? "" : " and keep the flags they were started with; this changes none: " + joined(flags);
    call.out.talk(joined(names) + (names.size() == 1 ? " runs already" : " run already") + unchanged);
}

// Starts the head and those nodes that do not run. Waits until all of them are connected.
Result<json> start_missing(Invocation& call, const std::string& base, const RunningDaemons& running,
                           const std::optional<HostPort>& address, const std::set<std::string>& names) {
    const auto kept_head = running.find("head");
    Result<json> head = kept_head != running.end() ? running_head(call, base, kept_head->second, *address)
                                                   : start_head(call, base, address);
    if (!head) return head;
    Result<Api> api = api_of(call, string_of(*head, "context"));
    if (!api) return api.error();
    if (Status removed = remove_earlier_nodes(call, *api, base, names); !removed) return removed.error();
    json nodes = json::array();
    for (const std::string& name : names) {
        const auto kept = running.find(name);
        Result<json> node = kept == running.end() ? start_node(call, *api, base, string_of(*head, "address"), name)
                                                  : json{{"node", name},
                                                         {"head", (*head)["address"]},
                                                         {"pid", kept->second.pid},
                                                         {"data", base + "/" + name},
                                                         {"registered", true}};
        if (!node) return node;
        nodes.push_back(*node);
    }
    if (Status ready = wait_ready(*api, base, names); !ready) return ready.error();
    (*head)["nodes"] = nodes;
    head->erase("join_token");
    head->erase("join_command");
    return head;
}

Result<int> up(Invocation& call) {
    const std::string base = base_directory(call.arguments);
    const std::int64_t nodes = call.arguments.number("nodes", 1);
    if (nodes < 1 || nodes > 64 || call.arguments.number("port", 0) > 65535)
        return Error{.code = ErrorCode::usage,
                     .message = "--nodes is 1 to 64, --port at most 65535",
                     .next = usage_line(call.command)};
    const RunningDaemons running = running_daemons(base);
    const std::set<std::string> names = nodes_of_cluster(nodes, running);
    const std::string count = std::to_string(names.size()) + (names.size() == 1 ? " node" : " nodes");
    if (running.size() == names.size() + 1)
        return Error{.code = ErrorCode::conflict,
                     .message = "the cluster in " + base + " is up: its head has pid " +
                                std::to_string(running.at("head").pid) + ", and it has " + count,
                     .next = "rtrain status, or rtrain down"};
    const Result<std::optional<HostPort>> address = address_in_use(call.arguments, running);
    if (!address) return address.error();
    announce_directory(call, base);
    name_kept_daemons(call, running);
    Result<json> head = start_missing(call, base, running, *address, names);
    if (!head) {  // the start failed: ends the daemons that this command has started
        if (Result<json> ended = end_daemons(base, running); !ended) call.out.talk("warning: " + ended.error().message);
        return head.error();
    }
    call.out.document(*head, "name",
                      "head at " + string_of(*head, "address") + " and " + count + " are up; context \"" +
                          string_of(*head, "context") + "\" of " + user_config_path(call.arguments) +
                          " is in use; data in " + base + "\nnext: rtrain submit job.yaml    to end it: rtrain down\n");
    return 0;
}

// Returns the head of this cluster if it serves and the configuration contains it.
std::optional<Api> head_below(Invocation& call, const std::string& base) {
    if (!read_pid_file(base + "/head" + head_pid_file)) return std::nullopt;
    Result<Api> api = open_head_in(call, base + "/head");
    if (!api) return std::nullopt;
    return std::move(*api);
}

std::vector<std::string> runs_with_workers(Api& api) {
    std::vector<std::string> names;
    const Result<json> runs = api.list("/v1/runs");
    if (!runs) return names;
    for (const json& run : (*runs)["items"]) {
        const std::string state = string_of(run, "state");
        const bool ended = state == "SUCCEEDED" || state == "FAILED" || state == "STOPPED";
        if (!ended && state != "QUEUED") names.push_back(string_of(run, "name"));
    }
    return names;
}

// Stops the runs. Without this, their workers would run on for a next agent. Ending a cluster also ends its trainings,
// unless the user decides otherwise.
Status stop_runs(Invocation& call, Api& api, const std::vector<std::string>& names) {
    if (Status sure =
            confirm(call, "Running: " + joined(names) +
                              ". They will be stopped (--keep-runs: they train on until the next `rtrain up`).");
        !sure)
        return sure;
    for (const std::string& name : names) {
        const Result<json> asked = api.post("/v1/runs/" + url_part(name) + "/stop", json::object());
        if (!asked && asked.error().code != ErrorCode::conflict && asked.error().code != ErrorCode::not_found)
            return asked.error();
    }
    const std::int64_t deadline = wall_now_ms() + stop_within_ms;
    std::vector<std::string> left = runs_with_workers(api);
    for (; !left.empty() && wall_now_ms() < deadline; left = runs_with_workers(api))
        if (wait_or_interrupt(50))
            return Error{.code = ErrorCode::timed_out, .message = "interrupted", .next = "rtrain down"};
    if (left.empty()) return Done{};
    return Error{.code = ErrorCode::timed_out,
                 .message = joined(left) + " did not stop within 30 s",
                 .next = "rtrain describe " + left.front() + ", or rtrain down --keep-runs"};
}

Result<int> down(Invocation& call) {
    const std::string base = base_directory(call.arguments);
    std::optional<Api> api = head_below(call, base);
    const std::vector<std::string> busy = api ? runs_with_workers(*api) : std::vector<std::string>{};
    if (call.arguments.has("dry-run")) {
        json items = json::array();
        for (const auto& [name, daemon] : running_daemons(base)) items.push_back({{"name", name}, {"pid", daemon.pid}});
        call.out.list({{"items", items}, {"dry_run", true}, {"runs", busy}}, {{"NAME", "name"}, {"PID", "pid"}}, "name",
                      "nothing runs there");
        if (!busy.empty()) call.out.talk("running: " + joined(busy));
        return 0;
    }
    if (!busy.empty() && call.arguments.has("keep-runs"))
        call.out.talk(joined(busy) + ": the workers train on by themselves until the next `rtrain up`");
    else if (!busy.empty())
        if (Status stopped = stop_runs(call, *api, busy); !stopped) return stopped.error();
    Result<json> ended = end_daemons(base, {});
    if (!ended) return ended.error();
    if (ended->empty())
        return Error{.code = ErrorCode::not_found, .message = "nothing runs in " + base, .next = "rtrain up"};
    call.out.list({{"items", *ended}}, {{"ENDED", "name"}, {"PID", "pid"}, {"KILLED", "killed"}}, "name", "");
    return 0;
}

}  // namespace

std::vector<Command> local_cluster_commands() {
    const char* group = "Cluster";
    const std::vector<Flag> memory = memory_flags(), warm = warm_flags();
    const Flag data{.name = "data",
                    .takes = Value::file,
                    .shown = "DIR",
                    .help = "where it keeps everything (default: <data home>/up)"};
    return {
        {.words = "up",
         .group = group,
         .help = "start a head and agents on this machine, on loopback",
         .flags =
             {{.name = "nodes", .takes = Value::number, .shown = "N", .help = "how many agents (default 1)"},
              data,
              {.name = "port", .takes = Value::number, .shown = "PORT", .help = "of the head (default 7433; 0: any)"},
              {.name = "name",
               .takes = Value::text,
               .shown = "NAME",
               .help = "of the cluster and its context (default local)"},
              {.name = "resources", .takes = Value::text, .shown = "LIST", .help = "of each agent: CPU=2"},
              {.name = "fake-gpus", .takes = Value::text, .shown = "NxTYPE", .help = "of each agent: 8xA100"},
              {.name = "storage-root",
               .takes = Value::file,
               .shown = "DIR",
               .help = "where cluster:// lies (default: <data>/head/storage)"},
              {.name = "pass-env",
               .takes = Value::text,
               .shown = "NAME,PREFIX*",
               .help = "of this environment, what jobs get besides PATH, HOME, language and proxies",
               .repeated = true},
              {.name = "allow-setuid", .help = "programs of jobs may gain rights: sudo, ping, fusermount"},
              warm[0],
              warm[1],
              warm[2],
              memory[0],
              memory[1],
              {.name = "until-pid",
               .takes = Value::number,
               .shown = "PID",
               .help = "end, with all workers, when that process has ended"}},
         .handler = up,
         .reach = Reach::this_machine},
        {.words = "down",
         .group = group,
         .help = "end what `rtrain up` started; the data stays",
         .flags = {data,
                   {.name = "keep-runs",
                    .help = "leave the workers at their training; the next `rtrain up` finds them"},
                   {.name = "dry-run", .help = "list what would be ended"}},
         .handler = down,
         .details =
             "Runs that have workers are stopped first, after a question. Exit code 8: one did not stop within 30 s.",
         .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
