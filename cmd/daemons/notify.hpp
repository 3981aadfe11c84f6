// Messages of a daemon to the service manager that started it: sd_notify(3), over the datagram socket that
// NOTIFY_SOCKET names. The protocol is a line of text, so no library is linked for it: Debian ships libsystemd as a
// shared one alone.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::cmd {

class Notifier {
  public:
    // Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment: no child speaks in this one's name.
    static Notifier from_environment();

    bool wanted() const { return !socket_.empty(); }
    // How often "WATCHDOG=1" must come, at most; 0: nobody waits for it, or for another process.
    std::int64_t watchdog_ms() const { return watchdog_ms_; }
    // "READY=1\nSTATUS=..."; false: it could not be sent (nobody listens, or no such address).
    bool send(const std::string& state) const;

  private:
    std::string socket_;  // a path, or "@name" of the abstract kind
    std::int64_t watchdog_ms_ = 0;
};

}  // namespace rtrain::cmd
