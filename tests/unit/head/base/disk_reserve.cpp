// The reserve on the head's disk: its refusals, the parts that it gives up, and its restoration.
#include "daemon/head/base/disk_reserve.hpp"

#include <filesystem>

#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using head::DiskReserve;

namespace {

constexpr std::uint64_t KiB = 1 << 10, MiB = 1 << 20;

// A disk of 16 MiB: 2 MiB are reserved from users' data, and the file has 1 MiB.
struct SmallDisk {
    Folder folder;
    std::uint64_t used = 0;  // by other programs
    DiskReserve reserve{folder.path, [this](const std::string&) { return std::optional(size()); }};

    std::uint64_t file() const {
        std::error_code none;
        const auto bytes = std::filesystem::file_size(folder.path + "/reserve", none);
        return none ? 0 : bytes;
    }
    head::DiskSize size() const { return {.whole = 16 * MiB, .free = 16 * MiB - used - file()}; }
};

}  // namespace

TEST_CASE("the reserve is made where there is room for it, and users' data are refused before it is touched") {
    SmallDisk disk;
    CHECK_FALSE(disk.reserve.look(0).files);
    CHECK(disk.file() == MiB);
    disk.used = 13 * MiB;  // 2 MiB are free
    CHECK_FALSE(disk.reserve.look(0).files);
    disk.used = 13 * MiB + 1;
    const auto room = disk.reserve.look(0);
    REQUIRE(room.files);
    CHECK(room.files->code == ErrorCode::full);
    CHECK(room.files->message.find("the last 2 MiB are kept") != std::string::npos);
    CHECK(room.rows);
    CHECK(disk.file() == MiB);
}

TEST_CASE("there is room again once a quarter more than the reserve is free") {
    SmallDisk disk;
    disk.reserve.look(0);
    disk.used = 14 * MiB;
    CHECK(disk.reserve.look(0).files);
    disk.used = 13 * MiB;
    CHECK(disk.reserve.look(0).files);
    disk.used = 12 * MiB + 512 * KiB;
    CHECK_FALSE(disk.reserve.look(0).files);
}

TEST_CASE("rows go into pages of the database that have none, on a full disk too") {
    SmallDisk disk;
    disk.reserve.look(0);
    disk.used = 15 * MiB;
    const auto room = disk.reserve.look(3 * MiB);
    CHECK(room.files);
    CHECK_FALSE(room.rows);
}

TEST_CASE("the file is given up piece by piece until it is gone, and is whole again when others leave room") {
    SmallDisk disk;
    disk.reserve.look(0);
    disk.used = 15 * MiB;
    int pieces = 0;
    for (std::uint64_t before = disk.file(); disk.reserve.give_up(); before = disk.file()) {
        CHECK(before - disk.file() == 128 * KiB);
        ++pieces;
    }
    CHECK(pieces == 8);
    CHECK_FALSE(std::filesystem::exists(disk.folder.path + "/reserve"));
    CHECK(disk.reserve.look(0).files);
    CHECK(disk.file() == 0);
    disk.used = 4 * MiB;
    CHECK_FALSE(disk.reserve.look(0).files);
    CHECK(disk.file() == MiB);
}

TEST_CASE("a start on a full disk gets room, and takes no more of the reserve than it needs") {
    SmallDisk disk;
    disk.reserve.look(0);
    disk.used = 15 * MiB;
    disk.reserve.make_room_for_start();
    CHECK(disk.file() == MiB - 256 * KiB);
    disk.reserve.make_room_for_start();
    CHECK(disk.file() == MiB - 256 * KiB);
}

TEST_CASE("a large disk keeps no more than the limits say") {
    const DiskReserve::Sizes sizes = DiskReserve::sizes_on(1ull << 42);
    CHECK(sizes.for_users == 256 * MiB);
    CHECK(sizes.file == 32 * MiB);
}
