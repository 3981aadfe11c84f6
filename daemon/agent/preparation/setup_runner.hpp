// The setups of a node, each on a thread of its own: the pool stays free for uploads. Those of different users run
// beside each other, up to SetupShares; a user's own come one after the other, since two pips would fight for the same
// cores. Users whose setups hang keep no other user waiting for longer than a share of time.
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
    std::size_t at_once = limits::setups_at_once;  // beside those that have had their share of time
    std::size_t most = limits::setups_most;        // with these
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
    // Ends the attempt's setup, also one that waits for its turn.
    void cancel(AttemptKey attempt);

  private:
    struct Setup {
        SetupOrder order;
        Done done;
        std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
        std::thread thread{};       // joinable: it runs
        std::int64_t begun_ms = 0;  // monotonic
        std::string given_up{};     // why it was ended for another user's; empty: it was not
        bool runs() const { return thread.joinable(); }
    };
    using Number = std::uint64_t;  // in the order in which they came
    void next();                   // on the loop: starts those that may run
    void start(Number number, Setup& setup);
    std::set<std::string> busy_users() const;
    std::size_t within_share(std::int64_t now_ms) const;
    void make_way(std::int64_t now_ms);  // somebody waits for a place
    SetupResult carry_out_alone(const SetupOrder& order, const std::atomic<bool>& cancelled);
    void finish(Number number, SetupResult result);  // on any thread

    const net::Background background_;
    const std::string setups_dir_;
    const std::function<SetupBounds()> bounds_;
    const SetupShares shares_;
    std::optional<net::Loop::TimerId> look_again_;
    KeyLocks keys_;  // of those that are carried out: one of the same key waits, and finds it done
    Number last_ = 0;
    std::map<Number, Setup> setups_;
};

}  // namespace rtrain::agent
