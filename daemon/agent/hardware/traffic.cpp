// Reads /proc/net/dev, /proc/PID/io and /proc/stat: proc(5). /proc/diskstats: Linux,
// Documentation/admin-guide/iostats.rst; its sectors always have 512 bytes.
#include "daemon/agent/hardware/traffic.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <vector>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/hardware/processes.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t sector_bytes = 512;
constexpr std::size_t descriptors_most = 65'536;  // per worker; a job may open any number

struct Interface {
    std::string name;
    CarriedBytes carried;
};

std::vector<Interface> interfaces(const std::string& proc) {
    std::vector<Interface> all;
    const auto text = read_whole(proc + "/net/dev");
    std::istringstream lines(text ? *text : "");
    for (std::string line; std::getline(lines, line);) {
        const auto colon = line.find(':');  // the two lines of the heading have no colon
        if (colon == std::string::npos) continue;
        std::istringstream name(line.substr(0, colon)), values(line.substr(colon + 1));
        Interface interface;
        std::int64_t other = 0;  // packets errs drop fifo frame compressed multicast
        name >> interface.name;
        values >> interface.carried.received;
        for (int i = 0; i < 7; ++i) values >> other;
        if (values >> interface.carried.sent) all.push_back(interface);
    }
    return all;
}

void add_network(protocol::Traffic& traffic, const std::string& proc, const std::string& sys) {
    std::vector<Interface> all = interfaces(proc), devices;
    for (const Interface& interface : all)
        if (std::filesystem::exists(sys + "/class/net/" + interface.name + "/device")) devices.push_back(interface);
    std::erase_if(all, [](const Interface& interface) { return interface.name == "lo"; });
    if (all.empty()) return;
    traffic.network_received = traffic.network_sent = 0;
    for (const Interface& interface : devices.empty() ? all : devices) {
        traffic.network_received += interface.carried.received;
        traffic.network_sent += interface.carried.sent;
    }
}

// Adds the bytes of disks. Partitions, and devices on top of disks (dm, md, loop), would count the same bytes again.
void add_disks(protocol::Traffic& traffic, const std::string& proc, const std::string& sys) {
    const auto text = read_whole(proc + "/diskstats");
    std::istringstream lines(text ? *text : "");
    for (std::string line; std::getline(lines, line);) {
        std::istringstream values(line);
        std::string name;
        std::int64_t major = 0, minor = 0, other = 0, read = 0, written = 0;
        // reads, merged, SECTORS READ, ms, writes, merged, SECTORS WRITTEN
        values >> major >> minor >> name >> other >> other >> read >> other >> other >> other >> written;
        std::replace(name.begin(), name.end(), '/', '!');
        if (!values || !std::filesystem::exists(sys + "/block/" + name + "/device")) continue;
        traffic.disk_read = std::max<std::int64_t>(0, traffic.disk_read) + read * sector_bytes;
        traffic.disk_written = std::max<std::int64_t>(0, traffic.disk_written) + written * sector_bytes;
    }
}

std::set<std::uint64_t> sockets_of(std::int64_t pid, std::size_t& descriptors_left) {
    std::set<std::uint64_t> inodes;
    std::error_code gone;
    for (std::filesystem::directory_iterator entry("/proc/" + std::to_string(pid) + "/fd", gone), end;
         !gone && entry != end && descriptors_left > 0; entry.increment(gone), --descriptors_left) {
        char target[64] = {};
        const ssize_t length = ::readlink(entry->path().c_str(), target, sizeof target - 1);
        unsigned long long inode = 0;
        if (length > 0 && std::sscanf(target, "socket:[%llu]", &inode) == 1) inodes.insert(inode);
    }
    return inodes;
}

// Adds the file bytes of a process. A process that ends passes its counts to the process that waits for it. So the tree
// of a shim loses none.
void add_files(protocol::Traffic& traffic, std::int64_t pid) {
    const auto values = read_values("/proc/" + std::to_string(pid) + "/io");
    const auto read = values.find("read_bytes:"), written = values.find("write_bytes:");
    if (read == values.end() || written == values.end()) return;
    traffic.disk_read = std::max<std::int64_t>(0, traffic.disk_read) + std::atoll(read->second.c_str());
    traffic.disk_written = std::max<std::int64_t>(0, traffic.disk_written) + std::atoll(written->second.c_str());
}

// Returns the bytes of a connection since the last sample. A new connection, or one with a reused inode number, counts
// in full.
std::int64_t growth(std::int64_t now, std::int64_t before) { return now >= before ? now - before : now; }

}  // namespace

protocol::Traffic node_traffic(const std::string& proc, const std::string& sys) {
    protocol::Traffic traffic;
    add_network(traffic, proc, sys);
    add_disks(traffic, proc, sys);
    return traffic;
}

// Reads the first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks. The time of virtual
// machines (guest) is part of user.
std::int64_t processors_worked_ms(const std::string& proc) {
    const auto text = read_whole(proc + "/stat");
    std::istringstream values(text ? *text : "");
    std::string name;
    std::int64_t ticks[8] = {};
    values >> name;
    for (std::int64_t& value : ticks) values >> value;
    if (!values || name != "cpu") return -1;
    const auto [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    return (user + nice + system + irq + softirq + steal) * 1'000 / ::sysconf(_SC_CLK_TCK);
}

std::map<WorkerName, protocol::Traffic> WorkerTraffic::look(const Pids& workers,
                                                            const std::optional<Sockets>& sockets) {
    std::erase_if(counted_, [&](const auto& counted) { return !workers.contains(counted.first); });
    std::map<WorkerName, protocol::Traffic> out;
    for (const auto& [name, pid] : workers) {
        Counted& counted = counted_[name];
        if (counted.pid != pid) counted = {.pid = pid};
        protocol::Traffic& traffic = out[name];
        Sockets open;
        std::size_t descriptors_left = descriptors_most;
        for (const std::int64_t process : with_descendants(shim_of(pid))) {
            add_files(traffic, process);
            if (!sockets) continue;
            for (const std::uint64_t inode : sockets_of(process, descriptors_left))
                if (const auto carried = sockets->find(inode); carried != sockets->end()) open.insert(*carried);
        }
        if (!sockets) continue;
        for (const auto& [inode, now] : open) {
            const CarriedBytes before = counted.last.contains(inode) ? counted.last.at(inode) : CarriedBytes{};
            counted.all.received += growth(now.received, before.received);
            counted.all.sent += growth(now.sent, before.sent);
        }
        counted.last = std::move(open);
        traffic.network_received = counted.all.received;
        traffic.network_sent = counted.all.sent;
    }
    return out;
}

}  // namespace rtrain::agent
