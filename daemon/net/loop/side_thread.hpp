// Threads beside the loop: I/O threads of servers, and pools.
#pragma once

#include <functional>
#include <thread>

namespace rtrain::net {

// behind_loop (nice 10): on few cores a decision would otherwise wait for the decryption of messages that come after
// it. Not for a thread that starts processes, which would inherit it.
enum class ThreadPriority { normal, behind_loop };

// Starts `work` on a new thread that blocks all signals, because the loop handles them. Throws std::system_error if the
// system has no thread to give.
std::thread side_thread(ThreadPriority priority, std::function<void()> work);

}  // namespace rtrain::net
