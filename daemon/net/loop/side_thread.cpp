// See side_thread.hpp.
#include "daemon/net/loop/side_thread.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace rtrain::net {
namespace {

constexpr int nice_value = 10;

// On Linux the nice value belongs to a thread. A process that was started with a higher value keeps it. A refusal
// changes nothing.
void give_way() {
    const auto self = static_cast<id_t>(gettid());
    if (getpriority(PRIO_PROCESS, self) < nice_value) (void)setpriority(PRIO_PROCESS, self, nice_value);
}

}  // namespace

std::thread side_thread(ThreadPriority priority, std::function<void()> work) {
    struct AllBlocked {  // A thread inherits the signal mask of the thread that starts it.
        sigset_t before;
        AllBlocked() {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
        }
        ~AllBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    } const blocked;
    return std::thread([priority, work = std::move(work)] {
        if (priority == ThreadPriority::behind_loop) give_way();
        work();
    });
}

}  // namespace rtrain::net
