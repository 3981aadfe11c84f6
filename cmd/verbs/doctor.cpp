// rtrain doctor: prints one line for each possible problem, with its remedy. Exits with 1 if there is a problem.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/client/node_probe.hpp"
#include "cmd/daemons/head_entry.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "daemon/security/security.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

class Findings {
  public:
    void ok(const std::string& check, const std::string& text) { add("ok", check, text, ""); }
    void warn(const std::string& check, const std::string& text, const std::string& next) {
        add("warn", check, text, next);
    }
    void fail(const std::string& check, const std::string& text, const std::string& next) {
        failed_ = true;
        add("fail", check, text, next);
    }
    json items = json::array();
    bool failed() const { return failed_; }

  private:
    void add(const char* state, const std::string& check, const std::string& text, const std::string& next) {
        items.push_back({{"check", check}, {"state", state}, {"text", text}, {"next", next}});
    }
    bool failed_ = false;
};

void check_config(const Arguments& arguments, Findings& findings) {
    const std::string path = user_config_path(arguments);
    struct stat facts{};
    if (stat(path.c_str(), &facts) != 0)
        return findings.warn("configuration", "there is no " + path, "rtrain up, or rtrain context add");
    if ((facts.st_mode & 077) != 0)
        return findings.fail("configuration", path + " holds tokens and can be read by others", "chmod 600 " + path);
    Result<ConfigFile> config = read_config(path);
    if (!config) return findings.fail("configuration", config.error().message, config.error().next);
    findings.ok("configuration", path + ", " + std::to_string(config->contexts.size()) + " contexts");
}

void check_ca(const Settings& settings, Findings& findings) {
    constexpr std::int64_t month_ms = 30LL * 86'400'000;
    if (settings.value("ca").empty()) return;
    Result<std::int64_t> expires = security::expires_wall_ms(settings.value("ca"));
    if (!expires)
        return findings.fail("CA", "the pinned CA is not a certificate: " + expires.error().message,
                             "rtrain context add again, with the head's <data>/ca.crt");
    if (*expires < wall_now_ms() + month_ms)
        return findings.warn("CA", "the cluster's CA ends at " + time_text(*expires),
                             "start a new cluster, and restore its runs there");
    findings.ok("CA", "pinned, until " + time_text(*expires).substr(0, 10));
}

void check_clock(const json& status, std::int64_t asked_ms, Findings& findings) {
    constexpr std::int64_t most_ms = 5'000;
    const auto theirs = parse_time(string_of(status, "now"));
    if (!theirs) return;
    const std::int64_t apart = *theirs - (asked_ms + wall_now_ms()) / 2;
    const std::string text =
        duration_text(apart < 0 ? -apart : apart) + (apart < 0 ? " behind" : " ahead of") + " this machine";
    if (apart > most_ms || apart < -most_ms)
        return findings.warn("clock", "the head's clock is " + text,
                             "set both by NTP; certificates and times in logs depend on it");
    findings.ok("clock", "the head's is within " + duration_text(most_ms));
}

