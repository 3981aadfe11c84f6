// Threads beside the loop: I/O threads of servers, and pools.
#pragma once

#include <functional>
#include <thread>

namespace rtrain::net {

// behind_loop (nice 10): where cores are few, a decision would else wait behind the decrypting of what is to be decided
// after it. Not for a thread that starts processes: they would inherit it.
enum class ThreadPriority { normal, behind_loop };

// Starts `work` on a thread of its own, which blocks all signals: they are the loop's. Throws std::system_error where
// the system has no thread to give.
std::thread side_thread(ThreadPriority priority, std::function<void()> work);

}  // namespace rtrain::net
