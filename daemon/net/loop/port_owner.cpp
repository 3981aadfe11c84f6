// See port_owner.hpp. /proc/net/tcp gives the inode of the listening socket; some process has a descriptor of that
// inode.
#include "daemon/net/loop/port_owner.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace rtrain::net {
namespace {

namespace fs = std::filesystem;
constexpr const char* listening = "0A";

void add_listeners(const char* table, std::uint16_t port, std::set<std::string>& inodes) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
        fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
        const std::size_t colon = local.rfind(':');
        if (!fields || state != listening || colon == std::string::npos) continue;
        if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port) inodes.insert("socket:[" + inode + "]");
    }
}

bool holds(const fs::path& process, const std::set<std::string>& inodes) {
    std::error_code failed;
    for (fs::directory_iterator at(process / "fd", failed), end; !failed && at != end; at.increment(failed)) {
        std::error_code gone;
        if (inodes.contains(fs::read_symlink(at->path(), gone).string())) return true;
    }
    return false;
}

}  // namespace

std::string port_owner(std::uint16_t port) {
    std::set<std::string> inodes;
    add_listeners("/proc/net/tcp", port, inodes);
    add_listeners("/proc/net/tcp6", port, inodes);
    if (inodes.empty()) return {};
    std::error_code failed;
    for (fs::directory_iterator at("/proc", failed), end; !failed && at != end; at.increment(failed)) {
        const std::string pid = at->path().filename();
        if (pid.find_first_not_of("0123456789") != std::string::npos || !holds(at->path(), inodes)) continue;
        std::ifstream file(at->path() / "comm");
        std::string name;
        std::getline(file, name);
        return name + " (pid " + pid + ")";
    }
    return {};
}

}  // namespace rtrain::net
