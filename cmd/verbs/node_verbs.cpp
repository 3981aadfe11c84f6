// rtrain node join|leave|stop|drain|undrain.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/daemons/notify.hpp"
#include "cmd/daemons/supervisor.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "cmd/verbs/start_flags.hpp"
#include "daemon/agent/agent.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Result<int> node_join(Invocation& call) {
    Result<NodeOptions> options = node_options(call.arguments);
    if (!options) return options.error();
    announce_directory(call, options->data);
    if (Status status = make_directory(options->data); !status) return status.error();
    if (const auto running = read_daemon(options->data + node_pid_file))
        return Error{.code = ErrorCode::conflict,
                     .message = "an agent runs on " + options->data + " already: pid " + std::to_string(running->pid),
                     .next = "give this one another --name"};
    if (::geteuid() != 0)
        call.out.talk("this agent is not root: all jobs on this node run as its user, who can read the node's key in " +
                      options->data + " and the files of every job");
    const auto joined_text = [](const json& node) {
        const std::string place =
            ", pid " + std::to_string(node.value("pid", 0)) + ", data in " + node.value("data", "") + "\n";
        const std::string name = "node \"" + node.value("node", "") + "\" ", head = node.value("head", "");
        if (node.value("registered", false)) return name + "joined " + head + place;
        return name + "runs, but the head at " + head + " does not list it yet; the agent goes on trying" + place +
               "  next: read the agent's log\n";
    };
    if (call.arguments.has("detach")) {
        Result<json> node = run_node_detached(*options);
        if (!node) return node.error();
        call.out.document(*node, "node", joined_text(*node));
        return 0;
    }
    const Notifier manager = Notifier::from_environment();
    if (Status joined = join_node(*options); !joined) return joined.error();
    const Status served = run_node(*options, [&](const json& node) {
        call.out.document(node, "node", joined_text(node));
        call.out.flush();
        if (Status known = manager.ready("node " + options->name + " of the head at " + options->head); !known)
            call.out.talk("warning: " + known.error().message + "\n  next: " + known.error().next);
    });
    if (!served) return served.error();
    return 0;
}

Result<int> on_node(Invocation& call, const std::string& node, const std::string& verb, const json& body,
                    const std::string& text) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->post("/v1/nodes/" + url_part(node) + "/" + verb, body);
    if (!answer) return answer.error();
    call.out.document(*answer, "node", node + " " + text + "\n");
    return 0;
}

struct LeavingNode {
    std::string name, data;
    // the identity that `data` contains; nullopt if the node's agent is not on this machine
    std::optional<JoinedNode> joined{};
};

// Returns the node that `node leave` removes. It is the argument NODE, else the node whose identity is in --data, else
// the node with this host's name. Fails if NODE differs from the identity in the directory, because another node's
// agent would be ended.
Result<LeavingNode> leaving_node(const Arguments& arguments) {
    LeavingNode node{.name = arguments.argument(0), .data = ""};
    if (node.name.empty() && !arguments.has("data")) node.name = default_node_name();
    node.data = absolute(arguments.text("data", node_data(node.name)));
    const Result<JoinedNode> joined = joined_node(node.data);
    if (!joined && node.name.empty())
        return Error{.code = joined.error().code,
                     .message = "no node is in " + node.data + ": " + joined.error().message,
                     .next = "name the node: rtrain node leave NODE"};
    if (!joined) return node;
    if (!node.name.empty() && node.name != joined->name)
        return Error{.code = ErrorCode::conflict,
                     .message = node.data + " has the identity of node " + joined->name + ", not of " + node.name,
                     .next = "rtrain node leave " + joined->name + " --data " + shell_word(node.data) +
                             ", or name the directory of " + node.name};
    node.name = joined->name;
    node.joined = *joined;
    return node;
}

