// The stacks of a rank. A Python program that has imported rtrain.train writes its stacks to its own log when it gets
// `stack_signal`. A process that does not catch the signal does not get it, so that it is not ended.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::agent {

// SIGRTMIN + 13, which hardly any program uses; workers find it in RTRAIN_STACK_SIGNAL.
inline constexpr int stack_signal = 47;

struct StackTarget {
    std::string attempt, node;  // as in the worker's environment
    std::uint32_t rank = 0;
    std::string log;  // its standard error, to which the stacks are written
    std::string why;  // "the other ranks wait for it in report 3 for 30.0 s"
};
// Writes the reason to the log, then sends the signals. Returns the number of processes.
std::size_t request_stacks(const StackTarget& target);

}  // namespace rtrain::agent
