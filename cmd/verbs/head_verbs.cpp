// rtrain head start|stop|status|verify|restore-backup.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/daemons/head_entry.hpp"
#include "cmd/daemons/notify.hpp"
#include "cmd/daemons/supervisor.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/verbs/start_flags.hpp"
#include "daemon/head/autoscale/command.hpp"
#include "daemon/head/backup/sealed_file.hpp"
#include "storage/job_spec/fields/autoscale.hpp"
#include "storage/job_spec/fields/queues.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Reads the queues of a file. If the file has problems, it prints all of them with their lines and changes no queue.
Status take_queues(Invocation& call, const std::string& path, HeadOptions& options) {
    Result<std::string> text = read_text(path);
    if (!text) return text.error();
    spec::QueuesAnswer answer = spec::read_queues(*text);
    for (const Problem& problem : answer.problems) call.out.talk(spec::problem_text(problem, path, *text));
    call.problems = answer.problems;
    if (!answer.queues)
        return Error{.code = ErrorCode::invalid,
                     .message = path + " has " + std::to_string(answer.problems.size()) +
                                (answer.problems.size() == 1 ? " problem" : " problems") + "; the head was not started",
                     .next = "configs/queues.yaml shows every field"};
    options.queues = std::move(answer.queues);
    options.queues_file = path;
    options.queues_text = *text;
    return Done{};
}

Error wrong_autoscale(const std::string& path, std::size_t problems) {
    return {.code = ErrorCode::invalid,
            .message = path + " has " + std::to_string(problems) + (problems == 1 ? " problem" : " problems") +
                       "; the head was not started",
            .next = "configs/autoscale shows every field"};
}

// Reads the autoscaler's settings from a file. Fails if another user can change the file, or the programs in it,
// because the head runs these programs.
Status take_autoscale(Invocation& call, const std::string& path, HeadOptions& options) {
    if (Status ours = head::only_ours(path); !ours) return ours;
    Result<std::string> text = read_text(path);
    if (!text) return text.error();
    spec::AutoscaleAnswer answer = spec::read_autoscale(*text);
    for (const Problem& problem : answer.problems) call.out.talk(spec::problem_text(problem, path, *text));
    call.problems = answer.problems;
    if (!answer.rules) return wrong_autoscale(path, answer.problems.size());
    for (const auto* words : {&answer.rules->provision, &answer.rules->release})
        if (Status ours = head::only_ours(words->front()); !ours) return ours;
    options.autoscale = std::move(answer.rules);
    return Done{};
}

// Prints the address of a started head, the place of its authority's certificate, and the command that joins a node.
void announce(Invocation& call, json head) {
    Result<std::string> context = keep_context(call, head);
    if (!context)
        call.out.talk("warning: the context was not kept: " + context.error().message +
                      "\n  next: once it can be written, stop the head and start it again; until somebody has used the "
                      "admin token, each start makes it anew");
    const std::string name = context ? *context : "";
    std::string text = "head \"" + head.value("name", "") + "\" (cluster " + head.value("cluster_id", "").substr(0, 6) +
                       ") serves at " + head.value("address", "") + ", pid " + std::to_string(head.value("pid", 0)) +
                       ", data in " + head.value("data", "") + "\n";
    if (!name.empty()) text += "context \"" + name + "\" is in " + user_config_path(call.arguments) + "\n";
    if (head.contains("join_command"))
        text += "to join a node, once, before " + head.value("join_token_expires", "") + ":\n  " +
                head.value("join_command", "") + "\n";
    else
        text += "to join a node: rtrain token create --role node\n";
    for (const json& warning : head["warnings"]) call.out.talk("warning: " + warning.get<std::string>());
    head["context"] = name;
    // The token is removed from the output. It is stored in the context, and must not be in a log.
    head.erase("admin_token");
    call.out.document(head, "address", text);
    call.out.flush();
}

