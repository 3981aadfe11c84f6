// Facts about this head that are known once it listens, and how it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace rtrain::head {

struct HeadFacts {
    std::uint16_t port = 0;
    std::int64_t started_wall_ms = 0;
    bool ready = false;  // whoever started the head has its address and its first tokens, in files or on the screen
    std::string storage_warning{};  // the storage root does not survive a reboot
};

// Ends the head's loop; what came by then is made durable. For the one handler that may.
struct HeadStop {
    std::function<void()> now;
};

}  // namespace rtrain::head
