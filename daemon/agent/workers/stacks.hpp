// Where a rank is: a Python program that has imported rtrain.train writes its stacks into its own log when it is sent
// `stack_signal`. Nobody is ended by it: a process that does not catch the signal is not sent it.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::agent {

inline constexpr int stack_signal = 47;  // SIGRTMIN + 13: hardly anybody's own; told in RTRAIN_STACK_SIGNAL

struct StackTarget {
    std::string attempt, node;  // as in the worker's environment
    std::uint32_t rank = 0;
    std::string log;  // its standard error, where the stacks go
    std::string why;  // "the other ranks wait for it in report 3 for 30.0 s"
};
// Writes into the log why, then asks; how many processes were asked.
std::size_t request_stacks(const StackTarget& target);

}  // namespace rtrain::agent
