// See described_routes.hpp.
#include "daemon/head/openapi/described_routes.hpp"

namespace rtrain::head {

const char* to_text(Access access) {
    switch (access) {
        case Access::anyone:
            return "nothing";
        case Access::browser:
            return "nothing but the head's own address";
        case Access::metrics:
            return "metrics or viewer";
        case Access::viewer:
            return "viewer";
        case Access::user:
            return "user";
        case Access::owner:
            return "the run's user or admin";
        case Access::admin:
            return "admin";
        case Access::agent:
            return "a node's certificate";
        case Access::agent_or_owner:
            return "the run's user, admin or a node's certificate";
        case Access::agent_or_user:
            return "user or a node's certificate";
        case Access::agent_or_admin:
            return "admin or a node's certificate";
    }
    return "";
}

}  // namespace rtrain::head
