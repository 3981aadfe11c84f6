// The door of the agents: a WebSocket for a caller whose certificate names a node.
#include "daemon/head/api.hpp"

namespace rtrain::head {

void get_agents(Ask& ask) {
    if (!ask.responder->wants_socket())
        return refuse(ask, {ErrorCode::usage, "/v1/agents is a WebSocket", "rtrain node join starts an agent"});
    ask.head.agents.accept(ask.request, ask.responder, ask.caller.node);
}

}  // namespace rtrain::head
