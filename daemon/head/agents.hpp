// The agents' sessions: hello, welcome, register, news, heartbeats; orders to them; leases. A broken connection alone
// is not a death: only silence for node_timeout, measured on the monotonic clock and counted anew after the head's
// start, is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/head/addresses.hpp"
#include "daemon/head/log_store.hpp"
#include "daemon/net/server.hpp"
#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

struct Head;
struct Pending;

struct NodeSeen {  // what is known of a node beside the records; gone with the head, told anew at each registration
    std::int64_t heard_ms = 0;  // monotonic
    bool connected = false;
    protocol::Heartbeat pulse;
    std::string gpu_model, program_version;
    std::map<std::string, std::string> facts;
    std::uint64_t objections = 0;  // messages about what is not its own
    std::int64_t objected_ms = 0;  // monotonic: when that was told of last
};

class Agents {
  public:
    explicit Agents(Head& head) : head_(head) {}

    void recall_news();  // numbers of news that are on disk; before the first agent comes
    void start();        // leases of the nodes in the records begin now
    void accept(const net::Request& request, const std::shared_ptr<net::Responder>& responder, const std::string& node);
    // What carries effects out, to be called once they are durable: orders to nodes are made of the state as it is now.
    std::vector<std::function<void()>> orders(const std::vector<Effect>& effects);
    void send(const std::string& node, const protocol::FromHead& message);
    void dismiss(const std::string& node, const std::string& why);  // `node leave`: refuse and close
    bool connected(const std::string& node) const;
    const NodeSeen* seen(const std::string& node) const;
    const Addresses& addresses() const { return addresses_; }
    void add_numbers(Pending& batch);  // the highest numbers of the news that came
    void numbers_saved(const Pending& batch);
    void acknowledge();  // news that are durable by now
    void close_all(const std::string& why);
    // Asks a node to remove a run's files; `then` is called once, at the latest after `patience_ms` with an error.
    using Then = std::function<void(const protocol::Cleared&)>;
    void clear(const std::string& node, protocol::Clear order, std::int64_t patience_ms, Then then);
    void revoke(std::vector<std::string> serials);  // all that are revoked: every agent is told

  private:
    struct Session {
        std::uint64_t id = 0;
        std::shared_ptr<net::Socket> socket;
        bool welcomed = false, registered = false;
        std::uint64_t acknowledged = 0;
        std::string far_address, serial;         // of its certificate
        std::vector<protocol::AttemptRef> held;  // as told at its registration
    };
    struct Inbox {
        std::uint64_t received = 0, durable = 0;
        std::uint64_t installation = 0;  // of the agent: another one's numbers on their way to the disk do not count
    };
    void heard(const std::string& node, std::uint64_t session, Result<protocol::FromAgent> message);
    void closed(const std::string& node, std::uint64_t session);
    void refuse(Session& session, protocol::Refuse refusal);
    void welcome(const std::string& node, Session& session, const protocol::Hello& hello);
    void register_node(const std::string& node, Session& session, const protocol::Register& said);
    void tell_where_peers_are(const std::string& node, const Session& session);
    void tell_that_it_moved(const std::string& node, const NodeRegistered& now);
    void tell_revoked(const std::string& node);
    void check_address(const NodeRegistered& now);
    void take_news(const std::string& node, const protocol::News& news);
    void notice(const std::string& node, const protocol::Notice& said);
    void object(const std::string& node, const std::string& why);
    void take_log(const std::string& node, const protocol::LogChunk& chunk, bool its_own);
    struct LogSource {
        std::string node;
        protocol::AttemptRef attempt;  // as the agent calls it
    };
    void log_taken(const LogName& name, const LogSource& from, const Result<std::uint64_t>& size);
    void put_off(const LogName& name, const LogSource& from, const Error& why);
    void ask_for_logs();  // that were put off
    void tell_of_room();
    void cleared(const std::string& node, const protocol::Cleared& said);
    void check_leases();
    void hang_up(const std::string& node, const std::string& why);
    struct Launching {  // what the nodes of one gang are told alike
        std::optional<RunId> run;
        std::map<std::string, std::string> secrets;
        std::string token;
    };
    std::function<void()> order(const Effect& effect, Launching& launching);
    void write_result(const Effect& effect);
    bool has_been_on(const Run& run, const NodeId& node) const;
    void deliver(const std::string& node, protocol::FromHead message, const std::string& code_key);

    Head& head_;
    std::map<std::string, Session> sessions_;
    std::map<std::string, NodeSeen> seen_;
    Addresses addresses_;
    std::map<std::string, Inbox> inboxes_;
    std::set<std::string> unsaved_;         // nodes whose number has changed since the last batch was closed
    std::set<std::string> unacknowledged_;  // nodes that said something since the last acknowledgement
    std::map<LogName, LogSource> put_off_;  // logs that could not be written
    std::size_t log_bytes_ = 0;             // that wait for their files
    bool told_of_no_room_ = false;
    std::vector<std::string> revoked_;
    struct Clearing {
        std::string node;
        Then then;
    };
    std::map<std::uint64_t, Clearing> clearing_;
    std::uint64_t next_clear_ = 0;  // begins anywhere: an answer to a head that is gone is not taken for another's
    std::uint64_t next_session_ = 1;
    std::int64_t leases_checked_ms_ = 0;
};

}  // namespace rtrain::head
