// The agents' sessions: hello, welcome, register, messages; leases. A broken connection alone is not a death: only
// silence for node_timeout, measured on the monotonic clock and counted anew after the head's start, is.
//   connected ─hello─► welcomed ─register─► registered ─┬─ closed: nothing is lost, the lease runs on
//        └──────────── refused (name, version, left) ───┴─ silent for node_timeout: NodeLost, closed
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/head/access/revocation.hpp"
#include "daemon/head/access/tokens.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/events/addresses.hpp"
#include "daemon/head/events/leases.hpp"
#include "daemon/head/history/chart_history.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "daemon/head/loop/durability.hpp"
#include "daemon/head/sessions/news_inbox.hpp"
#include "daemon/net/client/dial_port.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

// facts about a node that are not in its record; not stored, since each registration sends them again
struct NodeSeen {
    std::int64_t heard_ms = 0;  // monotonic time of the node's last message
    bool connected = false;
    protocol::Heartbeat heartbeat;
    std::string gpu_model, program_version;
    std::map<std::string, std::string> facts;
    std::uint64_t objections = 0;  // number of messages that the node was not allowed to send
    std::int64_t objected_ms = 0;  // monotonic time of the last log line about such messages
};

class Sessions {
  public:
    struct Uses {
        net::Background background;
        Intake events;
        Durability durability;
        const View& view;
        Waits& waits;
        const HeadOptions& options;
        metrics::Metrics& metrics;
        const TokenBook& tokens;
        Revocations& revocations;
        NewsInbox& news;
        LogIntake& logs;
        ChartHistory& history;
        net::DialPort dial_port;
    };
    explicit Sessions(Uses uses)
        : uses_(std::move(uses)), leases_({.node_timeout_ms = uses_.options.node_timeout_ms}) {}

    // ---- sessions.cpp
    void start();  // begins the leases of the nodes in the records
    void accept(const net::Request& request, const std::shared_ptr<net::Responder>& responder, const std::string& node);
    // sends a message; drops it if the node is not registered
    void send(const std::string& node, const protocol::FromHead& message);
    // refuses and closes the connection of a node that leaves (`node leave`)
    void dismiss(const std::string& node, const std::string& why);
    bool has(const std::string& node) const { return sessions_.contains(node); }
    bool connected(const std::string& node) const;  // true if the node is connected and registered
    const NodeSeen* seen(const std::string& node) const;
    // attempts that the node held at its last registration
    const std::vector<protocol::AttemptRef>& held(const std::string& node) const;
    const Addresses& addresses() const { return addresses_; }
    // Records the checkpoints that are lost with a node: they were reported and not committed. To be called before the
    // event of the node's end.
    void take_lost_checkpoints(const std::string& node, const char* fate);
    void acknowledge();  // acknowledges the durable news
    void close_all(const std::string& why);
    void revoke(std::vector<std::string> serials);  // sends all revoked serials to every agent
    // Requests that a node removes a run's files. Calls `then` once: with the node's answer, or with an error after
    // `patience_ms`.
    using Then = std::function<void(const protocol::Cleared&)>;
    void clear(const std::string& node, protocol::Clear order, std::int64_t patience_ms, Then then);

  private:
    struct Session {
        std::uint64_t id = 0;
        std::shared_ptr<net::Socket> socket;
        bool welcomed = false, registered = false;
        std::uint64_t acknowledged = 0;
        std::string far_address, serial;         // `serial`: serial number of the agent's certificate
        std::vector<protocol::AttemptRef> held;  // attempts that the node held at this registration
    };
    void closed(const std::string& node, std::uint64_t session);
    void refuse(Session& session, protocol::Refuse refusal);
    void send_revoked(const std::string& node);
    void cleared(const std::string& node, const protocol::Cleared& answer);
    void hang_up(const std::string& node, const std::string& why);

    // ---- silence.cpp
    void check_leases();
    void dial(const std::vector<LeaseDial>& dials);
    void dial_here(const LeaseDial& dial, const Node& node);

    // ---- registration.cpp
    void welcome(const std::string& node, Session& session, const protocol::Hello& hello);
    void register_node(const std::string& node, Session& session, const protocol::Register& registration);
    void send_peers(const std::string& node, const Session& session);
    void send_moved(const std::string& node, const NodeRegistered& now);
    void check_address(const NodeRegistered& now);

    // ---- messages.cpp
    void on_message(const std::string& node, std::uint64_t session, Result<protocol::FromAgent> message);
    void take_news(const std::string& node, const protocol::News& news);
    void take_heartbeat(const std::string& node, protocol::Heartbeat heartbeat);
    void take_log(const std::string& node, const protocol::LogChunk& chunk, bool its_own);
    void take_of_node(const std::string& node, const protocol::FromAgent& message);
    void take_disk(const NodeId& node, const std::string& full);
    void take_leaving(const std::string& node, const protocol::Leaving& wish);
    void object(const std::string& node, const std::string& why);

    const Uses uses_;
    std::map<std::string, Session> sessions_;
    std::map<std::string, NodeSeen> seen_;
    Addresses addresses_;
    std::vector<std::string> revoked_;
    struct Clearing {
        std::string node;
        Then then;
    };
    std::map<std::uint64_t, Clearing> clearing_;
    // Begins at a random number, so that an answer to a request of an earlier head is not mistaken for an answer to
    // this head's.
    std::uint64_t next_clear_ = 0;
    std::uint64_t next_session_ = 1;
    Leases leases_;
    std::int64_t leases_checked_ms_ = 0;
};

}  // namespace rtrain::head
