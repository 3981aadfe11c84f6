// The cause of a worker's end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rtrain {

// Invariant: exactly one of exit_code and signal is set.
struct ExitCause {
    std::optional<std::int32_t> exit_code;
    std::optional<std::int32_t> signal;
    bool out_of_memory = false;
    bool stopped_by_us = false;  // the worker died of the signal that its agent sent to end the attempt
    bool never_started = false;  // entrypoint missing, code could not be unpacked, ...
    // The rendezvous port was taken before any report. The next attempt uses another port, and no failure is counted.
    bool address_in_use = false;
    std::string detail;  // evidence: "61.8 of 62 GiB", last error text, ...
    bool success() const { return exit_code == 0 && !never_started; }
    bool operator==(const ExitCause&) const = default;
};

}  // namespace rtrain
