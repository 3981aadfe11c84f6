// Sends messages of a daemon to the service manager that started it: sd_notify(3), over the datagram socket that
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
    // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment, so that no child
    // process sends messages under this process's name.
    static Notifier from_environment();

    bool wanted() const { return !socket_.empty(); }
    // Returns the longest permitted time between two watchdog messages, in ms. Returns 0 if the manager expects none,
    // or expects them from another process.
    std::int64_t watchdog_ms() const { return watchdog_ms_; }
    // Sends to the manager that the daemon serves, and `status`, a text for people. Waits for a busy manager, since the
    // manager would end a daemon whose message it never received. Succeeds if there is no manager. Errors: io (no
    // receiver, or no such address).
    Status ready(const std::string& status) const;
    // Sends a watchdog message without waiting for the manager, since the next message follows soon. Opens no
    // descriptor, so it also works in a daemon that can open no more.
    void feed_watchdog() const;

  private:
    int send(const std::string& state, int flags) const;  // returns an errno; 0: the message was sent

    std::string socket_;  // address of the manager's socket: a path, or "@name" for an abstract socket
    storage::Descriptor from_;
    std::int64_t watchdog_ms_ = 0;
};

}  // namespace rtrain::cmd
