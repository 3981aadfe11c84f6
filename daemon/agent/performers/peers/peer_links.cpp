#include "daemon/agent/performers/peers/peer_links.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/agent/base/log.hpp"
#include "daemon/net/client/dial_port.hpp"

namespace rtrain::agent {

Status PeerLinks::listen() {
    const net::Endpoint self = head_endpoint(node_.identity);
    const Listening at{.host = listening_host(node_.options.address, self), .port = node_.options.peer_port};
    auto links = GroupLinks::listen_again(loop_, self, at, node_.options.data_dir + "/peer-port",
                                          [this](Input input) { inputs_.enqueue(std::move(input)); });
    if (!links) return links.error();
    links_ = std::move(*links);
    links_->answer_probes([this](AttemptKey key) {
        const LiveAttempt* attempt = attempts_.find(key);
        return attempt && attempt->context;
    });
    return Done{};
}

void PeerLinks::refuse_kept() {
    std::set<std::string> revoked;
    for (const auto& [serial, state] : read_values(node_.files.revoked())) revoked.insert(serial);
    links_->refuse(std::move(revoked));
}

// Closes connections with revoked certificates. The serials are stored on disk, since this agent may start while the
// head does not answer.
void PeerLinks::refuse_revoked(const std::vector<std::string>& serials) {
    links_->refuse({serials.begin(), serials.end()});
    std::string text;
    for (const std::string& serial : serials) text += serial + " revoked\n";
    if (Status kept = write_whole(node_.files.revoked(), text, 0600, Durable::no); !kept) warn(kept.error().message);
}

void PeerLinks::dial_agent(const DialAgent& out) {
    const protocol::DialPeer& order = out.order;
    constexpr std::int64_t patience_most_ms = 10'000;
    net::dial_port(loop_, order.address, order.port, std::clamp<std::int64_t>(order.patience_ms, 0, patience_most_ms),
                   [this, id = order.id](net::PortAnswer answer) {
                       if (answer == net::PortAnswer::not_dialled) return;
                       inputs_.enqueue(AgentDialled{.id = id, .answered = answer == net::PortAnswer::answered});
                   });
}

}  // namespace rtrain::agent
