// How many bytes the node and its workers have moved, and how long the node's processors have worked. Sources and
// units: docs/monitoring.md, "Network and disk".
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

// Returns the bytes of each TCP connection of this network namespace so far; nullopt where the kernel does not tell.
std::optional<Sockets> tcp_sockets();

// Returns the bytes of the network interfaces and disks that are devices. Where no interface is a device (in a
// container), all interfaces but the loopback count.
protocol::Traffic node_traffic(const std::string& proc = "/proc", const std::string& sys = "/sys");

// Returns how long all processors have worked since the boot; -1 where /proc does not tell.
std::int64_t processors_worked_ms(const std::string& proc = "/proc");

using WorkerName = std::pair<AttemptKey, std::uint32_t>;  // attempt, rank
using Pids = std::map<WorkerName, std::int64_t>;

// Counts what workers carry, from one look to the next. From one thread at a time.
class WorkerTraffic {
  public:
    std::map<WorkerName, protocol::Traffic> look(const Pids& workers, const std::optional<Sockets>& sockets);

  private:
    struct Counted {
        std::int64_t pid = 0;
        CarriedBytes all{};
        Sockets last{};  // of the sockets that are open
    };
    std::map<WorkerName, Counted> counted_;
};

}  // namespace rtrain::agent
