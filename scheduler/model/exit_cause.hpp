// How a worker ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rtrain {

// Exactly one of exit_code and signal is set.
struct ExitCause {
    std::optional<std::int32_t> exit_code;
    std::optional<std::int32_t> signal;
    bool out_of_memory = false;
    bool stopped_by_us = false;   // died of the signal its agent sent to end the attempt
    bool never_started = false;   // entrypoint missing, code could not be unpacked, ...
    bool address_in_use = false;  // the rendezvous port, before any report: tried again with another, not counted
    std::string detail;           // evidence: "61.8 of 62 GiB", last error text, ...
    bool success() const { return exit_code == 0 && !never_started; }
    bool operator==(const ExitCause&) const = default;
};

}  // namespace rtrain
