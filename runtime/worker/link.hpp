// One connection to the agent: a Unix stream socket that never blocks its caller. What cannot be written yet waits in a
// buffer; what has arrived is given out frame by frame.
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

    // Connects to the agent's socket. Returns why it could not; empty: it is connected.
    std::string connect(const std::string& path);
    void close();
    void swap(Link& other) noexcept;
    bool open() const { return socket_ >= 0; }

    void send(std::string_view frame);  // appends and writes what the socket takes; closes itself when the peer is gone
    void wait_sent(std::chrono::milliseconds limit);  // until what was sent is written, or the limit has passed
    bool backlog() const { return !out_.empty(); }

    // Reads what is there and hands every whole message to `hear`. Closes itself at the end of the stream or when the
    // bytes make no sense; the reason is then in `why_closed`.
    void read(const std::function<void(FromAgent)>& on_message);
    const std::string& why_closed() const { return why_closed_; }
    int descriptor() const { return descriptor_; }  // the last one that came with a message; -1: none. The link's own

    // Waits for something to read (or room to write) at most `milliseconds`. Touches no state: may run without the
    // lock.
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
