// See advice.hpp. A fraction below a tenth gives no sentence.
#include "scheduler/goodput/advice.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace rtrain {
namespace {

constexpr double share_least = 0.10;
constexpr std::size_t named_most = 3;
constexpr double minutes_most = 24 * 60;  // Later times cannot be predicted.

std::string percent(double share) { return std::to_string(std::lround(std::clamp(share, 0.0, 1.0) * 100)) + " %"; }

std::string megabytes(double bytes) {
    const double mb = bytes / 1e6;
    char text[32];
    std::snprintf(text, sizeof text, mb < 10 ? "%.1f MB" : "%.0f MB", mb);
    return text;
}

std::string minutes(double left) {
    if (left < 1.5) return "a minute";
    if (left < 120) return std::to_string(std::lround(left)) + " minutes";
    return std::to_string(std::lround(left / 60)) + " hours";
}

std::string ranks_text(const std::vector<RunFacts::Slow>& slow) {
    std::string text = slow.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < std::min(slow.size(), named_most); ++i)
        text += (i > 0 ? ", " : "") + std::to_string(slow[i].rank) + " on " + slow[i].node;
    if (slow.size() > named_most) text += " and " + std::to_string(slow.size() - named_most) + " more";
    return text;
}

std::string straggler_text(const RunFacts& facts) {
    const RunFacts::Slow& first = facts.slow.front();
    const std::string text = "ranks wait " + percent(facts.others_wait) + " of the time for " + ranks_text(facts.slow);
    if (first.data_share >= share_least && first.data_share > 2 * facts.data_share)
        return text + ", which waits for its data " + percent(first.data_share) +
               " of the time: look at what its loader reads from " + first.node;
    return text + "; see what it does: rtrain stack " + facts.name + " --rank " + std::to_string(first.rank);
}

std::string data_text(const RunFacts& facts) {
    const std::string share = percent(facts.data_share);
    return (facts.gpus ? "GPUs idle " + share + " of each step" : "workers wait " + share + " of each step for data") +
           ": the loader is behind; more CPUs per worker or prefetch";
}

std::string ranks_list(const std::vector<std::uint32_t>& ranks) {
    constexpr std::size_t listed_most = 16;
    std::string text;
    for (std::size_t i = 0; i < std::min(ranks.size(), listed_most); ++i)
        text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
    if (ranks.size() > listed_most) text += " and " + std::to_string(ranks.size() - listed_most) + " more";
    return text;
}

std::string missing_text(const RunFacts& facts) {
    const RunFacts::InReport& report = *facts.in_report;
    const bool several = report.waiting.size() > 1;
    return "ranks [" + ranks_list(report.missing) + "] have not come to report() for " +
           std::to_string(report.lasts.ms / 1000) + " s (" + (several ? "ranks " : "rank ") +
           ranks_list(report.waiting) + (several ? " wait" : " waits") + "); see what they do: rtrain stack " +
           facts.name + " --rank " + std::to_string(report.missing.front());
}

std::string memory_text(const RunFacts::Rise& rise) {
    const bool reports = rise.bytes_per_report > 0;
    return "memory of rank " + std::to_string(rise.rank) + " rises " +
           megabytes(reports ? rise.bytes_per_report : rise.bytes_per_minute) + (reports ? " a report" : " a minute") +
           ": out of memory in about " + minutes(*rise.minutes_left);
}

}  // namespace

const char* to_text(AdviceKind kind) {
    switch (kind) {
        case AdviceKind::missing_ranks:
            return "missing_ranks";
        case AdviceKind::straggler:
            return "straggler";
        case AdviceKind::data:
            return "data";
        case AdviceKind::checkpoint:
            return "checkpoint";
        case AdviceKind::memory:
            return "memory";
    }
    return "";
}

std::vector<Advice> advice(const RunFacts& facts) {
    std::vector<Advice> out;
    if (facts.in_report) out.push_back({AdviceKind::missing_ranks, missing_text(facts)});
    if (!facts.slow.empty() && facts.others_wait >= share_least)
        out.push_back({AdviceKind::straggler, straggler_text(facts)});
    if (facts.data_share >= share_least) out.push_back({AdviceKind::data, data_text(facts)});
    if (facts.checkpoint_share >= share_least)
        out.push_back({AdviceKind::checkpoint, "checkpoints hold the ranks up " + percent(facts.checkpoint_share) +
                                                   " of the time: write fewer, or set checkpoint.upload: async"});
    std::size_t named = 0;
    for (const RunFacts::Rise& rise : facts.rises)
        if (rise.minutes_left && *rise.minutes_left <= minutes_most && named++ < named_most)
            out.push_back({AdviceKind::memory, memory_text(rise)});
    return out;
}

}  // namespace rtrain
