// One connection to the agent: a Unix stream socket that never blocks its caller. Bytes that the socket does not take
// yet wait in a buffer. Received bytes are returned frame by frame.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

class Link {
  public:
    Link() = default;
    ~Link() { close(); }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // Connects to the agent's socket. Returns why it failed; empty if it is connected.
    std::string connect(const std::string& path);
    void close();
    void swap(Link& other) noexcept;
    bool open() const { return socket_ >= 0; }

    // Appends the frame and writes what the socket takes. Closes itself if the peer has closed the connection.
    void send(std::string_view frame);
    void wait_sent(std::chrono::milliseconds limit);  // returns once everything is written, or after the limit
    bool backlog() const { return !out_.empty(); }

    // Reads what has arrived and calls `hear` with each complete message. Closes itself at the end of the stream or on
    // invalid bytes; `why_closed` then contains the reason.
    void read(const std::function<void(FromAgent)>& on_message);
    const std::string& why_closed() const { return why_closed_; }
    // the last descriptor that arrived with a message, owned by the link; -1: none
    int descriptor() const { return descriptor_; }

    // Waits at most `milliseconds` until it can read (or write). Uses no state, so the lock need not be held.
    struct Wait {
        int socket = -1;
        short events = 0;
        void until_ready(int milliseconds) const;
    };
    Wait wait() const;

  private:
    void flush();
    void lost(std::string why);
    ssize_t receive(char* bytes, std::size_t size);

    int socket_ = -1, descriptor_ = -1;
    std::string out_;
    FrameReader in_;
    std::string why_closed_;
};

}  // namespace rtrain::worker
