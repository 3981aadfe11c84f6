// See waits.hpp.
#include "daemon/head/view/waits.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "daemon/head/events/news.hpp"
#include "scheduler/goodput/slow_ranks.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t named_after_ms = 10'000;  // ms; shorter waits in a report are common, so they are not shown
constexpr std::int64_t window_ms = 5'000, fresh_ms = 5'000;
constexpr std::int64_t save_every_ms = 30'000;
constexpr double recent_half_life_ms = 300'000, recent_least_ms = 8'000;
constexpr std::uint64_t waits_many = 50;   // if a window has this many waits, the order of heartbeats matters little
constexpr double slow_least_share = 0.05;  // fraction of the time; a smaller one is noise of the measurement
constexpr double sum_most_ms = 1e12;

double believed(std::int64_t ms) { return std::clamp(static_cast<double>(ms), 0.0, sum_most_ms); }
std::int64_t bytes(std::int64_t number) { return std::clamp<std::int64_t>(number, 0, 1LL << 50); }
Duration whole(double ms) { return {static_cast<std::int64_t>(std::clamp(ms, 0.0, sum_most_ms))}; }
Duration larger(Duration a, Duration b) { return std::max(a, b); }

std::string key_of(const AttemptId& id) {
    return Waits::prefix + std::to_string(id.run.value) + "/" + std::to_string(id.number);
}

}  // namespace

void Waits::take(OfRank& rank, const protocol::WorkerHeartbeat& worker, std::int64_t now_ms) {
    rank.sums = {.barrier = believed(worker.barrier_wait_ms),
                 .data = believed(worker.data_wait_ms),
                 .checkpoint = believed(worker.checkpoint_wait_ms)};
    rank.waits = worker.barrier_waits;
    rank.interval_ms = worker.interval_ms;
    rank.report_wait_ms = worker.report_wait_ms;
    rank.seen_ms = now_ms;
    rank.memory.add(now_ms, worker.resident_bytes);
}

// Closes a window when all ranks have reported the same number of waits. Otherwise a rank whose heartbeat arrived
// earlier would seem slow. With many short waits, a small difference does not matter.
void Waits::close_window(OfAttempt& of, std::int64_t now_ms) {
    if (of.window_ms != 0 && now_ms - of.window_ms < window_ms) return;
    std::uint64_t fewest = ~0ull, fewest_since = ~0ull, most = 0;
    for (const OfRank& rank : of.ranks) {
        if (rank.seen_ms == 0 || now_ms - rank.seen_ms > fresh_ms) return;
        fewest = std::min(fewest, rank.waits);
        fewest_since = std::min(fewest_since, rank.waits - std::min(rank.waits, rank.window_waits));
        most = std::max(most, rank.waits);
    }
    if (of.window_ms != 0 && fewest != most && fewest_since < waits_many) return;
    const double span = of.window_ms == 0 ? 0 : static_cast<double>(now_ms - of.window_ms);
    const double fade = std::exp2(-span / recent_half_life_ms);
    std::vector<double> waited;
    for (OfRank& rank : of.ranks) {
        const auto since = [&](double Sums::* part) { return std::max(0.0, rank.sums.*part - rank.window.*part); };
        waited.push_back(since(&Sums::barrier));
        for (double Sums::* part : {&Sums::barrier, &Sums::data, &Sums::checkpoint})
            rank.recent.*part = span > 0 ? rank.recent.*part * fade + since(part) : 0;
        rank.window = rank.sums;
        rank.window_waits = rank.waits;
    }
    of.recent_ms = of.recent_ms * fade + span;
    of.window_ms = now_ms;
    if (span <= 0) return;
    if (const auto slow = slow_ranks(waited, slow_least_share * span)) of.straggler_ms += slow->mean_wait;
}

void Waits::take(const Cluster& cluster, const NodeId& node, const protocol::Heartbeat& heartbeat,
                 std::int64_t now_ms) {
    OfNode& of_node = nodes_[node];
    of_node = {.memory_free = bytes(heartbeat.memory_total) - bytes(heartbeat.memory_used)};
    protocol::AttemptRef last;
    OfAttempt* of = nullptr;
    std::vector<OfAttempt*> touched;
    for (const protocol::WorkerHeartbeat& worker : heartbeat.workers) {
        of_node.resident += bytes(worker.resident_bytes);
        if (!of || worker.attempt != last) {
            const Attempt* attempt = find_attempt(cluster, worker.attempt);
            last = worker.attempt;
            of = nullptr;
            if (!attempt || terminal(attempt->state)) continue;
            of = &live_[attempt->id];
            of->ranks.resize(attempt->workers.size());
            if (const auto before = known_.find(attempt->id); before != known_.end() && of->straggler_ms == 0)
                of->straggler_ms = static_cast<double>(before->second.straggler.ms);
            touched.push_back(of);
        }
        if (worker.rank < of->ranks.size()) take(of->ranks[worker.rank], worker, now_ms);
    }
    for (OfAttempt* of_attempt : touched) close_window(*of_attempt, now_ms);
}

