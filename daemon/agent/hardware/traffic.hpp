// The bytes that the node and its workers have transferred, and the time that the node's processors have worked.
// docs/monitoring.md has sources and units in "Network and disk".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

struct CarriedBytes {
    std::int64_t received = 0, sent = 0;
};
using Sockets = std::map<std::uint64_t, CarriedBytes>;  // by inode

// Returns the bytes of each TCP connection of this network namespace so far; nullopt if the kernel does not report
// them.
std::optional<Sockets> tcp_sockets();

// Returns the bytes of the network interfaces and disks that are devices. Where no interface is a device (in a
// container), all interfaces but the loopback count.
protocol::Traffic node_traffic(const std::string& proc = "/proc", const std::string& sys = "/sys");

// Returns how long all processors have worked since boot; -1 if /proc does not report it.
std::int64_t processors_worked_ms(const std::string& proc = "/proc");

using WorkerName = std::pair<AttemptKey, std::uint32_t>;  // attempt, rank
using Pids = std::map<WorkerName, std::int64_t>;

// Counts the bytes of workers between two calls. Not thread-safe.
class WorkerTraffic {
  public:
    std::map<WorkerName, protocol::Traffic> look(const Pids& workers, const std::optional<Sockets>& sockets);

  private:
    struct Counted {
        std::int64_t pid = 0;
        CarriedBytes all{};
        Sockets last{};  // the open sockets
    };
    std::map<WorkerName, Counted> counted_;
};

}  // namespace rtrain::agent
