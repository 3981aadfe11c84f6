#include "daemon/agent/worker_link/rank_holders.hpp"

#include <cstdlib>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {

ProcessId RankHolders::claim(AttemptKey attempt, std::uint32_t rank, ProcessId claimant, const Runs& runs) {
    const auto [place, free] = holders_.try_emplace({attempt, rank}, claimant);
    if (!free && place->second != claimant && !runs(place->second)) place->second = claimant;
    return place->second;
}

std::optional<ProcessId> RankHolders::holder(AttemptKey attempt, std::uint32_t rank, const Runs& runs) const {
    const auto place = holders_.find({attempt, rank});
    if (place == holders_.end() || !runs(place->second)) return std::nullopt;
    return place->second;
}

void RankHolders::restore(AttemptKey attempt, std::uint32_t rank, ProcessId holder) {
    holders_.insert_or_assign({attempt, rank}, holder);
}

void RankHolders::release(AttemptKey attempt, std::uint32_t rank, ProcessId by) {
    const auto place = holders_.find({attempt, rank});
    if (place != holders_.end() && place->second == by) holders_.erase(place);
}

void RankHolders::forget(AttemptKey attempt) {
    std::erase_if(holders_, [&](const auto& place) { return place.first.first == attempt; });
}

namespace {

struct Stat {
    char state = 'X';
    std::uint64_t start = 0;
};

// Fields 3 and 22 of /proc/PID/stat. The second field, a name in brackets, may hold anything.
Stat stat_of(std::int64_t pid) {
    Stat process;
    const auto text = read_whole("/proc/" + std::to_string(pid) + "/stat");
    if (!text) return process;
    auto at = text->rfind(')');
    if (at == std::string::npos || at + 2 >= text->size()) return process;
    process.state = (*text)[at + 2];
    for (int field = 2; at != std::string::npos && field < 22; ++field) at = text->find(' ', at + 1);
    if (at != std::string::npos) process.start = std::strtoull(text->c_str() + at, nullptr, 10);
    return process;
}

}  // namespace

ProcessId process_of(std::int64_t pid) { return {.pid = pid, .start = pid > 0 ? stat_of(pid).start : 0}; }

bool still_runs(const ProcessId& process) {
    if (process.pid <= 0 || process.start == 0) return false;
    const Stat now = stat_of(process.pid);
    return now.start == process.start && now.state != 'Z' && now.state != 'X';
}

void keep_holder(const std::string& path, ProcessId holder) {
    const std::string text = "pid " + std::to_string(holder.pid) + "\nstart " + std::to_string(holder.start) + "\n";
    if (Status kept = write_whole(path, text, 0600, Durable::no); !kept)
        warn("which process speaks for a rank is not known to the next agent: " + kept.error().message);
}

std::optional<ProcessId> kept_holder(const std::string& path) {
    const auto values = read_values(path);
    const auto pid = values.find("pid"), start = values.find("start");
    if (pid == values.end() || start == values.end()) return std::nullopt;
    return ProcessId{.pid = std::strtoll(pid->second.c_str(), nullptr, 10),
                     .start = std::strtoull(start->second.c_str(), nullptr, 10)};
}

}  // namespace rtrain::agent
