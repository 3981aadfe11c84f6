// Runs the setups of a node, each on a separate thread, so that the pool stays free for uploads. Setups of different
// users run concurrently, up to SetupShares. The setups of one user run one after the other, since two pips would
// compete for the same cores. Setups that hang delay other users by at most a share of time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "daemon/agent/base/limits.hpp"
#include "daemon/agent/preparation/key_locks.hpp"
#include "daemon/agent/preparation/setup.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

struct SetupShares {
    std::size_t at_once = limits::setups_at_once;  // number that run at once, beside those whose share of time is over
    std::size_t most = limits::setups_most;        // including those
    std::int64_t share_ms = limits::setup_share_ms;
};

class SetupRunner {
  public:
    using Done = std::function<void(const SetupResult&)>;
    // `bounds` is called before each setup, on its thread.
    SetupRunner(net::Background background, std::string setups_dir, std::function<SetupBounds()> bounds,
                SetupShares shares = {})
        : background_(background), setups_dir_(std::move(setups_dir)), bounds_(std::move(bounds)), shares_(shares) {}
    ~SetupRunner();
    SetupRunner(const SetupRunner&) = delete;
    SetupRunner& operator=(const SetupRunner&) = delete;

    void run(SetupOrder order, Done done);  // `done` is called on the loop
    // Ends the attempt's setup, also one that waits.
    void cancel(AttemptKey attempt);

  private:
    struct Setup {
        SetupOrder order;
        Done done;
        std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
        std::thread thread{};       // joinable while it runs
        std::int64_t begun_ms = 0;  // monotonic time
        std::string given_up{};     // why it was ended in favour of another user; empty if it was not
        bool runs() const { return thread.joinable(); }
    };
    using Number = std::uint64_t;  // in the order of the calls
    void next();                   // on the loop: starts those that may run
    void start(Number number, Setup& setup);
    std::set<std::string> busy_users() const;
    std::size_t within_share(std::int64_t now_ms) const;
    void make_way(std::int64_t now_ms);  // another user waits for a place
    SetupResult carry_out_alone(const SetupOrder& order, const std::atomic<bool>& cancelled);
    void finish(Number number, SetupResult result);  // on any thread

    const net::Background background_;
    const std::string setups_dir_;
    const std::function<SetupBounds()> bounds_;
    const SetupShares shares_;
    std::optional<net::Loop::TimerId> look_again_;
    KeyLocks keys_;  // locks of running setups; a second one with the same key waits, and finds the result
    Number last_ = 0;
    std::map<Number, Setup> setups_;
};

}  // namespace rtrain::agent
