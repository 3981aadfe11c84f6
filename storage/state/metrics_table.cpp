// See metrics_table.hpp.
#include "storage/state/metrics_table.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "storage/state/metric_chunk.hpp"

namespace rtrain::state {
namespace {

// The bounds of a chunk; the one that is reached first applies. A single row may exceed them.
constexpr std::int64_t chunk_rows = 1'000, chunk_bytes = 8 << 20;
constexpr std::int64_t row_alone = 64;  // bytes that a row takes beside its text
constexpr std::int64_t chunks_at_most = 4'000;

std::int64_t as_value(RunId run) { return static_cast<std::int64_t>(run.value); }

void note_newest(MetricMark& mark, std::uint32_t attempt, std::uint64_t index) {
    std::uint64_t& newest = mark.newest[attempt];
    newest = std::max(newest, index);
}

std::string newest_text(const std::vector<MetricRow>& rows) {
    MetricMark mark;
    for (const MetricRow& row : rows) note_newest(mark, row.attempt.number, row.index);
    std::string text;
    for (const auto& [attempt, index] : mark.newest)
        text += std::to_string(attempt) + " " + std::to_string(index) + " ";
    return text;
}

Result<MetricMark> mark_of(Database& database, RunId run) {
    MetricMark mark;
    Status read = database.each("SELECT position, attempt, idx, length(CAST(json AS BLOB)) FROM metrics WHERE run=?",
                                {as_value(run)}, [&](const Row& row) {
                                    ++mark.unsealed;
                                    mark.position = std::max(mark.position, static_cast<std::uint64_t>(row.integer(0)));
                                    note_newest(mark, static_cast<std::uint32_t>(row.integer(1)),
                                                static_cast<std::uint64_t>(row.integer(2)));
                                    mark.unsealed_bytes += row_alone + row.integer(3);
                                });
    if (!read) return read.error();
    mark.bytes = mark.unsealed_bytes;
    constexpr const char* chunks = "SELECT last, newest, length(rows) FROM metric_chunks WHERE run=?";
    read = database.each(chunks, {as_value(run)}, [&](const Row& row) {
        ++mark.chunks;
        mark.bytes += row_alone + row.integer(2);
        mark.position = std::max(mark.position, static_cast<std::uint64_t>(row.integer(0)));
        std::istringstream words(row.text(1));
        std::uint32_t attempt = 0;
        std::uint64_t index = 0;
        while (words >> attempt >> index) note_newest(mark, attempt, index);
    });
    if (!read) return read.error();
    return mark;
}

using Reports = Filling<MetricRow>;

bool add_row(Reports& to, MetricRow&& row) {
    const std::size_t bytes = row.ranks_json.size();
    return to.add(std::move(row), bytes);
}

Status add_unsealed(Database& database, RunId run, std::uint64_t after, Reports& to) {
    return database.each_while(
        "SELECT attempt, idx, wall_ms, json, position FROM metrics WHERE run=? AND position > ? ORDER BY position",
        {as_value(run), static_cast<std::int64_t>(after)}, [&](const Row& row) {
            return add_row(to, {.attempt = {.run = run, .number = static_cast<std::uint32_t>(row.integer(0))},
                                .index = static_cast<std::uint64_t>(row.integer(1)),
                                .wall_ms = row.integer(2),
                                .ranks_json = row.text(3),
                                .position = static_cast<std::uint64_t>(row.integer(4))});
        });
}

Status write_chunk(Database& database, RunId run, MetricMark& mark, const std::vector<MetricRow>& rows,
                   std::int64_t level) {
    std::string packed = pack_metrics(rows);
    mark.bytes += row_alone + static_cast<std::int64_t>(packed.size());
    return database.run(
        "INSERT INTO metric_chunks VALUES(?,?,?,?,?,?)",
        {as_value(run), static_cast<std::int64_t>(rows.front().position),
         static_cast<std::int64_t>(rows.back().position), level, newest_text(rows), Blob{std::move(packed)}});
}

// Moves the oldest rows, as many as fit into one chunk, into a new chunk.
Status seal_one(Database& database, RunId run, MetricMark& mark) {
    Reports oldest({.rows = chunk_rows, .bytes = chunk_bytes});
    if (Status read = add_unsealed(database, run, 0, oldest); !read) return read.error();
    const std::vector<MetricRow>& rows = oldest.page.rows;
    if (rows.empty()) return Error{ErrorCode::damaged, "reports are missing that were counted", ""};
    if (Status written = write_chunk(database, run, mark, rows, 0); !written) return written.error();
    Status erased = database.run("DELETE FROM metrics WHERE run=? AND position <= ?",
                                 {as_value(run), static_cast<std::int64_t>(rows.back().position)});
    if (!erased) return erased.error();
    mark.unsealed -= static_cast<std::int64_t>(rows.size());
    std::int64_t sealed = 0;
    for (const MetricRow& row : rows) sealed += row_alone + static_cast<std::int64_t>(row.ranks_json.size());
    mark.unsealed_bytes -= sealed;
    mark.bytes -= sealed;
    ++mark.chunks;
    return Done{};
}

struct Chunk {
    std::int64_t first = 0, level = 0;
    std::string bytes;
};
// Joins the two oldest neighbouring chunks of the lowest level into one of the next level.
Status thin(Database& database, RunId run, MetricMark& mark) {
    std::vector<Chunk> two;
    Status read = database.each(
        "SELECT first, level, rows FROM metric_chunks WHERE run=? ORDER BY level, first LIMIT 2", {as_value(run)},
        [&](const Row& row) { two.push_back({row.integer(0), row.integer(1), row.blob(2)}); });
    if (!read) return read;
    std::vector<MetricRow> kept;
    for (const Chunk& chunk : two) {
        std::size_t count = 0;
        Status unpacked = unpack_metrics(run, chunk.bytes, [&](MetricRow&& row) {
            if (count++ % 2 == 0) kept.push_back(std::move(row));
        });
        if (!unpacked) return unpacked;
        Status gone = database.run("DELETE FROM metric_chunks WHERE run=? AND first=?", {as_value(run), chunk.first});
        if (!gone) return gone;
        mark.bytes -= row_alone + static_cast<std::int64_t>(chunk.bytes.size());
    }
    std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
    --mark.chunks;
    return write_chunk(database, run, mark, kept, std::max(two.front().level, two.back().level) + 1);
}

Status add(Database& database, RunId run, MetricMark& mark, const MetricRow& row) {
    const auto newest = mark.newest.find(row.attempt.number);
    if (newest != mark.newest.end() && row.index <= newest->second) return Done{};
    Status added =
        database.run("INSERT INTO metrics VALUES(?,?,?,?,?,?)",
                     {as_value(run), static_cast<std::int64_t>(++mark.position), std::int64_t{row.attempt.number},
                      static_cast<std::int64_t>(row.index), row.wall_ms, row.ranks_json});
    if (!added) return added;
    note_newest(mark, row.attempt.number, row.index);
    const auto bytes = row_alone + static_cast<std::int64_t>(row.ranks_json.size());
    ++mark.unsealed;
    mark.unsealed_bytes += bytes;
    mark.bytes += bytes;
    while (mark.unsealed >= chunk_rows || mark.unsealed_bytes >= chunk_bytes) {
        if (Status sealed = seal_one(database, run, mark); !sealed) return sealed;
        if (mark.chunks <= chunks_at_most) continue;
        if (Status thinned = thin(database, run, mark); !thinned) return thinned;
    }
    return Done{};
}

}  // namespace

Status add_metrics(Database& database, MetricMarks& marks, const std::vector<MetricRow>& rows,
                   std::map<RunId, std::int64_t>& grown) {
    for (const MetricRow& row : rows) {
        const RunId run = row.attempt.run;
        auto mark = marks.find(run);
        if (mark == marks.end()) {
            auto known = mark_of(database, run);
            if (!known) return known.error();
            mark = marks.emplace(run, std::move(*known)).first;
        }
        const std::int64_t before = mark->second.bytes;
        if (Status added = add(database, run, mark->second, row); !added) return added;
        grown[run] += mark->second.bytes - before;
    }
    return Done{};
}

Result<PageOf<MetricRow>> read_metrics(Database& database, RunId run, std::uint64_t after, PageBounds most) {
    Reports to(most);
    std::vector<std::int64_t> firsts;
    Status listed =
        database.each("SELECT first FROM metric_chunks WHERE run=? AND last > ? ORDER BY first LIMIT ?",
                      {as_value(run), static_cast<std::int64_t>(after), static_cast<std::int64_t>(most.rows)},
                      [&](const Row& row) { firsts.push_back(row.integer(0)); });
    if (!listed) return listed.error();
    for (const std::int64_t first : firsts) {
        if (to.page.more) break;
        std::string bytes;
        Status read = database.each("SELECT rows FROM metric_chunks WHERE run=? AND first=?", {as_value(run), first},
                                    [&](const Row& row) { bytes = row.blob(0); });
        if (!read) return read.error();
        Status unpacked = unpack_metrics(run, bytes, [&](MetricRow&& row) {
            if (row.position > after) add_row(to, std::move(row));
        });
        if (!unpacked) return unpacked.error();
    }
    if (to.page.more) return std::move(to.page);
    if (Status read = add_unsealed(database, run, after, to); !read) return read.error();
    return std::move(to.page);
}

Result<std::int64_t> last_metric_position(Database& database, RunId run) {
    return database.integer(
        "SELECT max((SELECT coalesce(max(position), 0) FROM metrics WHERE run=?1), (SELECT coalesce(max(last), 0) FROM "
        "metric_chunks WHERE run=?1))",
        {as_value(run)});
}

Result<std::optional<MetricRow>> last_metric(Database& database, RunId run) {
    auto highest = last_metric_position(database, run);
    if (!highest) return highest.error();
    if (*highest == 0) return std::optional<MetricRow>();
    auto page = read_metrics(database, run, static_cast<std::uint64_t>(*highest) - 1, {.rows = 1});
    if (!page) return page.error();
    auto& rows = page->rows;
    return rows.empty() ? std::optional<MetricRow>() : std::optional<MetricRow>(std::move(rows.front()));
}

Result<std::map<RunId, std::int64_t>> metric_bytes(Database& database) {
    std::map<RunId, std::int64_t> bytes;
    for (const char* sql : {"SELECT run, sum(length(CAST(json AS BLOB)) + ?) FROM metrics GROUP BY run",
                            "SELECT run, sum(length(rows) + ?) FROM metric_chunks GROUP BY run"}) {
        Status read = database.each(sql, {row_alone}, [&](const Row& row) {
            bytes[RunId{static_cast<std::uint64_t>(row.integer(0))}] += row.integer(1);
        });
        if (!read) return read.error();
    }
    return bytes;
}

Status erase_metrics(Database& database, RunId run) {
    for (const char* statement : {"DELETE FROM metrics WHERE run=?", "DELETE FROM metric_chunks WHERE run=?"})
        if (Status erased = database.run(statement, {as_value(run)}); !erased) return erased;
    return Done{};
}

}  // namespace rtrain::state
