// The setups of a node, each on a thread of its own: the pool stays free for uploads. Those of different users run
// beside each other, up to limits::setups_at_once; a user's own come one after the other, since two pips would fight
// for the same cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "daemon/agent/preparation/key_locks.hpp"
#include "daemon/agent/preparation/setup.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class SetupRunner {
  public:
    using Done = std::function<void(const SetupResult&)>;
    // `bounds` is called before each setup, on its thread.
    SetupRunner(net::Background background, std::string setups_dir, std::function<SetupBounds()> bounds)
        : background_(background), setups_dir_(std::move(setups_dir)), bounds_(std::move(bounds)) {}
    ~SetupRunner();
    SetupRunner(const SetupRunner&) = delete;
    SetupRunner& operator=(const SetupRunner&) = delete;

    void run(SetupOrder order, Done done);  // `done` is called on the loop
    // Ends the attempt's setup, also one that waits for its turn.
    void cancel(AttemptKey attempt);

  private:
    struct Setup {
        SetupOrder order;
        Done done;
        std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
        std::thread thread{};  // joinable: it runs
        bool runs() const { return thread.joinable(); }
    };
    using Number = std::uint64_t;  // in the order in which they came
    void next();                   // on the loop: starts those that may run
    void start(Number number, Setup& setup);
    SetupResult carry_out_alone(const SetupOrder& order, const std::atomic<bool>& cancelled);
    void finish(Number number, SetupResult result);  // on any thread

    const net::Background background_;
    const std::string setups_dir_;
    const std::function<SetupBounds()> bounds_;
    KeyLocks keys_;  // of those that are carried out: one of the same key waits, and finds it done
    Number last_ = 0;
    std::map<Number, Setup> setups_;
};

}  // namespace rtrain::agent
