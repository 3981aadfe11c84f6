// Messages of a daemon to the service manager that started it: sd_notify(3), over the datagram socket that
// NOTIFY_SOCKET names. The protocol is a line of text, so no library is linked for it: Debian ships libsystemd as a
// shared one alone.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/model/result.hpp"
#include "storage/base/descriptor.hpp"

namespace rtrain::cmd {

class Notifier {
  public:
    // Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment: no child speaks in this one's name.
    static Notifier from_environment();

    bool wanted() const { return !socket_.empty(); }
    // How often the watchdog must be fed, at most; 0: nobody waits for it, or for another process.
    std::int64_t watchdog_ms() const { return watchdog_ms_; }
    // Says that the daemon serves, and `status` for people. A manager that is busy is waited for, as it would end a
    // daemon that never says so. Done where nobody wants to know. Errors: io (nobody listens, or no such address).
    Status ready(const std::string& status) const;
    // Sends a sign of life to systemd, and does not wait until it has gone: the next one comes soon. It opens no
    // descriptor, so a daemon that has none left is still fed.
    void feed_watchdog() const;

  private:
    int send(const std::string& state, int flags) const;  // errno; 0: sent

    std::string socket_;  // a path, or "@name" of the abstract kind
    storage::Descriptor from_;
    std::int64_t watchdog_ms_ = 0;
};

}  // namespace rtrain::cmd
