// The simulated head: the daemon's real decisions, messages and orders over a simulated disk and network. Like the
// daemon, it decides while a commit is under way. It can die between any two of these steps: decided, durable,
// acknowledged, each single effect.
#pragma once

#include <deque>

#include "daemon/head/events/decisions.hpp"
#include "daemon/head/events/leases.hpp"
#include "tests/sim/world.hpp"

namespace rtrain::sim {

class SimHead {
  public:
    explicit SimHead(World& world);

    void start();
    void crash(const std::string& why);
    bool up() const { return up_; }
    bool idle() const { return up_ && !writing_ && !gathered_.wanted && waiting_.empty(); }
    void request(Event event);  // Takes a user's request, which Users answers once it is durable.
    void opened(const std::string& node, std::uint64_t connection);
    void closed(const std::string& node, std::uint64_t connection);
    void heard(const std::string& node, std::uint64_t connection, const protocol::FromAgent& message);
    const Cluster& disk() const { return disk_.cluster; }
    void verify_journal() const;  // Checks that the same events replay to the same state.

  private:
    struct Session {
        std::uint64_t connection = 0;
        bool welcomed = false, registered = false;
        std::uint64_t acknowledged = 0;
    };
    struct Disk {
        Cluster cluster;
        std::vector<state::Entry> journal;
        std::map<std::string, std::uint64_t> news_seen;
    };
    struct Order {
        Effect effect;
        std::optional<protocol::FromHead> message;  // made from the state at the decision
    };
    struct Pending {  // the decisions that are not durable yet
        bool wanted = false;
        std::vector<state::Entry> entries;
        std::vector<Order> orders;
        std::vector<std::pair<Event, Decision>> asked;  // the requests of users
        std::map<std::string, std::uint64_t> received;
    };
    void take(Event event);
    void take_news(const std::string& node, const protocol::News& news);
    void plan_decide();
    void begin_decide();
    void take_up(const Event& event);
    void begin_commit();
    void commit();
    void acknowledge(const Pending& done);
    void perform(const Pending& done);
    bool dies(const std::string& where);
    void check_leases();
    void dial(const std::vector<head::LeaseDial>& dials);
    void take_leaving(const std::string& node, const protocol::Leaving& wish);
    void arm_timer();
    void later(std::int64_t ms, std::function<void()> what);  // Calls `what` unless the head has died meanwhile.

    World& world_;
    Disk disk_;
    bool up_ = false, decide_planned_ = false;
    std::uint64_t life_ = 0, timer_ = 0;
    Cluster cluster_;
    std::deque<Event> waiting_;
    Pending gathered_;                // the decisions for the next commit
    std::optional<Pending> writing_;  // the decisions of the commit that is under way
    std::map<std::string, Session> sessions_;
    std::map<std::string, std::uint64_t> received_;
    head::Leases leases_;
};

}  // namespace rtrain::sim
