// Converts durations, sizes and times. Uses no locale, and no time zone other than UTC.
#include "cmd/text/units.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <limits>

namespace rtrain::cmd {
namespace {

struct Unit {
    const char* name;
    std::int64_t ms;
};
constexpr std::array<Unit, 5> units{{{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) {
    std::int64_t count = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (failed != std::errc{} || count <= 0) return std::nullopt;
    std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
    if (name.ends_with("iB")) name.remove_suffix(1);
    if (name.empty()) return count;
    constexpr std::string_view letters = "KMGT";
    const auto power = letters.find(name.front());
    if (name.size() != 2 || name[1] != 'i' || power == letters.npos) return std::nullopt;
    for (std::size_t i = 0; i <= power; ++i)
        if (__builtin_mul_overflow(count, std::int64_t{1024}, &count)) return std::nullopt;
    return count;
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
    if (text.empty()) return std::nullopt;
    std::int64_t total = 0;
    std::size_t at = 0;
    while (at < text.size()) {
        std::int64_t number = 0;
        const std::size_t start = at;
        for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
            if (number > 1'000'000'000) return std::nullopt;
            number = number * 10 + (text[at] - '0');
        }
        const std::size_t end = text.find_first_of("0123456789", at);
        const std::string_view name = text.substr(at, end == text.npos ? text.npos : end - at);
        const Unit* unit = nullptr;
        for (const Unit& candidate : units)
            if (name == candidate.name) unit = &candidate;
        if (at == start || unit == nullptr) return std::nullopt;
        if (number > (std::numeric_limits<std::int64_t>::max() - total) / unit->ms) return std::nullopt;
        total += number * unit->ms;
        at += name.size();
    }
    return total;
}

std::string duration_text(std::int64_t ms) {
    if (ms < 0) ms = 0;
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
        if (ms < units[i].ms) continue;
        std::string text = std::to_string(ms / units[i].ms) + units[i].name;
        const std::int64_t rest = ms % units[i].ms / units[i + 1].ms;
        if (i + 2 < units.size() && rest > 0 && ms / units[i].ms < 10) text += std::to_string(rest) + units[i + 1].name;
        return text;
    }
    return std::to_string(ms) + "ms";
}

std::string bytes_text(std::int64_t bytes) {
    constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < names.size(); ++unit) value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, names[unit]);
    return text;
}

std::optional<std::int64_t> parse_time(std::string_view iso) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0;
    double second = 0;
    const std::string text(iso);
    if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%lf", &year, &month, &day, &hour, &minute, &second) != 6)
        return std::nullopt;
    std::tm parts{};
    parts.tm_year = year - 1900;
    parts.tm_mon = month - 1;
    parts.tm_mday = day;
    parts.tm_hour = hour;
    parts.tm_min = minute;
    return static_cast<std::int64_t>(timegm(&parts)) * 1000 + static_cast<std::int64_t>(second * 1000 + 0.5);
}

std::string time_text(std::int64_t wall_ms) {
    const std::time_t seconds = static_cast<std::time_t>(wall_ms / 1000);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[96];
    std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>(wall_ms % 1000));
    return text;
}

std::int64_t wall_now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const auto at = text.find(separator);
        parts.emplace_back(text.substr(0, at));
        text = at == text.npos ? std::string_view() : text.substr(at + 1);
    }
    return parts;
}

std::string join(const std::vector<std::string>& words, std::string_view between) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += between;
        text += word;
    }
    return text;
}

}  // namespace rtrain::cmd
