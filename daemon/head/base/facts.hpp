// Facts about this head that are known once it listens.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::head {

struct HeadFacts {
    std::uint16_t port = 0;
    std::int64_t started_wall_ms = 0;
    std::string storage_warning{};  // the storage root does not survive a reboot
};

}  // namespace rtrain::head
