// See access.hpp.
#include "daemon/head/routes/access.hpp"

namespace rtrain::head {
namespace {

bool is_person(const Caller& caller, Role least) { return caller.role <= Role::admin && caller.role >= least; }

bool owns(const View& view, const Caller& caller, const std::string& run_text) {
    if (!is_person(caller, Role::user)) return false;
    const auto run = find_run(view, run_text);
    if (!run) return true;  // the run does not exist; the handler answers "not found"
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
        case Access::browser:
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

namespace {

// Admits a browser that is not signed in. The request must be for this head, and the page that signs a user in must be
// the head's own. Otherwise a foreign page could sign a person in to the attacker's session.
Admitted admit_browser(const Credentials& credentials, const net::Request& request) {
    const BrowserRequests& browser = credentials.browser();
    const bool page = request.method == "GET";
    if (Status own = page ? browser.own_host(request) : browser.own_page(request); !own)
        return NotAdmitted{NotAdmitted::Why::barred, own.error()};
    return Caller{};
}

}  // namespace

Admitted admit(const Credentials& credentials, const net::Request& request, const Found& match) {
    using Why = NotAdmitted::Why;
    if (match.route && match.route->access == Access::anyone) return Caller{};
    if (match.route && match.route->access == Access::browser) return admit_browser(credentials, request);
    const Admitted admitted = credentials.authenticate(request, wall_ms());
    const Caller* caller = std::get_if<Caller>(&admitted);
    if (!caller) return admitted;
    if (caller->role == Role::node && credentials.left(caller->node))
        return NotAdmitted{Why::stranger,
                           {ErrorCode::unauthorised, "node '" + caller->node + "' has left the cluster",
                            "rtrain node join ... with a new token"}};
    if (!match.route && match.path_known)
        return NotAdmitted{
            Why::other,
            {ErrorCode::usage, request.method + " is not a method of " + request.path, "see /openapi.json"}};
    if (!match.route)
        return NotAdmitted{Why::other, {ErrorCode::not_found, "there is no " + request.path, "see /openapi.json"}};
    return admitted;
}

net::Response refusal_of(const NotAdmitted& caller) {
    return caller.why == NotAdmitted::Why::stranger ? refusal_of_stranger(caller.error) : refusal(caller.error);
}

namespace {

// Returns a hint for a refused caller: the command by which an admin can give them the right.
std::string next_of(const Caller& caller, Access needed) {
    if (needed == Access::owner) return "ask the run's user, or an admin";
    if (caller.user.empty()) return "ask an admin to do it";
    return "ask an admin for a token: rtrain token create --role " +
           std::string(needed == Access::metrics ? "metrics" : to_text(needed)) + " --user " + caller.user;
}

}  // namespace

Error forbidden(const Caller& caller, const Route& route) {
    const std::string who = caller.role == Role::node
                                ? "node " + caller.node
                                : std::string("role ") + to_text(caller.role) + " (user " + caller.user + ")";
    return {ErrorCode::unauthorised,
            who + " may not " + route.method + " " + route.pattern + ": that needs " + to_text(route.access),
            next_of(caller, route.access)};
}

}  // namespace rtrain::head
