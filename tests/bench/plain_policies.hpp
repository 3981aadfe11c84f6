// Two policies for comparison, on whole GPUs of nodes that have eight each. They share no code with the core.
#pragma once

#include "tests/bench/trace.hpp"

namespace rtrain::bench {

enum class Plain { fifo, first_fit };  // in submit order without overtaking; or the oldest job that fits
std::vector<std::int64_t> replay_plain(const Trace& trace, std::uint32_t nodes, Plain policy);  // waits, in seconds

}  // namespace rtrain::bench
