// The daemons of `rtrain up`, found by their pid files: see local_daemons.hpp.
#include "cmd/local/local_daemons.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "cmd/daemons/head_entry.hpp"
#include "cmd/daemons/node_entry.hpp"
#include "cmd/daemons/supervisor.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t end_within_ms = 30'000;

struct LocalDaemon {
    std::string name, pid_file;
};

// Lists the agents before the head. They are ended in this order, so that the head receives the agents' last messages.
std::vector<LocalDaemon> daemons_below(const std::string& base) {
    std::vector<LocalDaemon> daemons;
    std::error_code failed;
    for (fs::directory_iterator at(base, failed), end; !failed && at != end; at.increment(failed))
        if (at->path().filename().string().starts_with("node-"))
            daemons.push_back({at->path().filename().string(), at->path().string() + node_pid_file});
    daemons.push_back({"head", base + "/head" + head_pid_file});
    return daemons;
}

}  // namespace

RunningDaemons running_daemons(const std::string& base) {
    RunningDaemons running;
    for (const LocalDaemon& daemon : daemons_below(base))
        if (const auto process = read_daemon(daemon.pid_file)) running.emplace(daemon.name, *process);
    return running;
}

std::set<std::string> nodes_of_cluster(std::int64_t count, const RunningDaemons& running) {
    std::set<std::string> names;
    for (std::int64_t number = 1; number <= count; ++number) names.insert("node-" + std::to_string(number));
    for (const auto& [name, daemon] : running)
        if (name != "head") names.insert(name);
    return names;
}

std::string head_address(const RunningDaemons& running) {
    for (const auto& [name, daemon] : running)
        // the facts of a supervisor contain no address
        if (daemon.facts.find(':') != std::string::npos) return daemon.facts;
    return {};
}

Result<json> end_daemons(const std::string& base, const RunningDaemons& kept) {
    json ended = json::array();
    for (const LocalDaemon& daemon : daemons_below(base)) {
        if (kept.find(daemon.name) != kept.end()) continue;
        const auto done = end_daemon(daemon.pid_file, end_within_ms);
        if (!done) continue;
        if (!*done) return done->error();
        ended.push_back({{"name", daemon.name}, {"pid", (*done)->pid}, {"killed", (*done)->killed}});
    }
    return ended;
}

}  // namespace rtrain::cmd
