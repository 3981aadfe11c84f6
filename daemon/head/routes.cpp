// The table and the one way through it: match, authenticate, authorise, answer.
#include "daemon/head/routes.hpp"

#include <chrono>
#include <future>
#include <vector>

#include "daemon/head/api.hpp"
#include "daemon/head/counting.hpp"
#include "daemon/head/ownership.hpp"

namespace rtrain::head {
namespace {

constexpr Route table[] = {
    {"GET", "/healthz", Access::anyone, "is the head there", "", get_health},
    {"GET", "/v1/status", Access::viewer, "the cluster in numbers", "", get_status},
    {"POST", "/v1/runs", Access::user, "submit a job; the same key submits once", "", post_run},
    {"GET", "/v1/runs", Access::viewer, "runs, newest first", "state user name all limit cursor", get_runs},
    {"GET", "/v1/runs/{run}", Access::viewer, "one run", "", get_run},
    {"DELETE", "/v1/runs/{run}", Access::owner, "remove a run that has ended", "files dry_run", delete_run},
    {"POST", "/v1/runs/{run}/stop", Access::owner, "stop a run, now or once its next checkpoint is committed", "",
     post_stop},
    {"POST", "/v1/runs/{run}/checkpoint", Access::owner, "ask a run for a checkpoint now", "", post_checkpoint_ask},
    {"POST", "/v1/runs/{run}/resize", Access::owner, "give a run another number of workers", "", post_resize},
    {"POST", "/v1/runs/{run}/stack", Access::owner, "let Python ranks write their stacks into their logs", "rank",
     post_stack},
    {"GET", "/v1/runs/{run}/attempts", Access::viewer, "attempts, oldest first", "limit cursor", get_attempts},
    {"GET", "/v1/runs/{run}/logs", Access::owner, "lines of the workers",
     "rank attempt stream since_ms follow tail notices_after", get_logs},
    {"GET", "/v1/runs/{run}/metrics", Access::viewer, "reports", "key after rank follow limit cursor", get_metrics},
    {"GET", "/v1/runs/{run}/checkpoints", Access::owner, "committed checkpoints, oldest first", "limit cursor",
     get_checkpoints},
    {"GET", "/v1/runs/{run}/explain", Access::viewer, "why it is in its state", "", get_explain},
    {"GET", "/v1/runs/{run}/files/{path...}", Access::owner, "a file of the run's directory, or a listing", "list",
     get_run_file},
    {"GET", "/v1/runs/{run}/values", Access::owner, "what the run's processes left for each other", "", get_values},
    {"GET", "/v1/runs/{run}/values/{key}", Access::owner, "one value", "", get_value},
    {"PUT", "/v1/runs/{run}/values/{key}", Access::owner, "leave a value, at most 4 MiB", "", put_value},
    {"GET", "/v1/nodes", Access::viewer, "nodes", "limit cursor", get_nodes},
    {"GET", "/v1/nodes/{node}", Access::viewer, "one node", "", get_node},
    {"POST", "/v1/nodes/{node}/drain", Access::admin, "place nothing new there", "", post_drain},
    {"POST", "/v1/nodes/{node}/undrain", Access::admin, "place on it again", "", post_undrain},
    {"POST", "/v1/nodes/{node}/leave", Access::admin, "take the node out of the cluster", "", post_leave},
    {"GET", "/v1/queue", Access::viewer, "waiting runs in their order", "limit cursor", get_queue},
    {"GET", "/v1/events", Access::viewer, "what happened", "after run limit follow", get_events},
    {"POST", "/v1/plan", Access::viewer, "where a job would go now", "", post_plan},
    {"GET", "/v1/tokens", Access::admin, "tokens, without their secrets", "limit cursor", get_tokens},
    {"POST", "/v1/tokens", Access::admin, "make a token; its text is shown once", "", post_token},
    {"DELETE", "/v1/tokens/{id}", Access::admin, "revoke a token", "", delete_token},
    {"HEAD", "/v1/blobs/{sha256}", Access::agent_or_user, "is this archive there", "", head_blob},
    {"GET", "/v1/blobs/{sha256}", Access::agent_or_user, "a code archive", "", get_blob},
    {"PUT", "/v1/blobs/{sha256}", Access::user, "store a code archive; its hash is checked", "", put_blob},
    {"GET", "/v1/audit", Access::admin, "who changed what, oldest first", "after limit cursor", get_audit},
    {"POST", "/v1/join", Access::anyone, "a node's certificate for a join token", "", post_join},
    {"POST", "/v1/certificate", Access::agent, "a new certificate for a node", "", post_certificate},
    {"POST", "/v1/head/backup", Access::admin, "write a backup of the state on the head's machine", "", post_backup},
    {"POST", "/v1/head/stop", Access::admin, "end the head; workers go on", "", post_head_stop},
    {"GET", "/v1/storage/{path...}", Access::agent_or_owner, "a file of cluster://, or a listing", "list upload",
     get_storage},
    {"PUT", "/v1/storage/{path...}", Access::agent_or_admin, "write a file of cluster://, durable when answered",
     "append upload offset total", put_storage},
    {"DELETE", "/v1/storage/{path...}", Access::agent_or_admin, "remove a file or a tree of cluster://", "tree",
     delete_storage},
    {"GET", "/v1/agents", Access::agent, "WebSocket of an agent", "", get_agents},
    {"GET", "/metrics", Access::viewer, "for Prometheus", "", get_prometheus},
    {"GET", "/openapi.json", Access::viewer, "this page for machines", "", get_openapi},
};

constexpr std::uint64_t stranger_body_max = 64 << 10;  // a join: a token and a signing request

bool is_person(const Caller& caller, Role least) { return caller.role <= Role::admin && caller.role >= least; }

bool owns(const Head& head, const Caller& caller, const std::string& run_text) {
    if (!is_person(caller, Role::user)) return false;
    const auto run = find_run(head, run_text);
    if (!run) return true;  // the handler says "not found"
    return is_person(caller, Role::admin) || head.cluster.runs.at(*run).user == caller.user;
}

using Variables = std::map<std::string, std::string>;

std::string value_of(const Variables& variables, const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
}

// Whether a role may use a route at all; where ownership decides, the least that is needed.
bool role_suffices(const Caller& caller, Access access) {
    const bool agent = caller.role == Role::node;
    switch (access) {
        case Access::anyone:
            return true;
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

bool allowed(const Head& head, const Caller& caller, const Route& route, const Variables& variables) {
    if (!role_suffices(caller, route.access)) return false;
    if (route.access == Access::owner) return owns(head, caller, value_of(variables, "run"));
    if (route.access == Access::agent_or_owner && caller.role != Role::node)
        return may_read_stored(head, caller, value_of(variables, "path"));
    return true;
}

std::vector<std::string_view> segments(std::string_view path) {
    std::vector<std::string_view> out;
    while (!path.empty()) {
        const std::size_t slash = path.find('/', 1);
        out.push_back(path.substr(1, slash == std::string_view::npos ? slash : slash - 1));
        path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash);
    }
    return out;
}

bool matches(std::string_view pattern, std::string_view path, std::map<std::string, std::string>& variables) {
    const auto wanted = segments(pattern), given = segments(path);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const std::string_view want = wanted[i];
        if (want.ends_with("...}")) {
            std::string rest;
            for (std::size_t k = i; k < given.size(); ++k) rest += (k == i ? "" : "/") + std::string(given[k]);
            variables[std::string(want.substr(1, want.size() - 5))] = rest;
            return true;
        }
        if (i >= given.size()) return false;
        if (want.starts_with('{'))
            variables[std::string(want.substr(1, want.size() - 2))] = given[i];
        else if (want != given[i])
            return false;
    }
    return wanted.size() == given.size();
}

struct Found {
    const Route* route = nullptr;
    bool path_known = false;
    std::map<std::string, std::string> variables;
};

Found find_route(const net::Request& request) {
    Found found;
    for (const Route& route : table) {
        std::map<std::string, std::string> variables;
        if (!matches(route.pattern, request.path, variables)) continue;
        found.path_known = true;
        if (request.method != route.method) continue;
        found.route = &route;
        found.variables = std::move(variables);
        return found;
    }
    return found;
}

// Before anything else is said about a path: a stranger learns only that he is one.
Result<Caller> admit(const Head& head, const net::Request& request, const Found& found) {
    if (found.route && found.route->access == Access::anyone) return Caller{};
    auto caller = head.tokens.authenticate(request, wall_ms());
    if (!caller) return caller.error();
    if (caller->role == Role::node && head.tokens.left(caller->node))
        return Error{ErrorCode::unauthorised, "node '" + caller->node + "' has left the cluster",
                     "rtrain node join ... with a new token"};
    if (!found.route && found.path_known)
        return Error{ErrorCode::usage, request.method + " is not a method of " + request.path, "see /openapi.json"};
    if (!found.route) return Error{ErrorCode::not_found, "there is no " + request.path, "see /openapi.json"};
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

bool is_blob(const net::Request& request) { return request.path.starts_with("/v1/blobs/"); }

bool streamed(const net::Request& request) {
    return request.method == "PUT" &&
           (request.path.starts_with("/v1/blobs/") || request.path.starts_with("/v1/storage/"));
}

}  // namespace

const char* to_text(Access access) {
    switch (access) {
        case Access::anyone:
            return "nothing";
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

std::span<const Route> routes() { return table; }

namespace {

// What people ask to be written down.
bool is_change(const Ask& ask, const Route& route) {
    const std::string_view method = route.method, pattern = route.pattern;
    return method != "GET" && method != "HEAD" && pattern != "/v1/plan" && ask.caller.role != Role::node;
}

void answer(Ask& ask) {
    Head& head = ask.head;
    Found found = find_route(ask.request);
    const auto caller = admit(head, ask.request, found);
    if (!caller) {
        drop_body(ask);
        return ask.responder->send(refusal_of_stranger(caller.error()));
    }
    head.saw(*caller);
    ask.caller = *caller;
    ask.variables = std::move(found.variables);
    if (!allowed(head, ask.caller, *found.route, ask.variables)) {
        drop_body(ask);
        return refuse(ask, forbidden(ask.caller, *found.route));
    }
    if (*head.no_room && is_change(ask, *found.route)) {
        drop_body(ask);
        return refuse(ask, {(*head.no_room)->code, "the head takes no change now: " + (*head.no_room)->message,
                            (*head.no_room)->next + ", and ask again"});
    }
    ask.responder = timed(head, std::move(ask.responder), *found.route);
    begin_audit(ask, *found.route);
    const Auditing scope(head, ask.audit);
    found.route->answer(ask);
}

net::Response refusal(const Error& error) { return {.status = http_status(error), .body = error_body(error, {})}; }

// A caller among the server's connections: one node, one admin, or one user with all tokens and all runs.
net::Admission admission_for(const Caller& caller) {
    if (caller.role == Role::node) return {.caller = "node " + caller.node, .room = net::Room::reserved};
    if (caller.role == Role::admin) return {.caller = "admin " + caller.user, .room = net::Room::reserved};
    return {.caller = "user " + caller.user};
}

Error no_longer_opens() {
    return {ErrorCode::unauthorised, "the token of this upload was revoked or has expired, or its run has ended",
            "nothing of it was kept; an admin makes a new token: rtrain token create"};
}

// Which runs a node may write to is known on the loop alone. Waits for it, in a thread for files, for some seconds at
// most: a head that ends does not answer.
std::optional<net::Response> refused_by_loop(Head& head, const Caller& caller, const std::string& path) {
    if (caller.role != Role::node) return std::nullopt;
    const auto said = std::make_shared<std::promise<std::optional<net::Response>>>();
    auto heard = said->get_future();
    head.loop.post(
        [&head, caller, path, said] { said->set_value(refuse_unreached(head, caller, path, Touch::write)); });
    if (heard.wait_for(std::chrono::seconds(5)) == std::future_status::ready) return heard.get();
    return refusal({ErrorCode::unreachable, "the head was too busy to say whether this may be written",
                    "send it again in some seconds"});
}

// Admits a request before its body is read, in the server's threads: authenticates the caller, checks the role, and
// chooses where an upload is written. The loop repeats both checks, and checks who owns the run; of an upload to
// cluster:// it is asked that before the first byte is read.
net::Admission admission_of(Head& head, const net::Request& request) {
    const Found found = find_route(request);
    if (found.route && found.route->access == Access::anyone) return {.body_limit = stranger_body_max};
    auto caller = head.tokens.authenticate(request, wall_ms());
    if (caller && (!found.route || streamed(request))) caller = admit(head, request, found);
    if (!caller) return {.refusal = refusal_of_stranger(caller.error())};
    net::Admission admission = admission_for(*caller);
    if (!role_suffices(*caller, found.route->access)) {
        admission.refusal = refusal(forbidden(*caller, *found.route));
    } else if (streamed(request)) {
        auto place = upload_place(head, request);
        if (place) {
            admission.body_file = std::move(*place);
            const Upload kind = is_blob(request) ? Upload::blob : Upload::storage;
            const std::string path = is_blob(request) ? "" : found.variables.at("path");
            admission.may_write = [&head, kind, path, caller = *caller,
                                   asked = path.empty()](std::uint64_t bytes) mutable -> std::optional<net::Response> {
                if (!head.tokens.still_opens(caller, wall_ms())) return refusal_of_stranger(no_longer_opens());
                if (!std::exchange(asked, true))
                    if (auto refused = refused_by_loop(head, caller, path)) return refused;
                const Status room = upload_room(head, kind, bytes);
                if (!room) return refusal(room.error());
                return std::nullopt;
            };
        }
        if (!place) admission.refusal = refusal(place.error());
    }
    return admission;
}

}  // namespace

void dispatch(Head& head, net::Request request, std::shared_ptr<net::Responder> responder) {
    Ask ask{head, std::move(request), std::move(responder)};
    guarded(ask, [&ask] { answer(ask); });
}

// Requests are admitted before a byte of their bodies is read. Runs on the server's threads: only what is safe there.
net::ServerOptions server_options(Head& head) {
    net::ServerOptions options;
    options.host = head.options.host;
    options.port = head.options.port;
    options.identity = head.identity.tls();
    options.connections_max = head.connections_max;
    options.admit = [&head](const net::Request& request) -> net::Admission {
        try {
            return admission_of(head, request);
        } catch (const std::exception& wrong) {
            return {.refusal = refusal(net::thrown(wrong, "reading a request's head"))};
        }
    };
    return options;
}

std::string Ask::query(const std::string& name, const std::string& otherwise) const {
    const auto found = request.query.find(name);
    return found == request.query.end() ? otherwise : found->second;
}

bool Ask::asked(const std::string& name) const {
    const auto found = request.query.find(name);
    return found != request.query.end() && found->second != "false" && found->second != "0";
}

}  // namespace rtrain::head
