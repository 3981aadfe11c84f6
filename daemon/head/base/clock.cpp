// Only this file of the head reads a clock.
#include "daemon/head/base/clock.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace rtrain::head {
namespace {

std::int64_t read_ms(clockid_t clock) {
    timespec at{};
    clock_gettime(clock, &at);
    return at.tv_sec * 1'000 + at.tv_nsec / 1'000'000;
}

}  // namespace

std::int64_t wall_ms() { return read_ms(CLOCK_REALTIME); }
std::int64_t monotonic_ms() { return read_ms(CLOCK_MONOTONIC); }

std::int64_t monotonic_us() {
    timespec at{};
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1'000'000 + at.tv_nsec / 1'000;
}

std::string iso_time(std::int64_t wall) {
    const std::time_t seconds = wall / 1'000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char date[32], text[64];
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(wall % 1'000));
    return text;
}

Clock::Clock(Time persisted) : start_ms_(std::max(persisted.ms, wall_ms())), boot_ms_(read_ms(CLOCK_BOOTTIME)) {}

Time Clock::now() const { return {start_ms_ + read_ms(CLOCK_BOOTTIME) - boot_ms_}; }

std::int64_t Clock::to_wall(Time time) const { return wall_ms() - (now().ms - time.ms); }

}  // namespace rtrain::head
