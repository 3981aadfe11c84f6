// Facts about this head that are known once it listens, and the way in which it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/head/base/disk_reserve.hpp"

namespace rtrain::head {

// Measured values of the head's process and its disks, some seconds old. nullopt: not measured yet, or the system does
// not report it.
struct HeadHealth {
    std::optional<std::int64_t> memory_bytes;  // resident memory
    // duration of the longest task of the loop in the last one to two minutes
    std::optional<double> longest_task_seconds;
    std::optional<DiskSize> data_disk, storage_disk;  // disks of the data directory and of the storage root
};

struct HeadFacts {
    std::uint16_t port = 0;
    std::int64_t started_wall_ms = 0;
    bool ready = false;  // true: the program that started the head has received its address and first tokens
    HeadHealth health{};
    std::string storage_warning{};  // not empty: the storage root does not survive a reboot, and why
};

// Stops the head's loop, after all accepted changes are durable. Only the handler that stops the head gets it.
struct HeadStop {
    std::function<void()> now;
};

}  // namespace rtrain::head
