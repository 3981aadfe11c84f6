// See metric_chunk.hpp. A row is "position attempt index wall_ms length\n" and `length` bytes of JSON. All rows are one
// zstd frame with its checksum, since these rows have no checksums of their own.
#include "storage/state/metric_chunk.hpp"

#include <array>
#include <charconv>
#include <string_view>

#include "storage/state/codec/compression.hpp"

namespace rtrain::state {
namespace {

// A chunk is packed within a commit, and every answer of the head waits for that commit. For 8 MiB of random hex
// digits level 6 takes 160 ms, and level 1 takes 9 ms for the same size. So only short chunks, which are those of usual
// reports, have level 6.
constexpr int level = 6, level_of_long = 1;
constexpr std::size_t long_bytes = 256 << 10;
constexpr std::size_t numbers_of_row = 5;
constexpr std::int64_t row_bytes_most = 1 << 30;
constexpr std::size_t row_start_most = 128;  // the most bytes of a row's five numbers, of 20 digits each
using Numbers = std::array<std::int64_t, numbers_of_row>;

Numbers numbers_of(const MetricRow& row) {
    return {static_cast<std::int64_t>(row.position), row.attempt.number, static_cast<std::int64_t>(row.index),
            row.wall_ms, 0};
}

Error broken() { return {ErrorCode::damaged, "a chunk of metrics is damaged", "rtrain head restore-backup FILE"}; }

// Reads the numbers of one row. Returns false if the bytes are not a row.
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
    return compressed(text, text.size() > long_bytes ? level_of_long : level);
}

Status unpack_metrics(RunId run, const std::string& bytes, const std::function<void(MetricRow&&)>& take) {
    std::string text;  // unpacked bytes that do not form a whole row yet
    Numbers sums{};
    bool sound = true;
    const bool whole = expand(bytes, [&](std::string_view piece) {
        text += piece;
        const char* at = text.data();
        const char* const end = at + text.size();
        while (sound && at < end) {
            Numbers read{};
            const char* row = at;
            const bool known = read_numbers(row, end, read);
            sound =
                known ? read[4] >= 0 && read[4] <= row_bytes_most : static_cast<std::size_t>(end - at) < row_start_most;
            if (!known || read[4] > end - row) break;
            for (std::size_t i = 0; i + 1 < numbers_of_row; ++i) sums[i] += read[i];
            take({.attempt = {.run = run, .number = static_cast<std::uint32_t>(sums[1])},
                  .index = static_cast<std::uint64_t>(sums[2]),
                  .wall_ms = sums[3],
                  .ranks_json = std::string(row, static_cast<std::size_t>(read[4])),
                  .position = static_cast<std::uint64_t>(sums[0])});
            at = row + read[4];
        }
        text.erase(0, static_cast<std::size_t>(at - text.data()));
    });
    if (!whole || !sound || !text.empty()) return broken();
    return Done{};
}

}  // namespace rtrain::state
