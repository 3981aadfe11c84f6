// Converts durations, sizes and times between numbers and the texts that people use. Also joins and splits lists of
// words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::cmd {

// converts "90s", "5m", "1h30m" or "250ms" to milliseconds
std::optional<std::int64_t> parse_duration(std::string_view text);
std::string duration_text(std::int64_t ms);  // text with at most two units: "2h11m", "18m", "3s", "41ms"
// converts "4096", "512Mi" or "100GiB" to bytes; nullopt for 0 and less
std::optional<std::int64_t> parse_bytes(std::string_view text);
std::string bytes_text(std::int64_t bytes);  // text such as "1.5 GiB"
// converts "2026-01-31T12:00:00.000Z" to milliseconds of the wall clock
std::optional<std::int64_t> parse_time(std::string_view iso);
std::string time_text(std::int64_t wall_ms);  // the inverse of parse_time
std::int64_t wall_now_ms();
std::vector<std::string> split(std::string_view text, char separator);  // returns an empty list for ""
std::string join(const std::vector<std::string>& words, std::string_view between);

}  // namespace rtrain::cmd