// Fails if the identity in the node's directory belongs to another cluster than the head that `call` names.
Status check_cluster(Invocation& call, const LeavingNode& node) {
    if (!node.joined || node.joined->cluster_id.empty()) return Done{};
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const Result<json> head = api->get("/v1/status");
    if (!head) return head.error();
    const std::string cluster = string_of(*head, "cluster_id");
    if (cluster == node.joined->cluster_id) return Done{};
    return Error{.code = ErrorCode::conflict,
                 .message = "node " + node.name + " in " + node.data + " is of cluster " +
                            node.joined->cluster_id.substr(0, 6) + "; the head at " + api->address() +
                            " is of cluster " + cluster.substr(0, 6),
                 .next = "name the cluster of the node: --context NAME (rtrain context list)"};
}

// Removes the node from the cluster. If the node is this machine, also ends its agent and removes its identity.
Result<int> node_leave(Invocation& call) {
    constexpr std::int64_t wait_ms = 20'000;
    const Result<LeavingNode> node = leaving_node(call.arguments);
    if (!node) return node.error();
    if (Status same = check_cluster(call, *node); !same) return same.error();
    if (call.arguments.has("dry-run")) {
        Result<Api> api = Api::open(call);
        if (!api) return api.error();
        Result<json> answer = api->get("/v1/nodes/" + url_part(node->name));
        if (!answer) return answer.error();
        const std::string runs = cell_text(*answer, {"", "runs", Shape::list});
        call.out.document(*answer, "node", node->name + " would leave; runs on it: " + runs + "\n");
        return 0;
    }
    if (Status sure = confirm(call, "The node " + node->name + " will leave the cluster; what runs on it is stopped.");
        !sure)
        return sure.error();
    Result<int> left = on_node(call, node->name, "leave", json::object(), "has left the cluster");
    if (!left) return left;
    if (const auto ended = end_daemon(node->data + node_pid_file, wait_ms); ended && !*ended) return ended->error();
    std::error_code unknown;
    if (std::filesystem::exists(node->data + "/identity", unknown))
        if (Status forgotten = forget_identity(node->data); !forgotten) return forgotten.error();
    return 0;
}

// Ends the agent on this machine. The node stays in the cluster, and its workers continue to train.
Result<int> node_stop(Invocation& call) {
    constexpr std::int64_t wait_ms = 20'000;
    const Arguments& arguments = call.arguments;
    const std::string named = arguments.argument(0);
    const std::string data = absolute(arguments.text("data", node_data(named.empty() ? default_node_name() : named)));
    const auto ended = end_daemon(data + node_pid_file, wait_ms);
    if (!ended)
        return Error{
            .code = ErrorCode::not_found,
            .message = "no agent runs on " + data,
            .next = "rtrain nodes lists the nodes; --data DIR names the directory of an agent on this machine"};
    if (!*ended) return ended->error();
    const EndedDaemon& agent = **ended;
    call.out.document({{"stopped", true}, {"pid", agent.pid}, {"killed", agent.killed}, {"data", data}}, "pid",
                      "agent " + std::to_string(agent.pid) +
                          (agent.killed ? " did not end in 20 s and was killed" : " stopped") +
                          "; its workers go on, and the next agent on " + data + " finds them\n");
    return 0;
}

Result<int> node_drain(Invocation& call) {
    json body = {{"reason", call.arguments.text("reason")}};
    const bool deadline = call.arguments.has("deadline");
    if (deadline) body["deadline_ms"] = call.arguments.duration_ms("deadline", 0);
    return on_node(call, call.arguments.argument(0), "drain", body,
                   deadline ? "takes no new workers; its runs are asked to checkpoint and move, until the deadline"
                            : "takes no new workers; its runs move at their next checkpoint when there is room");
}

Result<int> node_quarantine(Invocation& call) {
    return on_node(call, call.arguments.argument(0), "quarantine", {{"reason", call.arguments.text("reason")}},
                   "takes no new workers; its runs stay");
}

Result<int> node_undrain(Invocation& call) {
    return on_node(call, call.arguments.argument(0), "undrain", json::object(), "takes workers again");
}

const Flag scratch_quota{.name = "scratch-quota",
                         .takes = Value::text,
                         .shown = "SIZE",
                         .help = "name the runs when their scratch holds more: 100GiB"};

