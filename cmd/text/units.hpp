// Durations, sizes and times as people write and read them; and lists of words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::cmd {

std::optional<std::int64_t> parse_duration(std::string_view text);  // "90s" "5m" "1h30m" "250ms" to milliseconds
std::string duration_text(std::int64_t ms);                         // two units at most: "2h11m", "18m", "3s", "41ms"
std::optional<std::int64_t> parse_bytes(std::string_view text);     // "4096" "512Mi" "100GiB"; above 0
std::string bytes_text(std::int64_t bytes);                         // "1.5 GiB"
std::optional<std::int64_t> parse_time(std::string_view iso);       // "2026-01-31T12:00:00.000Z" to wall milliseconds
std::string time_text(std::int64_t wall_ms);                        // the inverse
std::int64_t wall_now_ms();
std::vector<std::string> split(std::string_view text, char separator);  // returns an empty list for ""
std::string join(const std::vector<std::string>& words, std::string_view between);

}  // namespace rtrain::cmd
