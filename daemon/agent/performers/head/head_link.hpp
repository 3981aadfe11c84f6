// The connection to the head, over which the agent sends its messages and receives orders. Connects again after each
// loss, with a growing delay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/client.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

class HeadLink {
  public:
    struct Events {
        std::function<void(protocol::FromHead)> on_message;
        std::function<void()> on_disconnected;  // the machine has received its end as an input
        std::function<void()> on_unreachable;   // the next attempt uses the address in the node's identity
    };
    HeadLink(net::Loop& loop, Inputs inputs, const AgentState& state, const ThisNode& node, Events events)
        : loop_(loop), inputs_(inputs), state_(state), node_(node), events_(std::move(events)) {}

    void connect();
    void send(const protocol::FromAgent& message);
    bool send_log(const protocol::LogChunk& chunk);  // false: there is no connection, or no room on it
    void close(const CloseHead& out);                // the head has refused this node; connects again later

  private:
    void connected(std::shared_ptr<net::Socket> socket);
    void disconnected(const std::string& why);
    void connect_later();
    void check_refused_by_head();

    net::Loop& loop_;  // sockets
    const Inputs inputs_;
    const AgentState& state_;
    const ThisNode& node_;
    Events events_;
    std::shared_ptr<net::Socket> socket_;  // null: there is no connection
    std::int64_t reconnect_ms_ = 100;
    std::uint64_t connection_ = 0;  // number of attempts to connect; results of earlier attempts are ignored
};

}  // namespace rtrain::agent
