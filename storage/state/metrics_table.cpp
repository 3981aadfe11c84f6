// See metrics_table.hpp.
#include "storage/state/metrics_table.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "storage/state/metric_chunk.hpp"

namespace rtrain::state {
namespace {

constexpr std::int64_t chunk_rows = 1'000;
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
    Status read =
        database.each("SELECT position, attempt, idx FROM metrics WHERE run=?", {as_value(run)}, [&](const Row& row) {
            ++mark.unsealed;
            mark.position = std::max(mark.position, static_cast<std::uint64_t>(row.integer(0)));
            note_newest(mark, static_cast<std::uint32_t>(row.integer(1)), static_cast<std::uint64_t>(row.integer(2)));
        });
    if (!read) return read.error();
    read = database.each("SELECT last, newest FROM metric_chunks WHERE run=?", {as_value(run)}, [&](const Row& row) {
        ++mark.chunks;
        mark.position = std::max(mark.position, static_cast<std::uint64_t>(row.integer(0)));
        std::istringstream words(row.text(1));
        std::uint32_t attempt = 0;
        std::uint64_t index = 0;
        while (words >> attempt >> index) note_newest(mark, attempt, index);
    });
    if (!read) return read.error();
    return mark;
}

Result<std::vector<MetricRow>> unsealed_rows(Database& database, RunId run, std::uint64_t after, std::size_t limit) {
    std::vector<MetricRow> rows;
    Status read = database.each(
        "SELECT attempt, idx, wall_ms, json, position FROM metrics WHERE run=? AND position > ? ORDER BY position "
        "LIMIT ?",
        {as_value(run), static_cast<std::int64_t>(after), static_cast<std::int64_t>(limit)}, [&](const Row& row) {
            rows.push_back({.attempt = {.run = run, .number = static_cast<std::uint32_t>(row.integer(0))},
                            .index = static_cast<std::uint64_t>(row.integer(1)),
                            .wall_ms = row.integer(2),
                            .ranks_json = row.text(3),
                            .position = static_cast<std::uint64_t>(row.integer(4))});
        });
    if (!read) return read.error();
    return rows;
}

Status write_chunk(Database& database, RunId run, const std::vector<MetricRow>& rows, std::int64_t level) {
    return database.run(
        "INSERT INTO metric_chunks VALUES(?,?,?,?,?,?)",
        {as_value(run), static_cast<std::int64_t>(rows.front().position),
         static_cast<std::int64_t>(rows.back().position), level, newest_text(rows), Blob{pack_metrics(rows)}});
}

Status seal(Database& database, RunId run, MetricMark& mark) {
    auto rows = unsealed_rows(database, run, 0, static_cast<std::size_t>(mark.unsealed));
    if (!rows) return rows.error();
    if (Status written = write_chunk(database, run, *rows, 0); !written) return written;
    if (Status erased = database.run("DELETE FROM metrics WHERE run=?", {as_value(run)}); !erased) return erased;
    mark.unsealed = 0;
    ++mark.chunks;
    return Done{};
}

struct Chunk {
    std::int64_t first = 0, level = 0;
    std::string bytes;
};
// The two oldest neighbours of the lowest level become one of the next.
Status thin(Database& database, RunId run, MetricMark& mark) {
    std::vector<Chunk> two;
    Status read = database.each(
        "SELECT first, level, rows FROM metric_chunks WHERE run=? ORDER BY level, first LIMIT 2", {as_value(run)},
        [&](const Row& row) { two.push_back({row.integer(0), row.integer(1), row.blob(2)}); });
    if (!read) return read;
    std::vector<MetricRow> kept;
    for (const Chunk& chunk : two) {
        auto rows = unpack_metrics(run, chunk.bytes);
        if (!rows) return rows.error();
        for (std::size_t i = 0; i < rows->size(); ++i)
            if (i % 2 == 0) kept.push_back(std::move((*rows)[i]));
        Status gone = database.run("DELETE FROM metric_chunks WHERE run=? AND first=?", {as_value(run), chunk.first});
        if (!gone) return gone;
    }
    std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
    --mark.chunks;
    return write_chunk(database, run, kept, std::max(two.front().level, two.back().level) + 1);
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
    if (++mark.unsealed < chunk_rows) return Done{};
    if (Status sealed = seal(database, run, mark); !sealed) return sealed;
    return mark.chunks > chunks_at_most ? thin(database, run, mark) : Done{};
}

}  // namespace

Status add_metrics(Database& database, MetricMarks& marks, const std::vector<MetricRow>& rows) {
    for (const MetricRow& row : rows) {
        const RunId run = row.attempt.run;
        auto mark = marks.find(run);
        if (mark == marks.end()) {
            auto known = mark_of(database, run);
            if (!known) return known.error();
            mark = marks.emplace(run, std::move(*known)).first;
        }
        if (Status added = add(database, run, mark->second, row); !added) return added;
    }
    return Done{};
}

Result<std::vector<MetricRow>> read_metrics(Database& database, RunId run, std::uint64_t after, std::size_t limit) {
    std::vector<MetricRow> rows;
    std::vector<std::int64_t> firsts;
    Status listed = database.each("SELECT first FROM metric_chunks WHERE run=? AND last > ? ORDER BY first LIMIT ?",
                                  {as_value(run), static_cast<std::int64_t>(after), static_cast<std::int64_t>(limit)},
                                  [&](const Row& row) { firsts.push_back(row.integer(0)); });
    if (!listed) return listed.error();
    for (const std::int64_t first : firsts) {
        if (rows.size() >= limit) return rows;
        std::string bytes;
        Status read = database.each("SELECT rows FROM metric_chunks WHERE run=? AND first=?", {as_value(run), first},
                                    [&](const Row& row) { bytes = row.blob(0); });
        if (!read) return read.error();
        auto chunk = unpack_metrics(run, bytes);
        if (!chunk) return chunk.error();
        for (MetricRow& row : *chunk)
            if (row.position > after && rows.size() < limit) rows.push_back(std::move(row));
    }
    if (rows.size() >= limit) return rows;
    auto rest = unsealed_rows(database, run, after, limit - rows.size());
    if (!rest) return rest.error();
    std::move(rest->begin(), rest->end(), std::back_inserter(rows));
    return rows;
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
    auto rows = read_metrics(database, run, static_cast<std::uint64_t>(*highest) - 1, 1);
    if (!rows) return rows.error();
    return rows->empty() ? std::optional<MetricRow>() : std::optional<MetricRow>(std::move(rows->front()));
}

Status erase_metrics(Database& database, RunId run) {
    for (const char* statement : {"DELETE FROM metrics WHERE run=?", "DELETE FROM metric_chunks WHERE run=?"})
        if (Status erased = database.run(statement, {as_value(run)}); !erased) return erased;
    return Done{};
}

}  // namespace rtrain::state
