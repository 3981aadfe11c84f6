// See metric_chunk.hpp. A row is "position attempt index wall_ms length\n" and `length` bytes of JSON; the whole is one
// zstd frame with its checksum, since these rows carry none of their own.
#include "storage/state/metric_chunk.hpp"

#include <array>
#include <charconv>

#include "storage/state/codec/compression.hpp"

namespace rtrain::state {
namespace {

constexpr int level = 6;
constexpr std::size_t unpacked_at_most = 1u << 30;
constexpr std::size_t numbers_of_row = 5;
using Numbers = std::array<std::int64_t, numbers_of_row>;

Numbers numbers_of(const MetricRow& row) {
    return {static_cast<std::int64_t>(row.position), row.attempt.number, static_cast<std::int64_t>(row.index),
            row.wall_ms, 0};
}

Error broken() { return {ErrorCode::damaged, "a chunk of metrics is damaged", "rtrain head restore-backup FILE"}; }

// Reads one row's numbers; false: that is no row.
bool read_numbers(const char*& at, const char* end, Numbers& out) {
    for (std::size_t i = 0; i < numbers_of_row; ++i) {
        const auto [stopped, fault] = std::from_chars(at, end, out[i]);
        if (fault != std::errc{} || stopped == end || *stopped != (i + 1 < numbers_of_row ? ' ' : '\n')) return false;
        at = stopped + 1;
    }
    return true;
}

}  // namespace

std::string pack_metrics(const std::vector<MetricRow>& rows) {
    std::string text;
    Numbers before{};
    for (const MetricRow& row : rows) {
        const Numbers now = numbers_of(row);
        for (std::size_t i = 0; i + 1 < numbers_of_row; ++i) text += std::to_string(now[i] - before[i]) + ' ';
        text += std::to_string(row.ranks_json.size()) + '\n' + row.ranks_json;
        before = now;
    }
    return compressed(text, level);
}

Result<std::vector<MetricRow>> unpack_metrics(RunId run, const std::string& bytes) {
    const std::optional<std::string> text = expanded(bytes, unpacked_at_most);
    if (!text) return broken();
    std::vector<MetricRow> rows;
    Numbers sums{};
    const char* at = text->data();
    const char* end = at + text->size();
    while (at < end) {
        Numbers read{};
        if (!read_numbers(at, end, read) || read[4] < 0 || read[4] > end - at) return broken();
        for (std::size_t i = 0; i + 1 < numbers_of_row; ++i) sums[i] += read[i];
        rows.push_back({.attempt = {.run = run, .number = static_cast<std::uint32_t>(sums[1])},
                        .index = static_cast<std::uint64_t>(sums[2]),
                        .wall_ms = sums[3],
                        .ranks_json = std::string(at, static_cast<std::size_t>(read[4])),
                        .position = static_cast<std::uint64_t>(sums[0])});
        at += read[4];
    }
    return rows;
}

}  // namespace rtrain::state