// Returns the means over the ranks: a second of one rank counts 1/N.
RankWaits Waits::of(const AttemptId& attempt) const {
    RankWaits out;
    if (const auto before = known_.find(attempt); before != known_.end()) out = before->second;
    const auto waits = live_.find(attempt);
    if (waits == live_.end() || waits->second.ranks.empty()) return out;
    const OfAttempt& now = waits->second;
    Sums all;
    for (const OfRank& rank : now.ranks) all.data += rank.sums.data, all.checkpoint += rank.sums.checkpoint;
    const auto count = static_cast<double>(now.ranks.size());
    return {.checkpoint = larger(out.checkpoint, whole(all.checkpoint / count)),
            .data = larger(out.data, whole(all.data / count)),
            .straggler = larger(out.straggler, whole(now.straggler_ms))};
}

WaitsOf Waits::all() const {
    return [this](const AttemptId& attempt) { return of(attempt); };
}

std::optional<std::int64_t> Waits::seen_ms(const AttemptId& attempt, Rank rank) const {
    const auto waits = live_.find(attempt);
    if (waits == live_.end() || rank.value >= waits->second.ranks.size()) return std::nullopt;
    const std::int64_t seen = waits->second.ranks[rank.value].seen_ms;
    return seen == 0 ? std::nullopt : std::optional(seen);
}

// Estimates for how long a node's memory suffices: the free memory, or what the node offers, divided by the growth per
// minute of this run's ranks there.
void Waits::add_rises(const Cluster& cluster, const Attempt& attempt, const OfAttempt& of, RunFacts& facts) const {
    std::map<NodeId, double> by_node;  // key: the node; value: bytes per minute
    std::map<std::uint32_t, double> by_rank;
    std::int64_t interval_ms = 0;
    for (std::uint32_t rank = 0; rank < of.ranks.size(); ++rank) {
        interval_ms = std::max(interval_ms, of.ranks[rank].interval_ms);
        const auto rise = memory_rise(of.ranks[rank].memory.samples());
        if (!rise) continue;
        by_rank[rank] = *rise * 60;
        by_node[attempt.workers[rank].seat.node] += *rise * 60;
    }
    for (const auto& [rank, per_minute] : by_rank) {
        const NodeId& name = attempt.workers[rank].seat.node;
        RunFacts::Rise rise{.rank = rank,
                            .bytes_per_report = per_minute / 60e3 * static_cast<double>(interval_ms),
                            .bytes_per_minute = per_minute,
                            .minutes_left = {}};
        const auto known = nodes_.find(name);
        const auto record = cluster.nodes.find(name);
        if (known != nodes_.end() && record != cluster.nodes.end()) {
            auto free = static_cast<double>(known->second.memory_free);
            const Amount offered = amount_of(record->second.total, memory_key);
            const double offered_free =
                static_cast<double>(offered.ticks) / Amount::per_unit - static_cast<double>(known->second.resident);
            if (offered_free > 0) free = std::min(free, offered_free);
            if (free > 0) rise.minutes_left = free / by_node[name];
        }
        facts.rises.push_back(rise);
    }
}

// Returns the ranks that wait in a report, and the ranks that have not reached it. Returns nullopt if none waits for
// long, if all have reached it, or if the last heartbeat of a rank is old.
std::optional<RunFacts::InReport> Waits::in_report(const Attempt& attempt, const OfAttempt& of) {
    RunFacts::InReport out;
    std::int64_t newest_ms = 0, longest_ms = 0;
    for (const OfRank& rank : of.ranks) newest_ms = std::max(newest_ms, rank.seen_ms);
    for (std::uint32_t rank = 0; rank < std::min(of.ranks.size(), attempt.workers.size()); ++rank) {
        const OfRank& heard = of.ranks[rank];
        if (attempt.workers[rank].exit) continue;
        if (heard.seen_ms == 0 || newest_ms - heard.seen_ms > fresh_ms || heard.report_wait_ms < 0) return std::nullopt;
        (heard.report_wait_ms > 0 ? out.waiting : out.missing).push_back(rank);
        longest_ms = std::max(longest_ms, heard.report_wait_ms);
    }
    if (out.missing.empty() || longest_ms < named_after_ms) return std::nullopt;
    out.lasts = {longest_ms};
    return out;
}

