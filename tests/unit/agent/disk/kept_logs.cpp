// Logs that are longer than the part that a node keeps of them.
#include "daemon/agent/delivery/kept_logs.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "daemon/agent/disk/disk_room.hpp"
#include "tests/unit/agent/disk/log_story.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

std::uint64_t disk_bytes(const std::string& path) {
    struct stat facts{};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    return static_cast<std::uint64_t>(facts.st_blocks) * 512;
}

}  // namespace

TEST_CASE("a log longer than logs.max keeps its first and newest lines, and tells the head what it lost") {
    LogStory story;
    story.shipper.resend();
    story.shipper.follow({17, 1, 1}, {0}, {.bytes_max = 400'000});
    story.write("first\n");
    REQUIRE(story.until([&] { return story.received() == "first\n"; }));
    std::string written = "first\n";
    for (int i = 0; i < 100'000; ++i) written += "line " + std::to_string(i) + "\n";
    story.write(written.substr(6));
    const std::string path = story.files.log(attempt_1, 0, "out");
    REQUIRE(story.until([&] { return story.acknowledge() == written.size(); }));
    const storage::LogCuts cuts = storage::log_cuts(path);
    REQUIRE(cuts.size() == 1);
    CHECK(*read_whole(path) != written);
    CHECK(std::filesystem::file_size(path) == written.size());  // the rest keeps its offsets
    CHECK(disk_bytes(path) <= 400'000);
    const std::string left = written.substr(0, cuts[0].begin) + written.substr(cuts[0].end);
    CHECK(story.received() == left);
    CHECK(left.starts_with("first\nline 0\n"));
    CHECK(left.ends_with("line 99999\n"));
    CHECK(left[cuts[0].begin - 1] == '\n');
    CHECK(written[cuts[0].end - 1] == '\n');

    story.shipper.follow({17, 1, 1}, {0}, {.bytes_max = 400'000});  // the next agent finds the cut
    story.write("late\n");
    REQUIRE(story.until([&] { return story.received().ends_with("late\n"); }));
    CHECK(storage::log_cuts(path) == cuts);
}

TEST_CASE("a user's logs stay within the user's share of the disk, and short ones are not touched") {
    LogStory story;
    story.share = 1'000'000;
    story.shipper.follow({17, 1, 1}, {0, 1}, {.user = "ana"});
    story.write("short\n");
    const std::string flood = story.files.log(attempt_1, 1, "out");
    for (int i = 0; i < 20; ++i) {
        std::ofstream(flood, std::ios::app) << std::string(200'000, 'x') << "\n";
        story.shipper.hold_to_limits(attempt_1);
        CHECK(disk_bytes(flood) <= 1'000'000);
    }
    CHECK(*read_whole(story.files.log(attempt_1, 0, "out")) == "short\n");
    CHECK(storage::log_cuts(story.files.log(attempt_1, 0, "out")).empty());
}

TEST_CASE("a log that lost its middle is kept beside its run with a note and without zeros") {
    LogStory story;
    story.shipper.follow({17, 1, 1}, {0}, {.bytes_max = 100'000});
    std::string written;
    for (int i = 0; i < 100'000; ++i) written += "line " + std::to_string(i) + "\n";
    story.write(written);
    story.shipper.hold_to_limits(attempt_1);
    const std::string path = story.files.log(attempt_1, 0, "out");
    const storage::LogCuts cuts = storage::log_cuts(path);
    REQUIRE(cuts.size() == 1);
    const auto store = storage::open_file_store(story.folder.path + "/storage");
    REQUIRE(store);
    REQUIRE(put_log(**store, path, "logs/rank-00000.out"));
    CHECK(*(*store)->get("logs/rank-00000.out") ==
          written.substr(0, cuts[0].begin) + storage::cut_note(cuts[0]) + "\n" + written.substr(cuts[0].end));
}

TEST_CASE("cuts that touch are one, and too many of them swallow what lies between") {
    storage::LogCuts cuts;
    storage::add_cut(cuts, {10, 20});
    storage::add_cut(cuts, {30, 40});
    storage::add_cut(cuts, {20, 25});
    CHECK(cuts == storage::LogCuts{{10, 25}, {30, 40}});
    storage::add_cut(cuts, {24, 35});
    CHECK(cuts == storage::LogCuts{{10, 40}});
    CHECK(storage::bytes_cut(cuts, 0, 20) == 10);
    for (std::uint64_t i = 1; i <= storage::log_cuts_most; ++i) storage::add_cut(cuts, {i * 1'000, i * 1'000 + 10 + i});
    REQUIRE(cuts.size() == storage::log_cuts_most);
    CHECK(cuts.back() == storage::LogCut{63'000, 64'074});  // the smallest part between two cuts was removed too
}

TEST_CASE("a disk below its reserve is full for new runs until a quarter more is free") {
    const DiskRoom roomy{.size = 100'000, .free = 50'000};
    CHECK(reserve_of(roomy, 1'000'000) == 10'000);
    CHECK(full_disk("/d", roomy, 10'000, "").empty());
    const std::string full = full_disk("/d", {.size = 100'000, .free = 9'000}, 10'000, "");
    CHECK(full.starts_with("the disk of /d is nearly full"));
    CHECK(full_disk("/d", {.size = 100'000, .free = 11'000}, 10'000, full) == full);
    CHECK(full_disk("/d", {.size = 100'000, .free = 13'000}, 10'000, full).empty());
    const std::uint64_t gib = std::uint64_t{1} << 30;
    CHECK(logs_of_user({.size = 80 * gib, .free = 80 * gib}, 0, gib) == 10 * gib);
    CHECK(logs_of_user({.size = 80 * gib, .free = 8 * gib}, gib, gib) == 2 * gib);  // 8 GiB would be free for logs
    CHECK(logs_of_user({.size = 64 * gib, .free = 0}, gib, gib) == gib);            // the part that every user may have
}
