// Makes, lists and revokes tokens; signs certificates. A join token permits only the signing of a node's certificate.
#include <algorithm>

#include "daemon/head/access/identity.hpp"
#include "daemon/head/access/revocation.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/node_name.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t day_ms = 24LL * 3'600'000;
constexpr std::int64_t join_token_ms = 3'600'000, person_token_ms = 90 * day_ms;
constexpr std::int64_t expires_at_most_ms = 36'500 * day_ms, uses_at_most = 100'000;

json token_json(const state::TokenRow& row, std::optional<std::int64_t> last_used) {
    return {{"id", row.id},
            {"role", row.role},
            {"user", row.user},
            {"created", wall_json(row.created_wall_ms)},
            {"expires", wall_json(row.expires_wall_ms)},
            {"uses_left", row.uses_left < 0 ? json() : json(row.uses_left)},
            {"last_used", last_used ? wall_json(*last_used) : json()},
            {"revoked", row.revoked}};
}

struct JoinWish {
    std::string token, node, request;
};
Result<JoinWish> join_wish(const Exchange& exchange) {
    const auto body = body_of(exchange);
    if (!body) return body.error();
    JoinWish out;
    for (auto [name, into] : {std::pair{"token", &out.token}, {"node", &out.node}, {"request", &out.request}}) {
        const auto entry = body->find(name);
        if (entry == body->end() || !entry->is_string())
            return Error{ErrorCode::usage, std::string("\"") + name + "\" is missing or no string",
                         "see /openapi.json"};
        *into = entry->get<std::string>();
    }
    if (!is_node_name(out.node))
        return Error{ErrorCode::usage, "'" + out.node + "' is no name for a node: 1 to 63 of A-Z a-z 0-9 . _ -",
                     "choose another: rtrain node join ... --name"};
    return out;
}

struct Signed {
    std::string certificate, serial;
    std::int64_t expires_wall_ms = 0;
};
Result<Signed> sign(const Identity& identity, const std::string& request, const std::string& node) {
    const auto certificate = security::sign_request(identity.authority, request, "node:" + node);
    if (!certificate) return certificate.error();
    const auto serial = security::serial_of(*certificate);
    if (!serial) return serial.error();
    const auto expires = security::expires_wall_ms(*certificate);
    if (!expires) return expires.error();
    return Signed{.certificate = *certificate, .serial = *serial, .expires_wall_ms = *expires};
}

// The parts that sign a node's certificate.
struct Authority {
    Revocations& revocations;
    const Identity& identity;
};
void reply_certificate(Exchange& exchange, const Authority& authority, const Signed& leaf, const std::string& node,
                       Aside with) {
    authority.revocations.issued(node, leaf.serial, leaf.expires_wall_ms);
    with.done = [kept = exchange, &identity = authority.identity, certificate = leaf.certificate, node]() mutable {
        reply_json(kept, 200,
                   {{"certificate", certificate},
                    {"ca", identity.authority.certificate},
                    {"node", node},
                    {"cluster_id", kept.view.cluster.meta.cluster_id}});
    };
    exchange.events.save(std::move(with));
}

// Fails if a node of this name exists, since it may only be disconnected for a moment.
Status name_is_free(const View& view, const Sessions& sessions, const std::string& name) {
    const auto node = view.cluster.nodes.find(NodeId{name});
    const bool connected = sessions.connected(name);
    if (!connected && (node == view.cluster.nodes.end() || node->second.state == NodeState::lost)) return Done{};
    const std::string state = node == view.cluster.nodes.end() ? "registering" : to_text(node->second.state);
    return Error{ErrorCode::conflict,
                 "the name '" + name + "' is taken: a node of that name is " + state +
                     (connected ? ", and connected" : ", though not connected just now"),
                 "choose another (rtrain node join ... --name), or if that node is gone for good: rtrain node leave " +
                     name + ", or wait until it is LOST"};
}

}  // namespace

void get_tokens(Exchange& exchange, const TokenBook& tokens) {
    const std::vector<state::TokenRow> rows = tokens.rows();
    reply_list(exchange, rows.size(),
               [rows, &tokens](std::size_t i) { return token_json(rows[i], tokens.last_used(rows[i].id)); });
}

namespace {

// The checked fields of a token request.
struct TokenWish {
    Role role = Role::user;
    std::string user;
    // lifetime from now on; 0: unlimited; nullopt: the lifetime of tokens of this role
    std::optional<std::int64_t> expires_ms;
    std::int64_t uses = 1;
};

Status read_expiry(const json& body, TokenWish& wish) {
    const json expires = body.value("expires_ms", json());
    if (expires.is_null()) return Done{};
    const bool number = expires.is_number_integer() && expires.get<std::int64_t>() >= 0 &&
                        expires.get<std::int64_t>() <= expires_at_most_ms;
    if (!number || (expires.get<std::int64_t>() == 0 && wish.role == Role::node))
        return Error{ErrorCode::usage,
                     "expires_ms is a number of milliseconds from now, at most 100 years; 0: never, for people", ""};
    wish.expires_ms = expires.get<std::int64_t>();
    return Done{};
}

Status read_uses(const json& body, TokenWish& wish) {
    const json uses = body.value("uses", json(1));
    wish.uses = uses.is_number_integer() ? uses.get<std::int64_t>() : 0;
    if (wish.uses < 1 || wish.uses > uses_at_most || (wish.uses > 1 && wish.role != Role::node))
        return Error{ErrorCode::usage,
                     "uses is 1 to " + std::to_string(uses_at_most) + ", and more than 1 only for role node", ""};
    return Done{};
}

Result<TokenWish> read_token_wish(const json& body) {
    const json role_text = body.value("role", json("user")), user = body.value("user", json(""));
    const auto role = role_of(role_text.is_string() ? role_text.get<std::string>() : "");
    if (!role)
        return Error{ErrorCode::usage, "role is one of admin, user, viewer, metrics, node",
                     "rtrain token create --role user"};
    const bool person = *role != Role::node && *role != Role::metrics;
    if (!user.is_string() || (user.get<std::string>().empty() && person))
        return Error{ErrorCode::usage, "user is missing: whom the token is for", "rtrain token create --user NAME"};
    TokenWish wish{.role = *role, .user = user.get<std::string>()};
    if (wish.user.empty() && *role == Role::metrics) wish.user = "prometheus";
    if (!wish.user.empty() && !is_user_name(wish.user)) return bad_user_name();
    if (Status read = read_expiry(body, wish); !read) return read.error();
    if (Status read = read_uses(body, wish); !read) return read.error();
    return wish;
}

}  // namespace