Flag node_data_flag() {
    return {.name = "data",
            .takes = Value::file,
            .shown = "DIR",
            .help = "the agent's data (default: <data home>/nodes/<name>)"};
}

}  // namespace

Result<NodeOptions> node_options(const Arguments& arguments) {
    NodeOptions options;
    options.head = arguments.argument(0);
    if (Result<HostPort> where = parse_host_port(options.head, 7433); !where) return where.error();
    options.name = arguments.text("name", default_node_name());
    options.data = absolute(arguments.text("data", node_data(options.name)));
    Result<std::string> token = join_token(arguments);
    if (!token) return token.error();
    options.token = std::move(*token);
    options.other_heads = arguments.list("or-head");
    for (const std::string& other : options.other_heads)
        if (Result<HostPort> where = parse_host_port(other, 7433); !where) return where.error();
    options.address = arguments.text("address");
    const std::int64_t port = arguments.number("peer-port", options.peer_port);
    if (port > 65535)
        return Error{.code = ErrorCode::usage,
                     .message = "--peer-port: " + std::to_string(port) + " is above 65535",
                     .next = "rtrain node join --help"};
    options.peer_port = static_cast<std::uint16_t>(port);
    options.resources = arguments.text("resources");
    options.fake_gpus = arguments.text("fake-gpus");
    options.accelerator_type = arguments.text("accelerator-type");
    if (arguments.has("scratch")) options.scratch = absolute(arguments.text("scratch"));
    if (Status fine = take_warm_flags(arguments, options); !fine) return fine.error();
    const struct {
        const char *flag, *example;
        std::int64_t& bytes;
    } amounts[] = {{"scratch-quota", "100GiB", options.scratch_quota}, {"disk-reserve", "2GiB", options.disk_reserve}};
    for (const auto& amount : amounts)
        if (Status fine = take_amount(arguments, amount.flag, amount.example, amount.bytes); !fine) return fine.error();
    options.allow_root_workers = arguments.has("allow-root-workers");
    if (arguments.has("storage-rules")) options.storage_rules = absolute(arguments.text("storage-rules"));
    options.allow_setuid = arguments.has("allow-setuid");
    options.drain_on_sigterm_ms = arguments.duration_ms("drain-on-sigterm", 0);
    if (Status fine = take_memory_flags(arguments, options); !fine) return fine.error();
    auto labels = parse_labels(arguments.list("label"));
    if (!labels) return labels.error();
    options.labels = std::move(*labels);
    auto passed = parse_pass_env(arguments.list("pass-env"));
    if (!passed) return passed.error();
    options.pass_env = std::move(*passed);
    return options;
}

Flag token_file_flag() {
    return {.name = "token-file",
            .takes = Value::file,
            .shown = "FILE",
            .help = "a file with the token that not everybody may read; -: standard input"};
}

