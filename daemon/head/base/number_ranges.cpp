// See number_ranges.hpp.
#include "daemon/head/base/number_ranges.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "storage/job_spec/limits.hpp"

namespace rtrain::head {

bool to_number(std::string_view text, std::uint64_t& value) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && fault == std::errc{} && end == text.data() + text.size();
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        out.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return out;
}

void NumberRanges::add(std::uint32_t first, std::uint32_t last) {
    auto at = last_of_.upper_bound(first);
    if (at != last_of_.begin() && std::prev(at)->second + std::uint64_t{1} >= first) --at;
    while (at != last_of_.end() && at->first <= last + std::uint64_t{1}) {  // merges adjacent and overlapping ranges
        first = std::min(first, at->first);
        last = std::max(last, at->second);
        at = last_of_.erase(at);
    }
    last_of_.emplace_hint(at, first, last);
}

bool NumberRanges::contains(std::uint32_t number) const {
    const auto behind = last_of_.upper_bound(number);
    return behind != last_of_.begin() && std::prev(behind)->second >= number;
}

std::optional<std::uint32_t> NumberRanges::only() const {
    const bool single = last_of_.size() == 1 && last_of_.begin()->first == last_of_.begin()->second;
    return single ? std::optional(last_of_.begin()->first) : std::nullopt;
}

std::optional<NumberRanges> number_list(const std::string& text) {
    NumberRanges out;
    if (static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) >= spec::ranges_most) return std::nullopt;
    for (const std::string& part : split(text)) {
        const std::size_t dash = part.find('-');
        std::uint64_t first = 0, last = 0;
        if (!to_number(part.substr(0, dash), first)) return std::nullopt;
        last = first;
        if (dash != std::string::npos && !to_number(part.substr(dash + 1), last)) return std::nullopt;
        if (last < first || last - first > 100'000 || last > UINT32_MAX) return std::nullopt;
        out.add(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
    }
    return out;
}

}  // namespace rtrain::head