Result<int> head_start(Invocation& call) {
    Result<HeadOptions> options = head_options(call);
    if (!options) return options.error();
    announce_directory(call, options->data_dir);
    if (Status status = make_directory(options->data_dir); !status) return status.error();
    if (const auto running = read_daemon(options->data_dir + head_pid_file))
        return Error{.code = ErrorCode::conflict,
                     .message = "a head runs on " + options->data_dir + " already: pid " +
                                std::to_string(running->pid) + " at " + running->facts,
                     .next = "rtrain head stop --data " + shell_word(options->data_dir)};
    if (call.arguments.has("detach")) {
        Result<json> head = serve_detached(*options);
        if (!head) return head.error();
        announce(call, *head);
        return 0;
    }
    const Notifier manager = Notifier::from_environment();
    if (manager.watchdog_ms() > 0) {
        options->alive_every_ms = std::max<std::int64_t>(manager.watchdog_ms() / 3, 1);
        options->alive = [&manager] { manager.feed_watchdog(); };
    }
    const Status served = serve(*options, [&](json head) {
        // The output of a service is stored in the machine's log, which must not contain a token.
        if (manager.wanted()) head.erase("join_command");
        if (manager.wanted()) head.erase("join_token");
        announce(call, head);
        if (Status known = manager.ready("serves at " + head.value("address", "")); !known)
            call.out.talk("warning: " + known.error().message + "\n  next: " + known.error().next);
    });
    if (!served) return served.error();
    return 0;
}

Result<int> head_stop(Invocation& call) {
    constexpr std::int64_t wait_ms = 30'000;
    if (Status fine = check_one_head(call.arguments); !fine) return fine.error();
    const bool here = call.arguments.has("data") || !names_a_cluster(call.arguments);
    const std::string data = head_data(call.arguments);
    if (const auto ended = here ? end_daemon(data + head_pid_file, wait_ms) : std::nullopt) {
        if (!*ended) return ended->error();
        const EndedDaemon& head = **ended;
        call.out.document({{"stopped", true}, {"pid", head.pid}, {"killed", head.killed}}, "pid",
                          "head " + std::to_string(head.pid) +
                              (head.killed ? " did not end in 30 s and was killed\n" : " stopped\n"));
        return 0;
    }
    if (call.arguments.has("data"))
        return Error{.code = ErrorCode::not_found,
                     .message = "no head runs on " + data,
                     .next = "rtrain head start --data " + shell_word(data)};
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->post("/v1/head/stop", json::object());
    if (!answer) return answer.error();
    call.out.document({{"stopped", true}, {"address", api->address()}}, "address",
                      "the head at " + api->address() + " stops\n");
    return 0;
}

Result<int> head_status(Invocation& call) {
    if (Status fine = check_one_head(call.arguments); !fine) return fine.error();
    const bool here = call.arguments.has("data") || !names_a_cluster(call.arguments);
    const std::string data = head_data(call.arguments);
    auto running = here ? read_pid_file(data + head_pid_file) : std::nullopt;
    if (call.arguments.has("data") && !running)
        return Error{.code = ErrorCode::unreachable,
                     .message = "no head runs on " + data,
                     .next = "rtrain head start --data " + shell_word(data)};
    Result<Api> api = call.arguments.has("data") ? open_head_in(call, data) : Api::open(call);
    if (!api) return api.error();
    // the context in use belongs to another head, so the head on this machine is not meant
    if (running && api->address() != running->facts) running.reset();
    Result<json> status = api->get("/v1/status");
    if (!status) return status.error();
    if (running) {
        (*status)["pid"] = running->pid;
        (*status)["data"] = data;
    }
    call.out.document(
        *status, "name",
        status_text(*status) +
            (running ? "process   pid " + std::to_string(running->pid) + ", data in " + data + "\n" : ""));
    return 0;
}

Result<int> head_verify(Invocation& call) {
    const std::string data = head_data(call.arguments);
    Result<std::string> verified = state::SqliteJournal::verify(data);
    if (!verified) return verified.error();
    call.out.document({{"sound", true}, {"data", data}, {"summary", *verified}}, "data", *verified + "\n");
    return 0;
}

Result<int> head_restore_backup(Invocation& call) {
    const std::string file = absolute(call.arguments.argument(0));
    const std::string data = head_data(call.arguments);
    std::error_code failed;
    if (head::is_sealed_backup(file))
        return Error{.code = ErrorCode::usage,
                     .message = file + " is a sealed backup of a whole head",
                     .next = "rtrain head restore " + shell_word(file) + " --data DIR"};
    if (!std::filesystem::exists(file, failed))
        return Error{.code = ErrorCode::not_found,
                     .message = "there is no backup " + file,
                     .next = "rtrain head backup FILE --state-only makes one"};
    if (const auto running = read_pid_file(data + head_pid_file))
        return Error{.code = ErrorCode::conflict,
                     .message = "the head of " + data + " runs: pid " + std::to_string(running->pid),
                     .next = "rtrain head stop --data " + shell_word(data)};
    const bool present = std::filesystem::exists(data, failed) && !std::filesystem::is_empty(data, failed);
    if (call.arguments.has("dry-run")) {
        call.out.document(
            {{"file", file}, {"data", data}, {"replaces", present}, {"dry_run", true}}, "data",
            "would " + std::string(present ? "replace the state in " : "make ") + data + " from " + file + "\n");
        return 0;
    }
    if (present)
        if (Status sure = confirm(call, "The state in " + data + " will be replaced by " + file + "."); !sure)
            return sure.error();
    if (Status status = make_directory(data); !status) return status.error();
    if (Status done = state::SqliteJournal::restore_backup(file, data); !done) return done.error();
    call.out.document(
        {{"file", file}, {"data", data}}, "data",
        "restored into " + data + "; start it with `rtrain head start --data " + shell_word(data) + "`\n");
    return 0;
}

