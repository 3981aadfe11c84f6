// Ends a rank that uses more memory than its run requested, before the kernel kills another run's process instead. A
// single measurement slightly above the limit may be a short peak, so two in a row are needed. A measurement far above
// the limit is enough.
#include "daemon/agent/machine/memory_limit.hpp"

#include <signal.h>

#include <cstdio>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t far_part = 8;                                // 1/8 above the limit ends the rank at once
constexpr std::int64_t in_gibibytes_from = std::int64_t{10} << 30;  // from this limit on, sizes are shown in GiB

// Rounds up, so that an amount above the limit is also shown as larger.
std::string size_text(std::int64_t bytes, std::int64_t limit) {
    if (limit < in_gibibytes_from) return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
    const std::int64_t tenths = (bytes * 10 + (std::int64_t{1} << 30) - 1) >> 30;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

bool is_far_above(std::int64_t bytes, std::int64_t limit) { return bytes > limit + limit / far_part; }

void end_rank(Step& step, LocalAttempt& attempt, std::uint32_t rank, const RankMemory& used) {
    LocalWorker& worker = attempt.workers[rank];
    worker.over_memory = true;
    worker.fail_text = above_limit(used, attempt.saved.policy.memory_bytes);
    step.out.push_back(SignalWorker{key_of(attempt.saved.prepare.attempt), rank, SIGKILL, true});
}

void compare(Step& step, LocalAttempt& attempt, std::uint32_t rank, const RankMemory& used) {
    const auto entry = attempt.workers.find(rank);
    const std::int64_t limit = attempt.saved.policy.memory_bytes;
    if (limit <= 0 || entry == attempt.workers.end()) return;
    LocalWorker& worker = entry->second;
    if (!worker.started || worker.exited || worker.over_memory) return;
    if (used.bytes <= limit) return worker.over_memory_from.reset();
    if (worker.over_memory_from || is_far_above(used.bytes, limit)) return end_rank(step, attempt, rank, used);
    worker.over_memory_from = step.now;
}

}  // namespace

std::string above_limit(const RankMemory& used, std::int64_t limit) {
    std::string text = "used " + size_text(used.bytes, limit) + " of its " + size_text(limit, limit) + " of memory";
    for (const ProcessMemory& process : used.largest)
        text += (&process == &used.largest.front() ? "; largest processes: " : ", ") + process.command + " (" +
                size_text(process.bytes, limit) + ")";
    return text;
}

void on(Step& step, const MemoryMeasured& input) {
    for (const auto& [key, ranks] : input.ranks) {
        LocalAttempt* attempt = find(step, key);
        if (!attempt) continue;
        for (const auto& [rank, used] : ranks) compare(step, *attempt, rank, used);
    }
}

}  // namespace rtrain::agent
