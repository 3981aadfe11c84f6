// Facts about this head that are known once it listens, and the way in which it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/head/base/disk_reserve.hpp"

namespace rtrain::head {

// Measures of the head's process and its disks, some seconds old. nullopt: not known yet, or the system reports none.
struct HeadHealth {
    std::optional<std::int64_t> memory_bytes;         // resident
    std::optional<double> longest_task_seconds;       // the longest task of the loop in the last one to two minutes
    std::optional<DiskSize> data_disk, storage_disk;  // disks of the data directory and of the storage root
};

struct HeadFacts {
    std::uint16_t port = 0;
    std::int64_t started_wall_ms = 0;
    bool ready = false;  // the starter of the head has its address and first tokens, in files or on the screen
    HeadHealth health{};
    std::string storage_warning{};  // set if the storage root does not survive a reboot
};

// Ends the head's loop; all accepted changes become durable. Passed to the one handler that may do that.
struct HeadStop {
    std::function<void()> now;
};

}  // namespace rtrain::head
