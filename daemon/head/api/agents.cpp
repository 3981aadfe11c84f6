// The agents' endpoint: a WebSocket for a caller whose certificate names a node.
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {

void get_agents(Exchange& exchange, Sessions& sessions) {
    if (!exchange.responder->wants_socket())
        return refuse(exchange, {ErrorCode::usage, "/v1/agents is a WebSocket", "rtrain node join starts an agent"});
    sessions.accept(exchange.request, exchange.responder, exchange.caller.node);
}

}  // namespace rtrain::head
