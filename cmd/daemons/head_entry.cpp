// Makes a serving head from flags, in the foreground or detached.
#include "cmd/daemons/head_entry.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/daemons/supervisor.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/units.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::cmd {

using nlohmann::json;

std::string head_data(const Arguments& arguments) { return absolute(arguments.text("data", data_home() + "/head")); }

bool names_a_cluster(const Arguments& arguments) {
    return arguments.has("address") || arguments.has("context") || !environment("RTRAIN_ADDRESS").empty() ||
           !environment("RTRAIN_CONTEXT").empty();
}

Status check_one_head(const Arguments& arguments) {
    const char* other = arguments.has("context") ? "--context" : "--address";
    if (!arguments.has("data") || (!arguments.has("context") && !arguments.has("address"))) return Done{};
    return Error{.code = ErrorCode::usage,
                 .message = std::string("--data names a head on this machine, ") + other + " another one",
                 .next = std::string("leave out --data or ") + other};
}

Result<Api> open_head_in(Invocation& call, const std::string& data) {
    std::ifstream file(data + "/ca.crt");
    const std::string ca{std::istreambuf_iterator<char>(file), {}};
    if (ca.empty())
        return Error{.code = ErrorCode::not_found,
                     .message = data + "/ca.crt cannot be read, so the head on " + data + " cannot be recognised",
                     .next = "use an account that may read it"};
    const auto print = security::fingerprint(ca);
    const auto is_this = [&](const std::string& authority, const std::string& fingerprint) {
        return authority.empty() ? print && fingerprint == *print : authority == ca;
    };
    const Result<Settings> settings = Settings::load(call.arguments);
    if (settings && is_this(settings->value("ca"), settings->value("ca_fingerprint"))) return Api::open(call);
    const std::string path = user_config_path(call.arguments);
    Result<ConfigFile> config = read_config(path);
    if (!config) return config.error();
    for (const auto& [name, place] : config->contexts)
        if (is_this(place.ca, place.ca_fingerprint)) return Api::open(call, place, 5'000);
    return Error{.code = ErrorCode::unauthorised,
                 .message = path + " has no context of the head on " + data,
                 .next = "rtrain token create --data " + shell_word(data) + " makes a token of it"};
}

std::string reachable_host(const std::string& bound) {
    if (bound != "0.0.0.0" && bound != "::") return bound;
    ifaddrs* first = nullptr;
    std::string address = "127.0.0.1";
    if (getifaddrs(&first) != 0) return address;
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
        const bool candidate = at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET &&
                               (at->ifa_flags & IFF_LOOPBACK) == 0 && (at->ifa_flags & IFF_UP) != 0;
        if (!candidate) continue;
        char text[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof text);
        address = text;
        break;
    }
    freeifaddrs(first);
    return address;
}

json started_json(const HeadOptions& options, const HeadListening& started) {
    const std::string address = host_port_text(reachable_host(options.host), started.port);
    json value = {{"address", address},
                  {"host", options.host},
                  {"port", started.port},
                  {"pid", getpid()},
                  {"data", options.data_dir},
                  {"cluster_id", started.cluster_id},
                  {"name", started.name},
                  {"ca", started.ca},
                  {"ca_fingerprint", started.ca_fingerprint},
                  {"admin_token", started.admin_token},
                  {"warnings", started.warnings}};
    if (!started.join_token.empty()) {
        value["join_token"] = started.join_token;
        value["join_token_expires"] = time_text(started.join_token_expires_wall_ms);
        value["join_command"] = "rtrain node join " + address + " --token " + started.join_token + " --name node-1";
    }
    return value;
}

Status serve(const HeadOptions& options, const std::function<void(const json&)>& ready) {
    const std::string pid_file = options.data_dir + head_pid_file;
    Status known = Done{};
    const Status served = serve_head(options, [&](const HeadListening& started) {
        const json started_head = started_json(options, started);
        known = write_pid_file(pid_file, started_head["address"].get<std::string>());
        if (known) return ready(started_head);
        std::raise(SIGTERM);  // without a pid file no other program could find this head and end it
    });
    remove_pid_file(pid_file);
    return served ? known : served;
}

namespace {

// Returns the port that the last head used for agents and users, from its pid file, which still exists after the head
// was killed. Thus a port that was chosen at the first start stays the same.
std::uint16_t port_of_before(const std::string& pid_file, std::uint16_t asked) {
    std::ifstream file(pid_file);
    std::string pid, began, address;
    file >> pid >> began >> address;
    const Result<HostPort> where = parse_host_port(address, asked);
    return asked == 0 && where ? where->port : asked;
}

}  // namespace

Result<json> serve_detached(const HeadOptions& options, int until_pid) {
    constexpr std::int64_t wait_ms = 30'000;
    const std::string pid_file = options.data_dir + head_pid_file;
    const auto daemon = [&](const DaemonStart& start) -> Result<int> {
        HeadOptions now = options;
        now.again = start.again;
        if (start.again) now.port = port_of_before(pid_file, options.port);
        const Status served = serve(now, [&](const json& started_head) {
            start.hand_over(json_text(started_head));
            end_with(until_pid);
        });
        if (!served) return served.error();
        return 0;
    };
    const std::string log_file = options.data_dir + "/head.log";
    Result<Detached> started = detach_supervised(log_file, pid_file, wait_ms, daemon);
    if (!started) return started.error();
    return answer_of(*started, log_file);
}

Result<std::string> keep_context(Invocation& call, const json& started) {
    const std::string path = user_config_path(call.arguments);
    Result<ConfigFile> config = read_config(path);
    if (!config) return config.error();
    Place place{
        .address = started["address"], .token = started["admin_token"], .ca = started["ca"], .ca_fingerprint = ""};
    std::string name;
    for (const auto& [known, other] : config->contexts)
        if (other.ca == place.ca) name = known;
    const bool first_start = !place.token.empty();
    // The cluster belongs to another user, and this user has no token for it.
    if (!first_start && name.empty()) return std::string();
    if (!name.empty() && !first_start) place.token = config->contexts[name].token;
    for (int number = 1; name.empty(); ++number) {
        const std::string candidate =
            started.value("name", "rtrain") + (number == 1 ? "" : "-" + std::to_string(number));
        if (config->contexts.find(candidate) == config->contexts.end()) name = candidate;
    }
    const bool make_current = first_start || config->current.empty();
    if (Status changed = change_config(path, {{name, place}}, {}, make_current ? std::optional(name) : std::nullopt);
        !changed)
        return changed.error();
    return name;
}

}  // namespace rtrain::cmd
