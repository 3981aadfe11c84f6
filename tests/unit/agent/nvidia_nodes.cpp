// Stories of NVIDIA's device files, from texts as its driver writes them. No GPU is needed.
#include "daemon/agent/hardware/nvidia_nodes.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <set>

#include "daemon/agent/disk/node_files.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

const std::string devices =
    "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n508 nvidia-caps\n511 nvidia-uvm\n\n"
    "Block devices:\n  7 loop\n";
const std::string params =
    "EnableMSI: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n";
const std::string h100 = "Model: \t\t NVIDIA H100\nIRQ:   \t\t 42\nDevice Minor: \t 3\nGPU Excluded:\t No\n";

}  // namespace

TEST_CASE("NVIDIA's device files follow from the driver's own words") {
    const auto nodes = nvidia_nodes(devices, params, {h100});
    const auto node = [](const char* name, std::uint32_t major, std::uint32_t minor) {
        return DeviceNode{.name = name, .major = major, .minor = minor, .uid = 0, .gid = 44, .mode = 0660};
    };
    CHECK(nodes == std::vector<DeviceNode>{node("nvidiactl", 195, 255), node("nvidia-modeset", 195, 254),
                                           node("nvidia3", 195, 3), node("nvidia-uvm", 511, 0),
                                           node("nvidia-uvm-tools", 511, 1)});
    CHECK(nvidia_nodes("Character devices:\n195 nvidia-frontend\n", "", {h100}).size() == 3);
    CHECK(nvidia_nodes("Character devices:\n195 nvidia-frontend\n", "", {h100})[0].mode == 0666);
}

TEST_CASE("without a driver, or where the driver forbids it, there is no device file to make") {
    CHECK(nvidia_nodes("Character devices:\n  1 mem\n", "", {}).empty());
    CHECK(nvidia_nodes("Block devices:\n195 nvidia\n", params, {h100}).empty());
    CHECK(nvidia_nodes(devices, "ModifyDeviceFiles: 0\n", {h100}).empty());
    Folder folder;
    CHECK(make_nvidia_nodes(folder.path + "/no-proc", folder.path + "/no-dev"));
}

TEST_CASE("missing device files are made, and what is there stays") {
    if (::geteuid() != 0) {
        WARN("skipped: making device files needs root");
        return;
    }
    Folder folder;
    const std::string proc = folder.path + "/proc", dev = folder.path + "/dev";
    REQUIRE(make_directory(proc + "/driver/nvidia/gpus/0000:1b:00.0", 0755));
    REQUIRE(make_directory(dev, 0755));
    REQUIRE(write_whole(proc + "/devices", devices, 0644, Durable::no));
    REQUIRE(write_whole(proc + "/driver/nvidia/params", params, 0644, Durable::no));
    REQUIRE(write_whole(proc + "/driver/nvidia/gpus/0000:1b:00.0/information", h100, 0644, Durable::no));
    REQUIRE(::symlink("/elsewhere", (dev + "/nvidiactl").c_str()) == 0);
    const Status made = make_nvidia_nodes(proc, dev);
    if (!made && made.error().message.find("not permitted") != std::string::npos) {
        WARN("skipped: this container makes no device files");
        return;
    }
    REQUIRE(made);
    struct stat facts{};
    REQUIRE(::lstat((dev + "/nvidia3").c_str(), &facts) == 0);
    CHECK(S_ISCHR(facts.st_mode));
    CHECK((facts.st_mode & 07777) == 0660);
    CHECK(facts.st_gid == 44);
    CHECK(facts.st_rdev == ::makedev(195, 3));
    REQUIRE(::lstat((dev + "/nvidia-uvm-tools").c_str(), &facts) == 0);
    CHECK(facts.st_rdev == ::makedev(511, 1));
    REQUIRE(::lstat((dev + "/nvidiactl").c_str(), &facts) == 0);
    CHECK(S_ISLNK(facts.st_mode));
    CHECK(make_nvidia_nodes(proc, dev));  // a second call finds nothing missing
}
