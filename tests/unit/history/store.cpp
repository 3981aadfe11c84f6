// The file of the levels: its state after a crash, removals, and damaged files.
#include "storage/history/store.hpp"

#include <filesystem>

#include "storage/history/limits.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::history;

namespace {

NamedSample sample(std::uint64_t at, double value, const std::string& key = "loss") {
    return {
        .at = at, .wall_ms = static_cast<std::int64_t>(at) * 10, .attempt = 1, .step = at, .values = {{key, value}}};
}

void copy_files(const std::string& from, const std::string& to) {
    for (const char* suffix : {"", "-wal"})
        if (std::filesystem::exists(from + suffix))
            std::filesystem::copy_file(from + suffix, to + suffix, std::filesystem::copy_options::overwrite_existing);
}

constexpr Window whole{.first = 1, .last = 3'000, .points = 1'000};

}  // namespace

TEST_CASE("a torn tail of the file loses the newest transactions, and none in part") {
    Folder folder;
    const std::string path = folder.path + "/history.db", torn = folder.path + "/torn.db";
    Store store = Store::open(path).value();
    std::vector<std::uint64_t> ends;  // the last sample of each transaction
    for (std::uint64_t at = 1; at <= 2'000; ++at) {
        REQUIRE(store.add("run/1", Kind::run, sample(at, static_cast<double>(at))).ok());
        if (at % 100 != 50) continue;
        REQUIRE(store.flush(Store::Which::all, 0).ok());
        ends.push_back(at);
    }
    const auto wal_bytes = std::filesystem::file_size(path + "-wal");
    std::size_t cuts = 0;
    for (std::uintmax_t size = 0; size < wal_bytes; size += 1'237, ++cuts) {
        copy_files(path, torn);
        std::filesystem::resize_file(torn + "-wal", size);
        Store left = Store::open(torn).value();
        const std::uint64_t last = left.last("run/1").value();
        if (last != 0 && std::ranges::find(ends, last) == ends.end()) FAIL("sample " << last << " ends no transaction");
        for (std::uint64_t at = last + 1; at <= 2'000; ++at)
            REQUIRE(left.add("run/1", Kind::run, sample(at, static_cast<double>(at))).ok());
        const auto points = left.read("run/1", "loss", whole).value().points;
        if (points != store.read("run/1", "loss", whole).value().points) FAIL("cut at " << size);
        for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(torn + suffix);
    }
    CHECK(cuts > 50);
}

TEST_CASE("a file that is damaged, or another's, is begun anew") {
    Folder folder;
    const std::string path = folder.path + "/history.db";
    {
        Store store = Store::open(path).value();
        REQUIRE(store.add("run/1", Kind::run, sample(1, 1)).ok());
        REQUIRE(store.flush(Store::Which::all, 0).ok());
    }
    CHECK(Store::open(path).value().last("run/1").value() == 1);
    std::string bytes = bytes_of_file(path);
    for (std::size_t i = 4'096; i < bytes.size(); i += 3) bytes[i] = 'x';
    write_to_file(path, bytes);
    CHECK(Store::open(path).value().last("run/1").value() == 0);
    write_to_file(
        path,
        "no database at all, and longer than a header of one hundred bytes, so that it is looked at with some care");
    CHECK(Store::open(path).value().subjects(Kind::run).empty());
}

TEST_CASE("a run has at most so many keys, and the rest is left out") {
    Folder folder;
    Store store = Store::open(folder.path + "/history.db").value();
    NamedSample many = sample(1, 1);
    for (std::size_t i = 0; i < keys_most + 20; ++i) many.values.emplace_back("k" + std::to_string(i), 2.0);
    many.values.emplace_back(std::string(key_bytes_most + 1, 'k'), 3.0);
    REQUIRE(store.add("run/1", Kind::run, many).ok());
    CHECK(store.keys("run/1").value().size() == keys_most);
    REQUIRE(store.flush(Store::Which::all, 0).ok());
    CHECK(store.read("run/1", "loss", whole).value().points.size() == 1);
}

TEST_CASE("of nodes a day is kept, and never more bytes than there is room for") {
    Folder folder;
    Store store = Store::open(folder.path + "/history.db").value();
    const std::uint64_t begin = 1'800'000'000, day = static_cast<std::uint64_t>(usage_kept_s);
    for (std::uint64_t at = begin; at < begin + 2 * day; at += 10)
        REQUIRE(store.add("node/n1", Kind::usage, sample(at, static_cast<double>(at % 977), "cpu_cores")).ok());
    REQUIRE(store.add("run/1", Kind::run, sample(1, 1)).ok());
    REQUIRE(store.flush(Store::Which::all, 0).ok());
    const Window all{.first = begin, .last = begin + 2 * day, .points = 2'000};
    const auto first_of = [&] { return store.read("node/n1", "cpu_cores", all).value().points.front().first; };
    CHECK(first_of() < begin + 500);
    const auto now = static_cast<std::int64_t>(begin + 2 * day);
    REQUIRE(store.prune(now, usage_bytes_most).ok());
    CHECK(first_of() > begin + day - 10'000);
    CHECK(first_of() <= begin + day);
    REQUIRE(store.prune(now, 1'000).ok());
    CHECK(first_of() > begin + day + 10'000);
    CHECK(store.read("run/1", "loss", whole).value().points.size() == 1);
    REQUIRE(store.prune(now + 3 * usage_kept_s, 10'000).ok());
    store.unload(1'000'000, 0);
    REQUIRE(store.prune(now + 3 * usage_kept_s, 10'000).ok());
    CHECK(store.subjects(Kind::usage).empty());
}

TEST_CASE("the cluster keeps a week of its finest level, months of others") {
    Folder folder;
    Store store = Store::open(folder.path + "/history.db").value();
    constexpr std::uint64_t begin = 1'800'000'000, hour = 3'600, weeks_5 = 35 * 24 * hour;
    for (std::uint64_t at = begin; at < begin + weeks_5; at += 64) {
        REQUIRE(store.add("cluster", Kind::cluster, sample(at, static_cast<double>(at % 977), "gpus_used")).ok());
        if (at % hour < 64) REQUIRE(store.flush(Store::Which::all, 0).ok());
    }
    REQUIRE(store.prune(static_cast<std::int64_t>(begin + weeks_5), usage_bytes_most).ok());
    const auto first_of = [&](std::uint64_t from, std::size_t points) {
        const Window window{.first = from, .last = begin + weeks_5, .points = points};
        return store.read("cluster", "gpus_used", window).value();
    };
    CHECK(first_of(begin, 2'000).points.front().first < begin + 5'000);
    CHECK(first_of(begin + weeks_5 - hour, 500).samples_per_point == 16);
    CHECK(store.subjects(Kind::cluster) == std::vector<std::string>{"cluster"});
    auto chunks = state::Database::open(folder.path + "/history.db", state::Database::Mode::existing);
    REQUIRE(chunks.ok());
    CHECK(chunks->integer("SELECT count(*) FROM chunks WHERE level=0").value() <=
          static_cast<std::int64_t>(cluster_chunks_most + 2));
}

TEST_CASE("a clock that goes back keeps its samples, in the newest bucket") {
    Folder folder;
    Store store = Store::open(folder.path + "/history.db").value();
    REQUIRE(store.add("node/n1", Kind::usage, sample(10'000, 1, "cpu_cores")).ok());
    REQUIRE(store.add("node/n1", Kind::usage, sample(5'000, 7, "cpu_cores")).ok());
    const auto points = store.read("node/n1", "cpu_cores", {.first = 0, .last = 20'000, .points = 100}).value().points;
    REQUIRE(points.size() == 1);
    CHECK(points[0].range.greatest == 7);
}

TEST_CASE("what is not added to any more leaves memory once it is written, and comes back from disk") {
    Folder folder;
    Store store = Store::open(folder.path + "/history.db").value();
    for (std::uint64_t run = 1; run <= 20; ++run)
        for (std::uint64_t at = 1; at <= 3'000; ++at)
            REQUIRE(store.add("run/" + std::to_string(run), Kind::run, sample(at, static_cast<double>(at))).ok());
    store.unload(0, 1);
    CHECK(store.loaded(Kind::run) < 20);  // No part of it is on disk. It is made anew from the reports.
    for (std::uint64_t run = 1; run <= 20; ++run)
        for (std::uint64_t at = store.last("run/" + std::to_string(run)).value() + 1; at <= 3'000; ++at)
            REQUIRE(store.add("run/" + std::to_string(run), Kind::run, sample(at, static_cast<double>(at))).ok());
    store.unload(0, std::size_t{8} << 20);
    CHECK(store.loaded(Kind::run) == 20);
    REQUIRE(store.flush(Store::Which::all, 0).ok());
    store.unload(0, 20'000);
    CHECK(store.loaded(Kind::run) < 20);
    CHECK(store.read("run/1", "loss", whole).value().points.size() == 188);
    REQUIRE(store.forget("run/1").ok());
    CHECK(store.read("run/1", "loss", whole).value().points.empty());
    REQUIRE(store.forget_all("run/1").ok());
    CHECK(store.subjects(Kind::run).size() == 9);  // run/2 to run/9, run/20
}

TEST_CASE("a full chunk is written at once, with the number of the last sample in it") {
    Folder folder;
    const std::string path = folder.path + "/history.db";
    {
        Store store = Store::open(path).value();
        for (std::uint64_t at = 1; at <= 8'300; ++at) {
            REQUIRE(store.add("run/1", Kind::run, sample(at, static_cast<double>(at))).ok());
            REQUIRE(store.flush_full("run/1", 0).ok());
        }
    }  // Killed here; nothing else was written.
    Store store = Store::open(path).value();
    CHECK(store.last("run/1").value() == 8'192);
    for (std::uint64_t at = 8'193; at <= 8'300; ++at)
        REQUIRE(store.add("run/1", Kind::run, sample(at, static_cast<double>(at))).ok());
    const auto points = store.read("run/1", "loss", {.first = 1, .last = 8'300, .points = 1'000}).value().points;
    CHECK(points.size() == 519);
    CHECK(points.back().range.greatest == 8'300);
    CHECK(store.flush_full("run/2", 0).ok());
}