void post_token(Exchange& exchange, TokenBook& tokens, const Identity& identity) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto wish = read_token_wish(*body);
    if (!wish) return refuse(exchange, wish.error());
    const bool for_node = wish->role == Role::node;
    const std::int64_t now = wall_ms();
    std::int64_t until = now + wish->expires_ms.value_or(for_node ? join_token_ms : person_token_ms);
    if (wish->expires_ms == 0) until = 0;
    const FreshToken fresh = make_token({.role = wish->role,
                                         .user = wish->user,
                                         .now_wall_ms = now,
                                         .expires_wall_ms = until,
                                         .uses_left = for_node ? wish->uses : -1,
                                         .ca_fingerprint = identity.ca_fingerprint});
    tokens.set(fresh.row);
    json out = token_json(fresh.row, std::nullopt);
    out["token"] = fresh.text;
    audit_detail(exchange, "id=" + fresh.row.id + " role=" + fresh.row.role + " user=" + fresh.row.user);
    exchange.events.save(
        {.tokens = {fresh.row}, .settings = {}, .done = [kept = exchange, out = std::move(out)]() mutable {
             reply_json(kept, 201, std::move(out));
         }});
}

void delete_token(Exchange& exchange, TokenBook& tokens) {
    auto row = tokens.row(exchange.variables["id"]);
    if (!row)
        return refuse(exchange, {ErrorCode::not_found, "there is no token '" + exchange.variables["id"] + "'",
                                 "rtrain token list"});
    const auto rows = tokens.rows();
    const auto lets_admins_in = [now = wall_ms()](const state::TokenRow& token) {
        return token.role == to_text(Role::admin) && opens(token, now);
    };
    if (lets_admins_in(*row) && std::count_if(rows.begin(), rows.end(), lets_admins_in) == 1)
        return refuse(exchange,
                      {ErrorCode::conflict,
                       "token " + row->id + " is the last one of role admin: without it nobody could make another",
                       "make one first, and come in with it: rtrain token create --role admin --user " +
                           (row->user.empty() ? "NAME" : row->user)});
    row->revoked = true;
    tokens.set(*row);
    exchange.events.save({.tokens = {*row}, .settings = {}, .done = [kept = exchange, row = *row, &tokens]() mutable {
                              reply_json(kept, 200, token_json(row, tokens.last_used(row.id)));
                          }});
}

void post_join(Exchange& exchange, TokenBook& tokens, Revocations& revocations, const Sessions& sessions,
               const Identity& identity) {
    const auto wish = join_wish(exchange);
    if (!wish) return refuse(exchange, wish.error());
    auto row = tokens.check_join_token(wish->token, wall_ms());
    if (!row) return exchange.responder->send(refusal_of_stranger(row.error()));
    if (row->role != to_text(Role::node))
        return refuse(exchange,
                      {ErrorCode::unauthorised, "joining needs a join token, this one is of role " + row->role,
                       "make one: rtrain token create --role node"});
    if (auto free = name_is_free(exchange.view, sessions, wish->node); !free) return refuse(exchange, free.error());
    const auto leaf = sign(identity, wish->request, wish->node);
    if (!leaf) return refuse(exchange, leaf.error());
    if (row->uses_left > 0) --row->uses_left;
    if (exchange.audit && *exchange.audit) (*exchange.audit)->credential = row->id;
    audit_detail(exchange, "node=" + wish->node);
    tokens.set(*row);  // set before the commit, so that a concurrent request finds the token used
    revocations.revoke(wish->node);
    tokens.set_left(wish->node, false);
    reply_certificate(exchange, {revocations, identity}, *leaf, wish->node,
                      {.tokens = {*row}, .settings = {{"left/" + wish->node, "0"}}, .done = {}});
}

void post_certificate(Exchange& exchange, Revocations& revocations, const Identity& identity) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const json request = body->value("request", json());
    if (!request.is_string())
        return refuse(exchange, {ErrorCode::usage, "\"request\" is missing: a PEM signing request", ""});
    const auto leaf = sign(identity, request.get<std::string>(), exchange.caller.node);
    if (!leaf) return refuse(exchange, leaf.error());
    reply_certificate(exchange, {revocations, identity}, *leaf, exchange.caller.node, {});
}

}  // namespace rtrain::head
