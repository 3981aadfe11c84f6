// Makes the device files with the numbers and names of nvidia-modprobe.
#include "daemon/agent/hardware/nvidia_nodes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "daemon/agent/disk/node_files.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::agent {
namespace {

constexpr std::uint32_t control_minor = 255, modeset_minor = 254, uvm_minor = 0, uvm_tools_minor = 1;
constexpr std::uint32_t mode_for_all = 0666;

std::optional<std::uint32_t> number_in(const std::string& text) {
    const auto begin = text.find_first_not_of(" \t");
    std::uint32_t number = 0;
    if (begin == std::string::npos) return std::nullopt;
    const auto read = std::from_chars(text.data() + begin, text.data() + text.size(), number);
    return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// Returns the number after "NAME:" at the beginning of a line.
std::optional<std::uint32_t> value_of(const std::string& text, const std::string& name) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(name + ":")) return number_in(line.substr(name.size() + 1));
    return std::nullopt;
}

// Returns the major number of a character device. Block devices, which follow in the file, have separate numbers.
std::optional<std::uint32_t> major_of(const std::string& devices, const std::vector<std::string>& names) {
    std::istringstream lines(devices);
    for (std::string line; std::getline(lines, line) && !line.starts_with("Block");) {
        std::istringstream words(line);
        std::string number, name;
        words >> number >> name;
        for (const std::string& candidate : names)
            if (name == candidate) return number_in(number);
    }
    return std::nullopt;
}

Status make_node(const storage::Descriptor& dev, const DeviceNode& node) {
    struct stat there{};
    if (::fstatat(dev.number(), node.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) return Done{};
    const dev_t number = ::makedev(node.major, node.minor);
    const bool created = ::mknodat(dev.number(), node.name.c_str(), S_IFCHR | 0600, number) == 0;
    if (!created && errno == EEXIST) return Done{};  // another process made it first
    if (created && ::fchownat(dev.number(), node.name.c_str(), node.uid, node.gid, AT_SYMLINK_NOFOLLOW) == 0 &&
        ::fchmodat(dev.number(), node.name.c_str(), node.mode, 0) == 0)
        return Done{};
    return Error{ErrorCode::io, "making the device file " + node.name + ": " + std::strerror(errno),
                 "nvidia-modprobe -c 0 -u makes it"};
}

}  // namespace

std::vector<DeviceNode> nvidia_nodes(const std::string& devices, const std::string& params,
                                     const std::vector<std::string>& gpus) {
    if (value_of(params, "ModifyDeviceFiles").value_or(1) == 0) return {};
    const std::uint32_t uid = value_of(params, "DeviceFileUID").value_or(0),
                        gid = value_of(params, "DeviceFileGID").value_or(0),
                        mode = value_of(params, "DeviceFileMode").value_or(mode_for_all) & mode_for_all;
    std::vector<DeviceNode> nodes;
    const auto add = [&](const std::string& name, std::uint32_t major, std::uint32_t minor) {
        nodes.push_back({.name = name, .major = major, .minor = minor, .uid = uid, .gid = gid, .mode = mode});
    };
    if (const auto major = major_of(devices, {"nvidia-frontend", "nvidia", "nvidiactl"})) {
        add("nvidiactl", *major, control_minor);
        add("nvidia-modeset", *major, modeset_minor);
        for (const std::string& gpu : gpus)
            if (const auto minor = value_of(gpu, "Device Minor"))
                add("nvidia" + std::to_string(*minor), *major, *minor);
    }
    if (const auto major = major_of(devices, {"nvidia-uvm"})) {
        add("nvidia-uvm", *major, uvm_minor);
        add("nvidia-uvm-tools", *major, uvm_tools_minor);
    }
    return nodes;
}

Status make_nvidia_nodes(const std::string& proc, const std::string& dev) {
    const auto devices = read_whole(proc + "/devices"), params = read_whole(proc + "/driver/nvidia/params");
    if (!devices || !params) return Done{};
    std::vector<std::string> gpus;
    std::error_code none;
    for (std::filesystem::directory_iterator at(proc + "/driver/nvidia/gpus", none), end; !none && at != end;
         at.increment(none))
        if (const auto text = read_whole(at->path().string() + "/information")) gpus.push_back(*text);
    const auto top = storage::open_top(dev);
    if (!top) return top.error();
    for (const DeviceNode& node : nvidia_nodes(*devices, *params, gpus))
        if (Status status = make_node(*top, node); !status) return status;
    return Done{};
}

}  // namespace rtrain::agent
