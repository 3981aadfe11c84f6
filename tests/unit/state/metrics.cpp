// Metrics of reports. All reports of all ranks are stored in order, in little space, in the transaction of their
// events.
#include <random>

#include "storage/state/metric_chunk.hpp"
#include "storage/state/schema.hpp"
#include "storage/state/sqlite.hpp"
#include "tests/unit/state_story.hpp"

using namespace rtrain;
using namespace rtrain::state;

namespace {

MetricRow row_of(std::uint64_t index, std::string json = R"({"0":{"loss":1}})") {
    return {.attempt = attempt(1, 1),
            .index = index,
            .wall_ms = 1'700'000'000'000 + static_cast<std::int64_t>(index),
            .ranks_json = std::move(json)};
}

std::vector<MetricRow> rows_after(const Story& story, std::uint64_t position, std::size_t most = 10) {
    return story.journal->metrics({1}, position, {.rows = most}).rows;
}

Result<std::vector<MetricRow>> unpacked(const std::string& bytes) {
    std::vector<MetricRow> rows;
    const Status whole = unpack_metrics({1}, bytes, [&](MetricRow&& row) { rows.push_back(std::move(row)); });
    if (!whole) return whole.error();
    return rows;
}

void commit_rows(Story& story, std::uint64_t from, std::uint64_t to) {
    Batch batch;
    for (std::uint64_t index = from; index <= to; ++index) batch.metrics.push_back(row_of(index));
    REQUIRE(story.journal->commit(batch).ok());
}

}  // namespace

TEST_CASE("reports of a long run are all there, in order, page by page, before and after a restart") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    commit_rows(story, 1, 700);
    commit_rows(story, 701, 2'500);
    story.journal.reset();
    story.open();
    commit_rows(story, 2'400, 2'600);  // a hundred of them are repeats
    std::uint64_t next = 1, after = 0;
    for (auto page = rows_after(story, 0, 333); !page.empty(); page = rows_after(story, after, 333))
        for (const MetricRow& row : page) {
            REQUIRE(row.index == next++);
            after = row.position;
        }
    CHECK(next == 2'601);
    REQUIRE(story.journal->last_metrics({1}).has_value());
    CHECK(story.journal->last_metrics({1})->index == 2'600);
    CHECK_FALSE(story.journal->last_metrics({2}).has_value());
}

TEST_CASE("a chunk gives back what was put in, and a damaged one says so") {
    std::vector<MetricRow> rows{row_of(7, "{\"0\":{\n}}"), row_of(9, ""), row_of(8)};
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].position = 3 * i + 1;
    const std::string bytes = pack_metrics(rows);
    CHECK(unpacked(bytes).value() == rows);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ 0x20);
        const auto read = unpacked(changed);
        CHECK((!read || *read == rows));  // a few bits of a frame's header have no meaning
    }
    CHECK_FALSE(unpacked(bytes.substr(0, bytes.size() / 2)).ok());
}

TEST_CASE("reports of a megabyte come in pages bounded by bytes") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    const std::string megabyte = R"({"0":{"text":")" + std::string(1 << 20, 'x') + R"("}})";
    for (std::uint64_t index = 1; index <= 30; index += 5) {
        Batch batch;
        for (std::uint64_t i = index; i < index + 5; ++i) batch.metrics.push_back(row_of(i, megabyte));
        REQUIRE(story.journal->commit(batch).ok());
    }
    std::uint64_t next = 1, after = 0;
    for (bool more = true; more;) {
        const PageOf<MetricRow> page = story.journal->metrics({1}, after, {.rows = 1'000, .bytes = 4 << 20});
        CHECK(page.rows.size() <= 3);
        for (const MetricRow& row : page.rows) {
            REQUIRE(row.index == next++);
            REQUIRE(row.ranks_json == megabyte);
            after = row.position;
        }
        more = page.more;
    }
    CHECK(next == 31);
    CHECK(story.journal->metrics({1}, 0, {.rows = 10, .bytes = 1}).rows.size() == 1);  // at least one row
    CHECK(story.journal->last_metrics({1})->index == 30);
    story.journal.reset();
    Database database = Database::open(scratch / "data/state.db", Database::Mode::existing).value();
    // Chunks are closed by bytes, not by rows.
    CHECK(database.integer("SELECT count(*) FROM metric_chunks").value() == 4);
    CHECK(database.integer("SELECT count(*) FROM metrics").value() < 8);
}

TEST_CASE("a million reports of two ranks take at most 150 MB on disk") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    std::mt19937_64 chance(1);
    std::uniform_real_distribution<double> loss(0, 3);
    // A tenth of their plain size.
    constexpr std::uint64_t reports = 100'000, per_commit = 2'000, most_bytes = 150'000'000;
    for (std::uint64_t index = 1; index <= reports;) {
        Batch batch;
        for (std::uint64_t i = 0; i < per_commit; ++i, ++index) {
            const std::string step = std::to_string(index), one = std::to_string(loss(chance));
            batch.metrics.push_back(row_of(index, R"({"0":{"step":)" + step + R"(,"loss":)" + one +
                                                      R"(},"1":{"step":)" + step + R"(,"loss":)" +
                                                      std::to_string(loss(chance)) + "}}"));
        }
        REQUIRE(story.journal->commit(batch).ok());
    }
    story.journal.reset();
    std::uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(scratch / "data")) bytes += file.file_size();
    CHECK(bytes * 10 < most_bytes);
    INFO(bytes << " bytes for a tenth of it");
    story.open();
    CHECK(rows_after(story, reports - 3).size() == 3);
}

TEST_CASE("a database of version 1 is opened: its metrics were rank 0's") {
    ScratchDirectory scratch;
    { Story story(scratch / "data"); }
    {
        Database database = Database::open(scratch / "data/state.db", Database::Mode::existing).value();
        for (const char* sql : {"DROP TABLE audit", "DROP TABLE metric_chunks",
                                "CREATE UNIQUE INDEX metrics_by_report ON metrics(run, attempt, idx)",
                                "INSERT INTO metrics VALUES(1, 1, 1, 5, 9, '{\"loss\":2}')", "PRAGMA user_version=1"})
            REQUIRE(database.run(sql).ok());
        REQUIRE(write_setting(database, "schema_version", "1").ok());
    }
    Story story(scratch / "data");
    REQUIRE(rows_after(story, 0).size() == 1);
    CHECK(rows_after(story, 0)[0].ranks_json == R"({"0":{"loss":2}})");
    commit_rows(story, 6, 6);
    CHECK(rows_after(story, 0).size() == 2);
}
