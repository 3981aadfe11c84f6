// Connects a WebSocket on a loop. See client.hpp.
#include <utility>

#include "daemon/net/client/connecting.hpp"
#include "daemon/net/tls.hpp"
#include "daemon/net/websocket.hpp"

namespace rtrain::net {
namespace {

constexpr std::size_t shown_limit = 600;

Error declined(const Endpoint& endpoint, const std::string& target, const SocketRefusal& refusal) {
    ErrorCode code = ErrorCode::unreachable;
    if (refusal.status == 401 || refusal.status == 403) code = ErrorCode::unauthorised;
    if (refusal.status == 409) code = ErrorCode::conflict;
    return {code, where_text(endpoint) + target + " refused the connection: " + refusal.why.substr(0, shown_limit), ""};
}

}  // namespace

void dial_socket(Loop& loop, Endpoint endpoint, std::string target, SocketEvents events,
                 std::function<void(Result<std::shared_ptr<Socket>>)> connected) {
    auto& io = *static_cast<asio::io_context*>(loop.io_context());
    auto upgrade = [&loop, &io, endpoint, target = std::move(target), events = std::move(events),
                    connected = std::move(connected)](Result<std::shared_ptr<Wire>> wire) mutable {
        if (!wire) return connected(wire.error());
        const Peer peer{.address = where_text(endpoint),
                        .certificate_name = verified_common_name((*wire)->ssl()),
                        .certificate_serial = verified_serial((*wire)->ssl())};
        auto [handle, socket] =
            make_socket(io, {.loop = loop, .alive = std::make_shared<bool>(true), .peer = peer}, std::move(events));
        dial_upgrade(socket, **wire, where_text(endpoint), target, endpoint.bearer,
                     [endpoint, target, handle = std::move(handle),
                      connected = std::move(connected)](std::optional<SocketRefusal> refusal) {
                         if (refusal)
                             connected(declined(endpoint, target, *refusal));
                         else
                             connected(handle);
                     });
    };
    std::make_shared<Connecting>(io, endpoint, std::move(upgrade))->start();
}

}  // namespace rtrain::net
