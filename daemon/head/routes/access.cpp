// See access.hpp.
#include "daemon/head/routes/access.hpp"

namespace rtrain::head {
namespace {

bool is_person(const Caller& caller, Role least) { return caller.role <= Role::admin && caller.role >= least; }

bool owns(const View& view, const Caller& caller, const std::string& run_text) {
    if (!is_person(caller, Role::user)) return false;
    const auto run = find_run(view, run_text);
    if (!run) return true;  // the handler says "not found"
    return is_person(caller, Role::admin) || view.cluster.runs.at(*run).user == caller.user;
}

std::string value_of(const Variables& variables, const std::string& name) {
    const auto entry = variables.find(name);
    return entry == variables.end() ? "" : entry->second;
}

}  // namespace

bool role_suffices(const Caller& caller, Access access) {
    const bool agent = caller.role == Role::node;
    switch (access) {
        case Access::anyone:
            return true;
        case Access::metrics:
            return caller.role == Role::metrics || is_person(caller, Role::viewer);
        case Access::viewer:
            return is_person(caller, Role::viewer);
        case Access::user:
        case Access::owner:
            return is_person(caller, Role::user);
        case Access::admin:
            return is_person(caller, Role::admin);
        case Access::agent:
            return agent;
        case Access::agent_or_owner:
        case Access::agent_or_user:
            return agent || is_person(caller, Role::user);
        case Access::agent_or_admin:
            return agent || is_person(caller, Role::admin);
    }
    return false;
}

bool allowed(const View& view, const Ownership& ownership, const Caller& caller, const Found& match) {
    const Access access = match.route->access;
    if (!role_suffices(caller, access)) return false;
    if (access == Access::owner) return owns(view, caller, value_of(match.variables, "run"));
    if (access == Access::agent_or_owner && caller.role != Role::node)
        return ownership.may_read_stored(caller, value_of(match.variables, "path"));
    return true;
}

Result<Caller> admit(const TokenBook& tokens, const net::Request& request, const Found& match) {
    if (match.route && match.route->access == Access::anyone) return Caller{};
    auto caller = tokens.authenticate(request, wall_ms());
    if (!caller) return caller.error();
    if (caller->role == Role::node && tokens.left(caller->node))
        return Error{ErrorCode::unauthorised, "node '" + caller->node + "' has left the cluster",
                     "rtrain node join ... with a new token"};
    if (!match.route && match.path_known)
        return Error{ErrorCode::usage, request.method + " is not a method of " + request.path, "see /openapi.json"};
    if (!match.route) return Error{ErrorCode::not_found, "there is no " + request.path, "see /openapi.json"};
    return caller;
}

Error forbidden(const Caller& caller, const Route& route) {
    const std::string who = caller.role == Role::node
                                ? "node " + caller.node
                                : std::string("role ") + to_text(caller.role) + " (user " + caller.user + ")";
    return {ErrorCode::unauthorised,
            who + " may not " + route.method + " " + route.pattern + ": that needs " + to_text(route.access),
            "ask an admin: rtrain token create --role ..."};
}

}  // namespace rtrain::head