Flag head_data_flag() {
    return {
        .name = "data", .takes = Value::file, .shown = "DIR", .help = "the head's data (default: <data home>/head)"};
}

}  // namespace

Result<HeadOptions> head_options(Invocation& call, const std::string& root) {
    const Arguments& arguments = call.arguments;
    HeadOptions options;
    options.data_dir = head_data(arguments);
    options.host = arguments.text("host", options.host);
    const std::int64_t port = arguments.number("port", options.port);
    if (port > 65535)
        return Error{.code = ErrorCode::usage,
                     .message = "--port: " + std::to_string(port) + " is above 65535",
                     .next = "rtrain head start --help"};
    options.port = static_cast<std::uint16_t>(port);
    if (arguments.has("storage-root")) options.storage_root = absolute(arguments.text("storage-root"));
    options.name = arguments.text("name");
    options.new_authority = arguments.has("new-ca");
    options.page_names = arguments.list("page-name");
    options.node_timeout_ms = arguments.duration_ms("node-timeout", options.node_timeout_ms);
    const std::string queues = arguments.text("queues");
    if (arguments.has("queues"))
        if (Status taken = take_queues(call, root.empty() ? queues : root + absolute(queues), options); !taken)
            return taken.error();
    const std::string autoscale = arguments.text("autoscale");
    if (arguments.has("autoscale"))
        if (Status taken = take_autoscale(call, root.empty() ? autoscale : root + absolute(autoscale), options); !taken)
            return taken.error();
    return options;
}

std::vector<Flag> head_start_flags() {
    return {{.name = "host", .takes = Value::text, .shown = "ADDRESS", .help = "listen there (default: loopback only)"},
            {.name = "port", .takes = Value::number, .shown = "PORT", .help = "default 7433; 0: any"},
            head_data_flag(),
            {.name = "name", .takes = Value::text, .shown = "NAME", .help = "the cluster's name, for people"},
            {.name = "page-name",
             .takes = Value::text,
             .shown = "NAME",
             .help = "a name of this machine by which browsers open the page, beside its own host name",
             .repeated = true},
            {.name = "storage-root",
             .takes = Value::file,
             .shown = "DIR",
             .help = "where cluster:// lies (default: below the data)"},
            {.name = "node-timeout",
             .takes = Value::duration,
             .shown = "TIME",
             .help = "silence after which a node counts as lost (default 10s)"},
            {.name = "queues",
             .takes = Value::file,
             .shown = "FILE",
             .help = "the cluster's queues, as in configs/queues.yaml (default: those it has)"},
            {.name = "autoscale",
             .takes = Value::file,
             .shown = "FILE",
             .help = "commands that order machines and give them back, as in configs/autoscale"},
            {.name = "new-ca",
             .help = "make a new authority where that of these records is lost: each node then joins anew"},
            {.name = "detach", .help = "return once it serves; its log is <data>/head.log"}};
}

std::vector<Command> head_commands() {
    const char* group = "Cluster";
    const Flag data = head_data_flag();
    const Argument file{.name = "FILE", .value = Value::file};
    return {{.words = "head start",
             .group = group,
             .help = "start the head of a cluster; prints the line that joins a node",
             .flags = head_start_flags(),
             .handler = head_start,
             .reach = Reach::this_machine},
            {.words = "head stop",
             .group = group,
             .help = "stop the head; workers go on training",
             .flags = {data},
             .handler = head_stop},
            {.words = "head status",
             .group = group,
             .help = "say whether the head serves, and what it holds",
             .flags = {data},
             .handler = head_status},
            {.words = "head verify",
             .group = group,
             .help = "replay the journal and compare it with the records",
             .flags = {data},
             .handler = head_verify,
             .reach = Reach::this_machine},
            {.words = "head restore-backup",
             .group = group,
             .help = "put a database that --state-only copied in the place of the head's",
             .arguments = {file},
             .flags = {data, {.name = "dry-run", .help = "say what would be replaced"}},
             .handler = head_restore_backup,
             .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
