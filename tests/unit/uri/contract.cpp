// The contract of every Store, tested with a directory and with a bucket of each kind.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/uri/files/store.hpp"
#include "tests/unit/bucket_servers.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

struct TestedStore {  // a local directory for files, and a store for this test alone
    std::string path, kind;
    std::unique_ptr<Store> store;
    explicit TestedStore(std::string store_kind) : kind(std::move(store_kind)) {
        std::string text = (fs::temp_directory_path() / "rtrain-contract-XXXXXX").string();
        path = ::mkdtemp(text.data());
        store = again();
    }
    ~TestedStore() { fs::remove_all(path); }
    TestedStore(const TestedStore&) = delete;
    std::unique_ptr<Store> again() const {  // opens the same place as another process would
        if (kind == "file") return std::move(open_file_store(path + "/store")).value();
        const BucketKind bucket = kind_named(kind);
        return bucket_store(bucket, bucket.bucket + "/" + fs::path(path).filename().string(), shared_server(bucket));
    }
};

std::vector<std::string> kinds_of_store() {
    std::vector<std::string> kinds{"file"};
    kinds.insert(kinds.end(), bucket_kinds().begin(), bucket_kinds().end());
    return kinds;
}

std::string pattern(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::uint32_t x = 1;
    for (char& c : text) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
    return text;
}

}  // namespace

TEST_CASE("a store reads what was put, lists in order, replaces and removes") {
    const TestedStore place(GENERATE(from_range(kinds_of_store())));
    Store& store = *place.store;
    CHECK(store.list("")->empty());
    REQUIRE(store.put("run/b", "two").ok());
    REQUIRE(store.put("run/a/x", "one").ok());
    REQUIRE(store.put("run-2/c", "").ok());
    REQUIRE(store.put("run/b", "three").ok());

    CHECK(*place.again()->get("run/b") == "three");
    CHECK(store.get("run-2/c")->empty());
    CHECK(*store.list("run") == std::vector<StoreEntry>{{"run/a/x", 3}, {"run/b", 5}});
    CHECK(*store.list("run/b") == std::vector<StoreEntry>{{"run/b", 5}});
    CHECK(store.list("ru")->empty());
    CHECK(store.list("")->size() == 3);
    REQUIRE(store.remove("run/b").ok());
    REQUIRE(store.remove("run/b").ok());
    CHECK(store.get("run/b").error().code == ErrorCode::not_found);
    REQUIRE(store.remove_tree("run").ok());
    REQUIRE(store.remove_tree("run").ok());
    CHECK(*store.list("") == std::vector<StoreEntry>{{"run-2/c", 0}});
    CHECK(store.get_file("run/a/x", place.path + "/back", {}).error().code == ErrorCode::not_found);
    CHECK_FALSE(fs::exists(place.path + "/back"));
}

TEST_CASE("names with signs that mean something to a server are names like others") {
    const TestedStore place(GENERATE(from_range(kinds_of_store())));
    const std::vector<std::string> names{
        "d/a b",   "d/a+b",       "d/a=b&c=d", "d/100%",  "d/%2F%20", "d/\xc3\xa9\xe2\x82\xac",
        "d/q?x#y", "d/~._-!*'()", "d/<&>\"",   "d/a;b:c", "d/@$,[]",  "d/sub dir/\xf0\x9f\x98\x80.pt"};
    for (const auto& name : names) REQUIRE(place.store->put(name, name).ok());
    for (const auto& name : names) {
        INFO(name);
        CHECK(*place.store->get(name) == name);
        REQUIRE(place.store->get_file(name, place.path + "/back", {}).ok());
        CHECK(bytes_of_file(place.path + "/back") == name);
    }
    const auto listed = place.store->list("d");
    REQUIRE(listed.ok());
    std::vector<std::string> seen;
    for (const auto& entry : *listed) seen.push_back(entry.path);
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    CHECK(seen == sorted);
    REQUIRE(place.store->remove(names[0]).ok());
    REQUIRE(place.store->remove_tree("d").ok());
    CHECK(place.store->list("")->empty());
}

TEST_CASE("of several who create one name exactly one wins, and everyone reads its whole content") {
    const TestedStore place(GENERATE(from_range(kinds_of_store())));
    std::vector<int> won(6, -1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < won.size(); ++i)
        threads.emplace_back([&, i, store = place.again()] {
            const auto created = store->create("claims/1.json", std::string(50'000, static_cast<char>('a' + i)));
            won[i] = created.ok() && *created ? 1 : 0;
            const auto seen = store->get("claims/1.json");
            if (!created.ok() || !seen.ok() || seen->size() != 50'000 ||
                seen->find_first_not_of(seen->front()) != std::string::npos)
                won[i] = 100;
        });
    for (auto& thread : threads) thread.join();
    CHECK(std::count(won.begin(), won.end(), 1) == 1);
    CHECK(std::count(won.begin(), won.end(), 0) == 5);
    CHECK(place.store->list("")->size() == 1);  // no probe or leftover is beside it
    if (place.kind == "file") CHECK(std::distance(fs::directory_iterator(place.path + "/store/claims"), {}) == 1);
}

TEST_CASE("files go to a store and come back whole, small, empty and in many parts") {
    const TestedStore place(GENERATE(from_range(kinds_of_store())));
    const std::size_t bytes =
        GENERATE(std::size_t{0}, std::size_t{7}, (std::size_t{16} << 20) + 1, (std::size_t{50} << 20) + 3);
    const std::string content = pattern(bytes), given = place.path + "/given";
    write_to_file(given, content);
    std::int64_t uploaded = 0;
    REQUIRE(place.store->put_file(given, "c/kept", false, [&](auto done, auto) { uploaded = done; }).ok());
    CHECK(uploaded == static_cast<std::int64_t>(bytes));
    CHECK(fs::exists(given));
    REQUIRE(place.store->put_file(given, "c/given", true, {}).ok());
    CHECK_FALSE(fs::exists(given));
    CHECK(*place.store->list("c") == std::vector<StoreEntry>{{"c/given", static_cast<std::int64_t>(bytes)},
                                                             {"c/kept", static_cast<std::int64_t>(bytes)}});
    REQUIRE(place.again()->get_file("c/kept", place.path + "/sub/back", {}).ok());
    const bool same = bytes_of_file(place.path + "/sub/back") == content;
    CHECK(same);
    CHECK(std::distance(fs::directory_iterator(place.path + "/sub"), {}) == 1);
}

TEST_CASE("a store refuses paths that lead elsewhere, and files that are not there") {
    const TestedStore place(GENERATE(from_range(kinds_of_store())));
    for (const char* bad : {"", "/a", "a//b", "../a", "a/./b", "a/..", "a/"}) {
        INFO(bad);
        CHECK(place.store->put(bad, "x").error().code == ErrorCode::invalid);
        CHECK(place.store->get(bad).error().code == ErrorCode::invalid);
        CHECK(place.store->remove_tree(bad).error().code == ErrorCode::invalid);
    }
    CHECK(place.store->put_file(place.path + "/none", "c", true, {}).error().code == ErrorCode::not_found);
}

TEST_CASE("a probe leaves nothing behind") {
    const TestedStore place(GENERATE(from_range(kinds_of_store())));
    REQUIRE(probe(*place.store, "run-node-1").ok());
    CHECK(place.store->list("")->empty());
}

}  // namespace rtrain::storage
