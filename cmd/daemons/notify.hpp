// Messages of a daemon to the service manager that started it: sd_notify(3), over the datagram socket that
// NOTIFY_SOCKET names. The protocol is a line of text. No library is linked for it, because Debian has libsystemd as a
// shared library only.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::cmd {

class Notifier {
  public:
    // Removes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment, so that no child process sends
    // messages in this one's name.
    static Notifier from_environment();

    bool wanted() const { return !socket_.empty(); }
    // Returns the longest permitted time between two watchdog messages; 0 if none are expected, or if they are expected
    // from another process.
    std::int64_t watchdog_ms() const { return watchdog_ms_; }
    // Sends that the daemon serves, and `status` for people. Waits for a busy manager, which would end a daemon that
    // never sends it. Succeeds without a manager. Errors: io (no receiver, or no such address).
    Status ready(const std::string& status) const;
    // Sends a watchdog message to systemd without waiting for it: the next one follows soon. Opens no descriptor, so it
    // also works for a daemon that has none left.
    void feed_watchdog() const;

  private:
    int send(const std::string& state, int flags) const;  // errno; 0: sent

    std::string socket_;  // a path, or "@name" for an abstract socket
    storage::Descriptor from_;
    std::int64_t watchdog_ms_ = 0;
};

}  // namespace rtrain::cmd