std::vector<Flag> node_join_flags() {
    std::vector<Flag> flags{
        {.name = "token",
         .takes = Value::text,
         .shown = "TOKEN",
         .help = "from `rtrain head start` or `rtrain token create` (RTRAIN_JOIN_TOKEN)"},
        token_file_flag(),
        {.name = "name", .takes = Value::text, .shown = "NAME", .help = "of the node (default: the host's)"},
        {.name = "or-head",
         .takes = Value::text,
         .shown = "HOST:PORT",
         .help = "where this cluster's head may serve instead, such as one that is restored elsewhere",
         .repeated = true},
        {.name = "address",
         .takes = Value::text,
         .shown = "ADDRESS",
         .help = "where other nodes reach it (default: its end of the connection)"},
        {.name = "peer-port",
         .takes = Value::number,
         .shown = "PORT",
         .help = "where it listens for other agents (default 7434; 0: any)"},
        {.name = "resources",
         .takes = Value::text,
         .shown = "LIST",
         .help = "instead of what is found: CPU=8,memory=16Gi,GPU=2"},
        {.name = "fake-gpus", .takes = Value::text, .shown = "NxTYPE", .help = "offer GPUs that are not there: 8xA100"},
        {.name = "accelerator-type",
         .takes = Value::text,
         .shown = "TYPE",
         .help = "instead of the type read from the GPU's name"},
        {.name = "label",
         .takes = Value::text,
         .shown = "KEY=VALUE",
         .help = "for label_selector and topology",
         .repeated = true},
        {.name = "allow-root-workers", .help = "workers may run as root, when the agent does"},
        {.name = "storage-rules",
         .takes = Value::file,
         .shown = "FILE",
         .help = "which users and queues may use which storage paths, as in configs/storage-rules.yaml"},
        {.name = "pass-env",
         .takes = Value::text,
         .shown = "NAME,PREFIX*",
         .help = "of the agent's environment, what jobs get besides PATH, HOME, language and proxies",
         .repeated = true},
        {.name = "allow-setuid", .help = "programs of jobs may gain rights: sudo, ping, fusermount"},
        {.name = "drain-on-sigterm",
         .takes = Value::duration,
         .shown = "GRACE",
         .help = "SIGTERM drains the node, and ends agent and workers within GRACE (else the next agent adopts them)"},
        {.name = "scratch",
         .takes = Value::file,
         .shown = "DIR",
         .help = "fast disk of this node, for the workers' TMPDIR"},
        scratch_quota,
        {.name = "disk-reserve",
         .takes = Value::text,
         .shown = "SIZE",
         .help = "of the disk of --data, which stays free: new runs start elsewhere below it (default 512MiB)"},
        node_data_flag(),
        {.name = "detach", .help = "return once it has joined; its log is <data>/agent.log"}};
    for (const std::vector<Flag>& more : {warm_flags(), memory_flags()})
        flags.insert(flags.end(), more.begin(), more.end());
    return flags;
}

std::vector<Command> node_commands() {
    const char* group = "Nodes";
    return {{.words = "node join",
             .group = group,
             .help = "make this machine a node of the cluster",
             .arguments = {{.name = "HOST:PORT"}},
             .flags = node_join_flags(),
             .handler = node_join,
             .reach = Reach::this_machine}};
}

// Returns the rows of the verbs that take a node out of use and put it back.
std::vector<Command> node_use_commands() {
    const char* group = "Nodes";
    const Argument node{.name = "NODE", .value = Value::node};
    const Flag data = node_data_flag();
    return {{.words = "node leave",
             .group = group,
             .help = "take a node out of the cluster (default: the node in --data, else of this host's name)",
             .arguments = {{.name = "NODE", .value = Value::node, .optional = true}},
             .flags = {data, {.name = "dry-run", .help = "say what runs on it"}},
             .handler = node_leave},
            {.words = "node stop",
             .group = group,
             .help = "end the agent on this machine; its workers go on, and the next agent adopts them",
             .arguments = {{.name = "NODE", .value = Value::node, .optional = true}},
             .flags = {data},
             .handler = node_stop,
             .reach = Reach::this_machine},
            {.words = "node drain",
             .group = group,
             .help = "place nothing new on a node, and move its runs at their next checkpoint",
             .arguments = {node},
             .flags = {{.name = "deadline",
                        .takes = Value::duration,
                        .shown = "TIME",
                        .help = "then what is still there is stopped and moved, from its last checkpoint"},
                       {.name = "reason", .takes = Value::text, .shown = "TEXT", .help = "for the others to read"}},
             .handler = node_drain},
            {.words = "node quarantine",
             .group = group,
             .help = "place nothing new on a node, and let its runs stay, until `node undrain`",
             .arguments = {node},
             .flags = {{.name = "reason", .takes = Value::text, .shown = "TEXT", .help = "for the others to read"}},
             .handler = node_quarantine},
            {.words = "node undrain",
             .group = group,
             .help = "place on it again; also lifts a quarantine",
             .arguments = {node},
             .handler = node_undrain}};
}

}  // namespace rtrain::cmd