// Returns why this machine cannot connect to the address. Returns an empty text if it can. Agents connect to each other
// in the same way.
std::string dial(const std::string& host, int port) {
    constexpr int patience_ms = 2'000;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); error != 0)
        return gai_strerror(error);
    const int handle = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = handle < 0 || connect(handle, list->ai_addr, list->ai_addrlen) != 0 ? errno : 0;
    if (handle >= 0 && error == EINPROGRESS) {
        pollfd waiting{.fd = handle, .events = POLLOUT, .revents = 0};
        socklen_t size = sizeof error;
        if (poll(&waiting, 1, patience_ms) <= 0)
            error = ETIMEDOUT;
        else
            getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (handle >= 0) close(handle);
    freeaddrinfo(list);
    return error == 0 ? "" : std::strerror(error);
}

void check_node(const json& node, Findings& findings) {
    constexpr std::int64_t late_ms = 5'000;
    const std::string name = "node " + string_of(node, "node");
    const std::string state = string_of(node, "state");
    if (state == "LOST")
        return findings.fail(name, "lost: " + string_of(node, "reason"),
                             "look at the agent's log there; rtrain node leave " + string_of(node, "node") +
                                 " when it is gone for good");
    const std::int64_t silent =
        node.value("last_heartbeat_ms", json(0)).is_number() ? node["last_heartbeat_ms"].get<std::int64_t>() : 0;
    if (silent > late_ms)
        findings.warn(name, "no heartbeat for " + duration_text(silent),
                      "is the machine overloaded, or the network cut?");
    if (state != "READY")
        findings.warn(name, state + ": " + string_of(node, "reason"), "rtrain node undrain " + string_of(node, "node"));
    const int port = node.value("port", json(0)).is_number() ? node["port"].get<int>() : 0;
    const std::string address = string_of(node, "address");
    if (port != 0) {
        const std::string why = dial(address, port);
        if (!why.empty())
            findings.warn(
                name,
                host_port_text(address, static_cast<std::uint16_t>(port)) + " cannot be reached from here: " + why,
                "the other agents must reach it; behind NAT only single-node runs work. rtrain node join --address "
                "gives another");
    }
    for (const json& warning : node.value("warnings", json::array()))
        findings.warn(
            name, warning.get<std::string>(),
            "end its agent and start it again with rtrain node join --address, one that the other nodes can dial");
    const json facts = node.value("facts", json::object());
    for (const auto& [fact, value] : facts.items()) {
        const bool interpreter = fact.find("python") != fact.npos || fact.find("interpreter") != fact.npos;
        if (interpreter && value.is_string()) findings.ok(name, fact + ": " + value.get<std::string>());
    }
    if (string_of(facts, "jobs_run_as") == "one user")
        findings.warn(name, "its agent is not root: all jobs there run as one user, who can read the node's key",
                      "run the agent as root where users must be separated");
    if (state == "READY" && silent <= late_ms) findings.ok(name, "READY, heartbeat " + duration_text(silent) + " ago");
}

void check_disk(const std::string& what, const std::string& directory, Findings& findings) {
    constexpr std::uint64_t reserve = 2ull << 30;
    struct statvfs facts{};
    if (statvfs(directory.c_str(), &facts) != 0) return;
    const std::uint64_t free_bytes = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
    const std::string text = bytes_text(static_cast<std::int64_t>(free_bytes)) + " free on " + directory;
    if (free_bytes < reserve)
        findings.fail(what, text, "make room, or rtrain storage gc " + shell_word(directory));
    else
        findings.ok(what, text);
}

constexpr std::int64_t token_warning_ms = 14LL * 86'400'000;

// Warns about tokens that expire within two weeks: the caller's own token, and for an admin the tokens of all users.
void check_tokens(Api& api, const json& status, Findings& findings) {
    const json own = status.value("token", json::object());
    const auto soon = [](const json& token) {
        const auto until = parse_time(string_of(token, "expires"));
        return until && *until > wall_now_ms() && *until < wall_now_ms() + token_warning_ms;
    };
    const auto whose = [](const json& token) {
        return string_of(token, "id") + " (" + string_of(token, "role") + " " + string_of(token, "user") +
               ") expires " + string_of(token, "expires");
    };
    const std::string until = string_of(own, "expires");
    if (soon(own))
        findings.warn("token", "the one in use, " + whose(own),
                      "ask an admin for a new one; on the head's machine: rtrain token create --data DIR");
    else if (!own.empty())
        findings.ok("token", until.empty() ? "without end" : "until " + until.substr(0, 10));
    if (string_of(own, "role") != "admin") return;
    Result<json> all = api.list("/v1/tokens");
    if (!all) return findings.fail("tokens", all.error().message, all.error().next);
    for (const json& token : (*all)["items"]) {
        const bool counts = string_of(token, "role") != "node" && !token.value("revoked", false);
        if (counts && soon(token) && string_of(token, "id") != string_of(own, "id"))
            findings.warn(
                "token", whose(token),
                "rtrain token create --role " + string_of(token, "role") + " --user " + string_of(token, "user"));
    }
}

// Warns about nodes whose version differs from that of most others, because ranks of one run may start on both.
void compare_versions(const std::vector<NodeAnswer>& answers, const std::string& what,
                      std::string NodeAnswer::* version, Findings& findings) {
    std::map<std::string, std::vector<std::string>> nodes;
    for (const NodeAnswer& answer : answers)
        if (!(answer.*version).empty()) nodes[answer.*version].push_back(answer.node);
    if (nodes.size() < 2) return;
    std::string text;
    for (const auto& [shown, names] : nodes)
        text += (text.empty() ? "" : "; ") + shown + " on " + names.front() +
                (names.size() == 1 ? "" : " and " + std::to_string(names.size() - 1) + " more");
    findings.warn(what, "the nodes have different versions: " + text,
                  "install one version on all nodes, or keep a run to one kind by scaling.label_selector");
}

void check_gpus(const json& node, const NodeAnswer& answer, Findings& findings) {
    const std::string name = "node " + answer.node;
    const std::int64_t gpus = node.value("gpus", json(0)).is_number() ? node["gpus"].get<std::int64_t>() : 0;
    if (gpus > 0 && answer.accelerator == "CPU")
        findings.fail(
            name,
            "offers " + std::to_string(gpus) + " GPUs, and its PyTorch " + answer.torch + " is built for the CPU alone",
            "install a PyTorch for CUDA there (docs/install.md)");
    if (answer.drivers_gpus >= 0 && answer.drivers_gpus != gpus)
        findings.warn(name,
                      "the driver lists " + std::to_string(answer.drivers_gpus) + " GPUs, the node offers " +
                          std::to_string(gpus),
                      "start its agent again; --resources GPU=N and CUDA_VISIBLE_DEVICES of the agent limit it");
}

void check_answer(const json& node, const std::string& version, const NodeAnswer& answer, Findings& findings) {
    constexpr std::int64_t clock_most_ms = 5'000;
    const std::string name = "node " + answer.node;
    if (!answer.failed.empty())
        return findings.fail(name, "no Python program ran there: " + answer.failed,
                             "is the interpreter on the PATH of its agent? --interpreter names another one");
    const std::string python = "Python " + answer.python + " (" + answer.executable + ")";
    if (answer.torch.empty())
        findings.fail(name, python + " cannot import torch: " + answer.torch_error,
                      "install PyTorch for that interpreter, or name another one: python.interpreter");
    if (answer.rtrain.empty())
        findings.fail(name, python + " has no rtrain", "install the wheel of version " + version + " there");
    else if (answer.rtrain != version)
        findings.warn(name, python + " has rtrain " + answer.rtrain + ", the head " + version,
                      "install the same version");
    check_gpus(node, answer, findings);
    if (answer.ahead_ms > clock_most_ms || answer.ahead_ms < -clock_most_ms)
        findings.warn(name,
                      "its clock is " + duration_text(std::abs(answer.ahead_ms)) +
                          (answer.ahead_ms < 0 ? " behind" : " ahead of") + " this machine",
                      "set it by NTP; certificates and times in logs depend on it");
    for (const std::string& address : answer.unreachable)
        findings.warn(name, "cannot reach another agent at " + address,
                      "open that port between the nodes; rtrain node join --address gives another address");
    if (!answer.not_stored.empty())
        findings.fail(name, "a file of its run is not in " + answer.storage_path + ": " + answer.not_stored,
                      "can the node write there? rtrain describe NODE, and the agent's log");
    else if (!answer.storage_unknown.empty())
        findings.warn(name, "its storage path was not checked: " + answer.storage_unknown,
                      "run this where the path " + answer.storage_path + " is mounted");
    if (!answer.torch.empty() && !answer.rtrain.empty())
        findings.ok(
            name,
            python + ", torch " + answer.torch + " for " + answer.accelerator + ", rtrain " + answer.rtrain +
                (answer.not_stored.empty() && answer.storage_unknown.empty() ? "; it stores in " + answer.storage_path
                                                                             : ""));
}

// With --cluster, runs a small program on each node that accepts work.
void check_programs(Invocation& call, Api& api, const json& status, const json& nodes, Findings& findings) {
    json working = json::array();
    for (const json& node : nodes)
        if (string_of(node, "state") == "READY" && node.value("connected", false))
            working.push_back(node);
        else
            findings.warn("node " + string_of(node, "node"), "no program ran there: it takes no new runs", "");
    const std::vector<NodeAnswer> answers = probe_nodes(call, api, working);
    for (std::size_t i = 0; i < answers.size(); ++i)
        check_answer(working[i], string_of(status, "version"), answers[i], findings);
    compare_versions(answers, "Python", &NodeAnswer::python, findings);
    compare_versions(answers, "torch", &NodeAnswer::torch, findings);
}

void check_head(Invocation& call, Findings& findings) {
    Result<Settings> settings = Settings::load(call.arguments);
    if (!settings) return findings.fail("configuration", settings.error().message, settings.error().next);
    check_ca(*settings, findings);
    Result<Api> api = Api::open(call);
    if (!api) return findings.fail("head", api.error().message, api.error().next);
    const std::int64_t asked_ms = wall_now_ms();
    Result<json> status = api->get("/v1/status");
    if (!status) return findings.fail("head", status.error().message, status.error().next);
    findings.ok("head", api->address() + " answers, version " + string_of(*status, "version"));
    if (string_of(*status, "version") != RTRAIN_VERSION)
        findings.warn("version", "this command is " RTRAIN_VERSION ", the head " + string_of(*status, "version"),
                      "install the same version");
    check_clock(*status, asked_ms, findings);
    check_tokens(*api, *status, findings);
    if (const std::string warning = string_of(*status, "storage_warning"); !warning.empty())
        findings.warn("storage", warning, "rtrain head start --storage-root DIR on a disk that lasts");
    else
        findings.ok("storage", string_of(*status, "storage_root"));
    Result<json> nodes = api->list("/v1/nodes");
    if (!nodes) return findings.fail("nodes", nodes.error().message, nodes.error().next);
    if ((*nodes)["items"].empty()) findings.warn("nodes", "no node has joined", "rtrain token create --role node");
    for (const json& node : (*nodes)["items"]) check_node(node, findings);
    if (call.arguments.has("cluster")) check_programs(call, *api, *status, (*nodes)["items"], findings);
}

void check_this_machine(const Arguments& arguments, Findings& findings) {
    const std::string data = head_data(arguments);
    const auto running = read_pid_file(data + head_pid_file);
    if (running) {
        findings.ok("head process",
                    "pid " + std::to_string(running->pid) + " at " + running->facts + ", data in " + data);
        check_disk("disk", data, findings);
        if (const std::string type = storage::volatile_filesystem(data); !type.empty())
            findings.warn("disk", data + " is on " + type + ": it does not outlive the machine",
                          "rtrain head start --data on a disk");
    }
    std::string python;
    for (const std::string& folder : split(environment("PATH"), ':'))
        if (python.empty() && access((folder + "/python3").c_str(), X_OK) == 0) python = folder + "/python3";
    if (python.empty())
        findings.warn("interpreter", "there is no python3 on the PATH of this shell",
                      "jobs name theirs with python.interpreter");
    else
        findings.ok("interpreter", python);
}

Result<int> doctor(Invocation& call) {
    Findings findings;
    check_config(call.arguments, findings);
    check_this_machine(call.arguments, findings);
    check_head(call, findings);
    call.out.list({{"items", findings.items}, {"healthy", !findings.failed()}},
                  {{"CHECK", "check"}, {"STATE", "state", Shape::state}, {"FINDING", "text"}, {"DO", "next"}}, "check",
                  "");
    return findings.failed() ? 1 : 0;
}

}  // namespace

std::vector<Command> doctor_commands() {
    return {
        {.words = "doctor",
         .group = "Tools",
         .help = "check this machine, the head and the nodes; exit 1 when something is wrong",
         .flags = {{.name = "data", .takes = Value::file, .shown = "DIR", .help = "the head's data, when it runs here"},
                   {.name = "cluster",
                    .help = "run a small program on each node: Python, torch, rtrain, GPUs, storage, clock, ports"},
                   {.name = "interpreter",
                    .takes = Value::text,
                    .shown = "PYTHON",
                    .help = "with --cluster: Python as jobs name it (default python)"},
                   {.name = "storage-path",
                    .takes = Value::text,
                    .shown = "PATH",
                    .help = "with --cluster: where that program's run is stored (default: as for any job)"}},
         .handler = doctor}};
}

}  // namespace rtrain::cmd
