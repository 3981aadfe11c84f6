#include "daemon/agent/performers/head/head_link.hpp"

#include <algorithm>
#include <utility>

#include "daemon/agent/base/log.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t reconnect_first_ms = 100, reconnect_last_ms = 2'000, refused_wait_ms = 30'000;

}  // namespace

void HeadLink::connect() {
    const std::uint64_t connection = ++connection_;
    const auto is_current = [this, connection] { return connection == connection_; };
    net::SocketEvents events{.on_text =
                                 [this, is_current](const std::string& text) {
                                     if (!is_current()) return;
                                     auto message = protocol::decode_from_head(text);
                                     if (message) return events_.on_message(std::move(*message));
                                     warn("the head said what this agent cannot read: " + message.error().message);
                                 },
                             .on_closed =
                                 [this, is_current](const std::string& why) {
                                     if (is_current()) disconnected(why);
                                 }};
    net::dial_socket(loop_, head_endpoint(node_.identity), "/v1/agents", std::move(events),
                     [this, is_current](Result<std::shared_ptr<net::Socket>> socket) {
                         if (!is_current()) return;
                         if (socket) return connected(std::move(*socket));
                         if (reconnect_ms_ == reconnect_first_ms)
                             warn("the head cannot be reached: " + socket.error().message);
                         if (socket.error().code == ErrorCode::unauthorised) check_refused_by_head();
                         events_.on_unreachable();
                         connect_later();
                     });
}

void HeadLink::connected(std::shared_ptr<net::Socket> socket) {
    socket_ = std::move(socket);
    reconnect_ms_ = reconnect_first_ms;
    log_info("connected to the head at " + node_.identity.head_host + ":" + std::to_string(node_.identity.head_port));
    inputs_.enqueue(HeadConnected{});
}

// Another process in the head's place may send a refusal. The workers end only if the head itself refuses this node.
void HeadLink::check_refused_by_head() {
    if (state_.attempts.empty()) return;
    loop_.offload([identity = node_.identity] { return is_refused_by_head(identity); },
                  [](const Error&) { return false; },
                  [this](bool away) {
                      if (away)
                          inputs_.enqueue(
                              HeadMessage{protocol::Refuse{.message = "this node has left the cluster", .left = true}});
                  });
}

void HeadLink::connect_later() {
    ++connection_;
    loop_.after(reconnect_ms_, [this] { connect(); });
    reconnect_ms_ =
        std::min(std::max(reconnect_ms_ * 2, reconnect_first_ms), std::max(reconnect_last_ms, reconnect_ms_));
}

void HeadLink::disconnected(const std::string& why) {
    warn("the connection to the head is gone: " + why + "; workers go on");
    socket_.reset();
    inputs_.enqueue(HeadDisconnected{});
    events_.on_disconnected();
    connect_later();
}

void HeadLink::send(const protocol::FromAgent& message) {
    if (socket_ && !socket_->send(protocol::encode(message)))  // The agent sends it again over the next connection.
        socket_->close("more waits to be sent than the connection holds");
}

bool HeadLink::send_log(const protocol::LogChunk& chunk) {
    constexpr std::size_t waiting_most = std::size_t{16} << 20;  // Other messages wait behind at most this much log.
    return socket_ && state_.registered && socket_->waiting() < waiting_most &&
           socket_->send(protocol::encode(protocol::FromAgent{chunk}));
}

void HeadLink::close(const CloseHead& out) {
    warn("the head refuses this node: " + out.why);
    reconnect_ms_ = refused_wait_ms;
    if (socket_) socket_->close("refused");
}

}  // namespace rtrain::agent
