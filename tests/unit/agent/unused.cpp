// Code and setups that were not used for long are removed from the node. The test sets the time.
#include "daemon/agent/preparation/unused.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/preparation/preparation.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

const std::string sha_a(64, 'a'), sha_b(64, 'b');

struct KeptThings {
    Folder folder;
    NodeFiles files{folder.path, folder.path + "/scratch"};
    std::int64_t now = wall_ms();

    bool has(const std::string& name) const { return std::filesystem::exists(folder.path + "/" + name); }
    void used(const std::string& name, std::int64_t days_ago) const {
        const std::int64_t at_ms = now - days_ago * day_ms;
        const timespec times[2] = {{at_ms / 1000, 0}, {at_ms / 1000, 0}};
        REQUIRE(::utimensat(AT_FDCWD, (folder.path + "/" + name).c_str(), times, 0) == 0);
    }
    void keep(const std::string& name, std::int64_t days_ago) const {
        REQUIRE(make_directory(std::filesystem::path(folder.path + "/" + name).parent_path(), 0755));
        std::ofstream(folder.path + "/" + name) << "bytes";
        used(name, days_ago);
    }
    void keep_code(const std::string& sha, std::int64_t days_ago) const {
        keep("code/" + sha + "/train.py", days_ago);
        keep("code/" + sha + ".tar.zst", days_ago);
        used("code/" + sha, days_ago);
    }
    void keep_setup(const std::string& key, std::int64_t days_ago) const {
        keep("setups/" + key + "/venv/bin/python", days_ago);
        keep("setups/" + key + "/done", days_ago);
        used("setups/" + key, days_ago);
    }
    void sweep(const std::set<std::string>& in_use = {}) const { remove_unused(folder.path, in_use, now); }
};

}  // namespace

TEST_CASE("a kept checkpoint that no attempt came for goes after three days, that of a run which is here stays") {
    KeptThings node;
    for (const std::string run : {"c0ffee-1", "c0ffee-2", "c0ffee-3"}) {
        node.keep("checkpoints/" + run + "/1-7/" + sha_a, 4);
        node.used("checkpoints/" + run, run == "c0ffee-3" ? 2 : 4);
    }
    node.sweep({"c0ffee-2"});
    CHECK_FALSE(node.has("checkpoints/c0ffee-1"));
    CHECK(node.has("checkpoints/c0ffee-2/1-7/" + sha_a));
    CHECK(node.has("checkpoints/c0ffee-3/1-7/" + sha_a));
}

TEST_CASE("code that nobody has used for two weeks goes with its archive, a setup after thirty days") {
    KeptThings node;
    node.keep_code(sha_a, 15);
    node.keep_code(sha_b, 13);
    node.keep("code/" + std::string(64, 'c') + ".pkl", 15);
    node.keep_setup("old", 31);
    node.keep_setup("new", 29);
    node.keep("setups/cut-off/work/half", 31);
    node.used("setups/cut-off", 31);

    node.sweep();

    CHECK_FALSE(node.has("code/" + sha_a));
    CHECK_FALSE(node.has("code/" + sha_a + ".tar.zst"));
    CHECK_FALSE(node.has("code/" + std::string(64, 'c') + ".pkl"));
    CHECK(node.has("code/" + sha_b + "/train.py"));
    CHECK(node.has("code/" + sha_b + ".tar.zst"));
    CHECK_FALSE(node.has("setups/old"));
    CHECK(node.has("setups/new/done"));
    CHECK_FALSE(node.has("setups/cut-off"));
    for (const char* folder : {"code", "setups"})
        for (const auto& entry : std::filesystem::directory_iterator(node.folder.path + "/" + folder))
            CHECK_FALSE(entry.path().filename().string().starts_with("."));
}

TEST_CASE("what an attempt that is held names stays, however old it is") {
    KeptThings node;
    node.keep_code(sha_a, 400);
    node.keep_setup("held", 400);
    node.sweep({sha_a, "held"});
    CHECK(node.has("code/" + sha_a + "/train.py"));
    CHECK(node.has("setups/held/done"));
}

TEST_CASE("a removal that was cut off is finished by the next one") {
    KeptThings node;
    node.keep("code/.gone-" + sha_a + "/train.py", 0);
    node.keep("setups/.gone-key/venv/bin/python", 0);
    node.keep_code(sha_a, 1);  // fetched again since then
    node.sweep();
    CHECK_FALSE(node.has("code/.gone-" + sha_a));
    CHECK_FALSE(node.has("setups/.gone-key"));
    CHECK(node.has("code/" + sha_a + "/train.py"));
}

TEST_CASE("a preparation that takes up old code or an old setup keeps it from then on") {
    KeptThings node;
    REQUIRE(make_directory(node.folder.path + "/runs", 0755));
    node.keep_code(sha_a, 20);
    node.keep("code/" + sha_b + ".pkl", 20);
    protocol::Prepare order = prepare_order({});
    order.storage_path = node.folder.path + "/runs";
    order.code_sha256 = sha_a;
    order.job_json = R"({"version":1,"name":"digits","entrypoint":["python","train.py"],"setup":"make",)"
                     R"("env":{"RTRAIN_DRIVER_SHA256":")" +
                     sha_b + R"("}})";
    NodeFacts facts{
        .files = node.files, .node = "n1", .may_run_as_root = true, .inherited = {}, .head = {}, .on_head = {}};
    auto result = make_context(facts, order, Probing::no);
    REQUIRE(std::holds_alternative<Context>(result));
    const std::string key = setup_key(setup_order(*std::get<Context>(result), facts));
    node.keep_setup(key, 40);
    result = make_context(facts, order, Probing::no);
    REQUIRE(std::holds_alternative<Context>(result));
    CHECK(std::get<Context>(result)->setup.has_value());

    node.now += 13 * day_ms;
    node.sweep();
    CHECK(node.has("code/" + sha_a + "/train.py"));
    CHECK(node.has("code/" + sha_a + ".tar.zst"));
    CHECK(node.has("code/" + sha_b + ".pkl"));
    CHECK(node.has("setups/" + key + "/done"));
    node.now += 20 * day_ms;
    node.sweep();
    CHECK_FALSE(node.has("code/" + sha_a));
    CHECK_FALSE(node.has("setups/" + key));
}

TEST_CASE("a user with more setups than the share loses the least recently used, and nobody else's go") {
    const std::vector<KeptSetup> setups = {{.key = "a1", .owner = 1, .bytes = 40, .used_wall_ms = 1},
                                           {.key = "a2", .owner = 1, .bytes = 40, .used_wall_ms = 2, .in_use = true},
                                           {.key = "a3", .owner = 1, .bytes = 40, .used_wall_ms = 3},
                                           {.key = "a4", .owner = 1, .bytes = 40, .used_wall_ms = 4},
                                           {.key = "b1", .owner = 2, .bytes = 90, .used_wall_ms = 0}};
    CHECK(setups_to_remove(setups, 100) == std::vector<std::string>{"a1", "a3"});
    CHECK(setups_to_remove(setups, 160).empty());
    CHECK(setups_to_remove(setups, 0) == std::vector<std::string>{"b1", "a1", "a3", "a4"});
}
