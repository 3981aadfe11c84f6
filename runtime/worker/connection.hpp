// The connection to the agent, and the next one while the agent has not answered its hello. The agent may end and
// start again at any time; this class connects, and its owner decides when.
// Invariant: lost_at() has a value unless the agent has welcomed this process over the present connection.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/worker/frames/frames.hpp"
#include "runtime/worker/link.hpp"
#include "runtime/worker/rank/clock.hpp"

namespace rtrain::worker {

inline constexpr std::chrono::milliseconds redial_every{100};

class Connection {
  public:
    // ---- the present connection
    bool is_open() const { return link_.open(); }
    void send(const FromWorker& message) { link_.send(encode(message)); }
    void send(const std::string& frame) { link_.send(frame); }
    void wait_sent(std::chrono::milliseconds limit) { link_.wait_sent(limit); }
    bool has_backlog() const { return link_.backlog(); }
    Link::Wait wait() const { return link_.wait(); }
    int descriptor() const { return link_.descriptor(); }  // the last descriptor that arrived; -1: none
    void read(const std::function<void(FromAgent)>& on_message);
    void close() { link_.close(); }
    void close_all();  // for a forked child: both sockets are its parent's

    // ---- the time without a connection
    void count_from(Clock::time_point now) { lost_at_ = now; }  // a first connection is wanted from now on
    void lost();                                                // keeps the time of an earlier call
    const std::optional<Clock::time_point>& lost_at() const { return lost_at_; }

    // ---- the next connection
    // Connects and sends the hello. Returns why that failed; empty: an answer is to come.
    std::string greet(const std::string& socket, const Hello& hello);
    bool is_greeting() const { return greeting_.open(); }
    void wait_for_answer(std::chrono::milliseconds limit) const;
    // Reads the agent's answer. Returns true if the agent has welcomed this process: the next connection is the
    // present one then.
    bool read_answer(std::vector<FromAgent>& messages);
    void answered();  // the messages of the welcome were handled
    void welcomed();  // the process has its rank's place
    void on_message(const Refuse& refuse) { refused_ = refuse.message; }
    const std::string& refused() const { return refused_; }  // why the agent refused; empty: it did not
    bool is_in_vain() const;       // true: no welcome is to be expected from the agent that was greeted
    bool is_time_to_dial() const;  // true: a greeting is open, or the last attempt is 100 ms old
    std::string give_up();         // ends the greeting; returns why the agent did not welcome this rank
    void gave_up_now() { dialled_ = Clock::now(); }

    // ---- for messages to the user
    const std::string& fault() const { return fault_; }  // why the last attempt to connect failed
    void set_fault(std::string fault) { fault_ = std::move(fault); }

  private:
    Link link_, greeting_;
    std::string fault_, refused_;
    std::optional<Clock::time_point> lost_at_;
    Clock::time_point dialled_{};  // time of the last attempt to connect
    bool was_welcomed_ = false;
};

}  // namespace rtrain::worker
