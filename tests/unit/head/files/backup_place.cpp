// Places where a confined head can write a backup.
#include "daemon/head/files/backup_place.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

TEST_CASE("a backup is refused where only the head's service would see it, or cannot write") {
    const std::string mounts =
        "21 1 8:1 / / ro,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "22 21 8:1 /tmp/systemd-private-0c-rtrain-head.service-Yx/tmp /tmp rw,nosuid shared:2 - ext4 /dev/sda1 rw\n"
        "23 21 8:1 /var/lib/private/rtrain-head /var/lib/private/rtrain-head rw - ext4 /dev/sda1 rw\n"
        "24 21 8:2 / /mnt rw,relatime - nfs4 server:/ rw\n"
        "25 24 8:3 / /mnt/archive ro - nfs4 server:/archive rw\n";
    const auto place = [&](const std::string& path) {
        return check_backup_place(path, mounts, "/var/lib/rtrain-head");
    };
    CHECK(place("/var/lib/private/rtrain-head/backup.db"));
    CHECK(place("/mnt/backup.db"));
    CHECK(place("/mnt/archives/backup.db"));
    CHECK(place("/tmp/backup.db").error().message.find("/tmp of its own") != std::string::npos);
    CHECK(place("/tmp/backup.db").error().next.find("--data /var/lib/rtrain-head") != std::string::npos);
    CHECK(place("/root/backup.db").error().message.find("read-only") != std::string::npos);
    CHECK(place("/tmpfs/backup.db").error().message.find("read-only") != std::string::npos);
    CHECK(place("/mnt/archive/backup.db").error().code == ErrorCode::conflict);
}

TEST_CASE("a head that nothing confines may put a backup anywhere") {
    CHECK(check_backup_place("/tmp/backup.db", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "/data"));
    CHECK(check_backup_place("/tmp/backup.db", "", "/data"));
}
