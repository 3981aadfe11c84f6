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