RunFacts Waits::facts(const Cluster& cluster, const Run& run) const {
    RunFacts facts{.name = run.name, .slow = {}, .rises = {}};
    const auto attempt = cluster.attempts.find({.run = run.id, .number = run.attempts});
    const auto waits = live_.find({.run = run.id, .number = run.attempts});
    if (attempt == cluster.attempts.end() || terminal(attempt->second.state) || waits == live_.end()) return facts;
    const OfAttempt& of = waits->second;
    const std::size_t count = std::min(of.ranks.size(), attempt->second.workers.size());
    if (count == 0) return facts;
    for (const Worker& worker : attempt->second.workers) facts.gpus = facts.gpus || !worker.seat.gpus.empty();
    add_rises(cluster, attempt->second, of, facts);
    facts.in_report = in_report(attempt->second, of);
    if (of.recent_ms < recent_least_ms) return facts;
    std::vector<double> waited;
    for (const OfRank& rank : of.ranks) {
        waited.push_back(rank.recent.barrier / of.recent_ms);
        facts.data_share += rank.recent.data / of.recent_ms / static_cast<double>(count);
        facts.checkpoint_share += rank.recent.checkpoint / of.recent_ms / static_cast<double>(count);
    }
    const auto slow = slow_ranks(waited, slow_least_share);
    if (!slow) return facts;
    facts.others_wait = slow->others_wait;
    for (const std::uint32_t rank : slow->ranks)
        if (rank < count)
            facts.slow.push_back({.rank = rank,
                                  .node = attempt->second.workers[rank].seat.node.value,
                                  .data_share = of.ranks[rank].recent.data / of.recent_ms});
    return facts;
}

void Waits::end(const AttemptId& attempt) {
    if (!live_.contains(attempt)) return;
    known_[attempt] = of(attempt);
    live_.erase(attempt);
    saved_.erase(attempt);
    unsaved_.insert(attempt);
}

std::vector<std::string> Waits::forget(RunId run) {
    std::vector<std::string> keys;
    const auto forget_in = [&](auto& attempts) {
        const auto first = attempts.lower_bound({.run = run, .number = 0});
        const auto last = attempts.lower_bound({.run = {run.value + 1}, .number = 0});
        attempts.erase(first, last);
    };
    for (auto at = known_.lower_bound({.run = run, .number = 0}); at != known_.end() && at->first.run == run; ++at)
        keys.push_back(key_of(at->first));
    for (auto at = live_.lower_bound({.run = run, .number = 0}); at != live_.end() && at->first.run == run; ++at)
        if (!known_.contains(at->first)) keys.push_back(key_of(at->first));
    forget_in(live_), forget_in(known_), forget_in(saved_);
    std::erase_if(unsaved_, [&](const AttemptId& id) { return id.run == run; });
    return keys;
}

void Waits::recall(const std::map<std::string, std::string>& settings) {
    for (const auto& [key, value] : settings) {
        unsigned long long run = 0;
        unsigned number = 0;
        long long checkpoint = 0, data = 0, straggler = 0;
        if (std::sscanf(key.c_str(), "waits/%llu/%u", &run, &number) != 2) continue;
        if (std::sscanf(value.c_str(), "%lld %lld %lld", &checkpoint, &data, &straggler) != 3) continue;
        known_[{.run = {run}, .number = number}] = {
            .checkpoint = {checkpoint}, .data = {data}, .straggler = {straggler}};
    }
}

void Waits::add_changes(std::map<std::string, std::string>& settings, std::int64_t now_ms) {
    const auto add = [&](const AttemptId& id, const RankWaits& waits) {
        settings[key_of(id)] = std::to_string(waits.checkpoint.ms) + " " + std::to_string(waits.data.ms) + " " +
                               std::to_string(waits.straggler.ms);
    };
    for (const AttemptId& id : std::exchange(unsaved_, {})) add(id, known_.at(id));
    if (now_ms < save_at_ms_) return;
    save_at_ms_ = now_ms + save_every_ms;
    for (const auto& [id, of_attempt] : live_) {
        const RankWaits waits = of(id);
        if (waits == saved_[id]) continue;
        saved_[id] = waits;
        add(id, waits);
    }
}

}  // namespace rtrain::head
