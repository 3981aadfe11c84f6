// See view.hpp.
#include "daemon/head/view/view.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

namespace rtrain::head {
namespace {

// Parses a run's id: "<first 6 characters of the cluster's id>-<counter>".
std::optional<RunId> with_id(const View& view, const std::string& text) {
    std::uint64_t counter = 0;
    const char* end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data() + (text.rfind('-') + 1), end, counter);
    const RunId id{counter};
    if (fault != std::errc{} || stop != end || view.run_id(id) != text || !view.cluster.runs.contains(id))
        return std::nullopt;
    return id;
}

// Returns one run whose id begins with `text`, and the number of such runs. Makes no texts of ids, since any caller may
// send any number of such requests.
std::pair<RunId, std::size_t> with_prefix(const View& view, const std::string& text) {
    std::pair<RunId, std::size_t> match{{}, 0};
    const auto& runs = view.cluster.runs;
    const std::string id = runs.empty() ? "" : view.run_id(runs.begin()->first);
    const std::string common = id.substr(0, id.rfind('-') + 1);
    if (text.empty() || common.empty()) return match;
    if (common.starts_with(text)) return {runs.begin()->first, runs.size()};
    const std::string digits = text.starts_with(common) ? text.substr(common.size()) : "";
    constexpr std::size_t digits_most = 18;
    if (digits.empty() || digits.size() > digits_most || digits[0] == '0' ||
        digits.find_first_not_of("0123456789") != std::string::npos)
        return match;
    const std::uint64_t last = runs.rbegin()->first.value;
    std::uint64_t low = std::stoull(digits), width = 1;
    // for the prefix 12 these are the numbers 12, 120 to 129, 1200 to 1299 ...
    for (; low <= last; low *= 10, width *= 10) {
        const auto begin = runs.lower_bound(RunId{low}), end = runs.lower_bound(RunId{low + width});
        if (begin != end) match.first = begin->first;
        match.second += static_cast<std::size_t>(std::distance(begin, end));
    }
    return match;
}

}  // namespace

Result<RunId> find_run(const View& view, const std::string& text) {
    if (const auto exact = with_id(view, text)) return *exact;
    std::optional<RunId> named;
    for (const RunId id : view.names.named(text))  // prefers the live run with this name, else takes the newest
        if (!named || terminal(view.cluster.runs.at(*named).state)) named = id;
    if (named) return *named;
    const auto [prefixed, prefixes] = with_prefix(view, text);
    if (prefixes == 1) return prefixed;
    if (prefixes > 1)
        return Error{ErrorCode::usage, "'" + text + "' is the beginning of " + std::to_string(prefixes) + " run ids",
                     "give more of it: rtrain runs --all"};
    return Error{ErrorCode::not_found, "there is no run '" + text + "'", "rtrain runs --all"};
}

std::vector<const Attempt*> attempts_of(const Cluster& cluster, RunId run) {
    std::vector<const Attempt*> out;
    for (auto at = cluster.attempts.lower_bound({run, 0}); at != cluster.attempts.end() && at->first.run == run; ++at)
        out.push_back(&at->second);
    return out;
}

std::vector<const Checkpoint*> checkpoints_of(const Cluster& cluster, RunId run) {
    std::vector<const Checkpoint*> out;
    for (auto at = cluster.checkpoints.lower_bound({run, ""}); at != cluster.checkpoints.end() && at->first.run == run;
         ++at)
        out.push_back(&at->second);
    std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
        return std::tie(a->attempt, a->sequence) <
               // compares by attempt first, because late news may arrive out of order
               std::tie(b->attempt, b->sequence);
    });
    return out;
}

}  // namespace rtrain::head
