#include "daemon/agent/base/clocks.hpp"

#include <ctime>
#include <fstream>

namespace rtrain::agent {
namespace {

std::int64_t clock_ms(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

std::int64_t boot_ms() { return clock_ms(CLOCK_BOOTTIME); }
std::int64_t wall_ms() { return clock_ms(CLOCK_REALTIME); }

std::string this_boot() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

}  // namespace rtrain::agent
