// Signs browsers in and out. See docs/decisions/0038-sessions-of-browsers.md.
#include <string_view>
#include <utility>

#include "base/json_text.hpp"
#include "daemon/head/access/credentials.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t secret_bytes = 32;

json session_json(const Caller& caller, const std::string& secret) {
    return {{"user", caller.user},
            {"role", to_text(caller.role)},
            {"csrf", secret.empty() ? json() : json(csrf_token_of(secret))},
            {"idle_most_ms", session_idle_most_ms}};
}

void refuse_too_many(Exchange& exchange) {
    refuse_for_now(exchange, {ErrorCode::full, "too many attempts to sign in", "try again in some seconds"},
                   SignInRate::one_each_ms / 1'000);
}

// Refuses a sign-in. Only failures count against the address. Many people may share it, and a valid token is never
// refused because of the failures of others.
void refuse_sign_in(Exchange& exchange, BrowserSessions& sessions, const Error& error) {
    if (!sessions.may_fail_to_sign_in(sign_in_party(exchange.request.peer.address), wall_ms()))
        return refuse_too_many(exchange);
    if (error.code == ErrorCode::unauthorised) return exchange.responder->send(refusal_of_stranger(error));
    refuse(exchange, error);
}

// Returns the token in the body. The body must be JSON, since a form of another site's page cannot send it.
Result<std::string> token_text(const Exchange& exchange) {
    if (!exchange.request.header("content-type").starts_with("application/json"))
        return Error{ErrorCode::usage, "signing in takes JSON: content-type: application/json", "see /openapi.json"};
    const auto body = body_of(exchange);
    if (!body) return body.error();
    const json token = body->value("token", json());
    if (!token.is_string())
        return Error{ErrorCode::usage, "\"token\" is missing or no string", "an admin makes one: rtrain token create"};
    return token.get<std::string>();
}

void name_in_audit(const Exchange& exchange, const state::TokenRow& row) {
    if (!exchange.audit || !*exchange.audit) return;
    (*exchange.audit)->user = row.user;
    (*exchange.audit)->role = row.role;
    (*exchange.audit)->credential = row.id;
}

// Returns the keys of settings without a value. Such a setting belongs to an ended session, and saving it without a
// value removes it.
std::vector<std::string> keys_of_ended(const BrowserSessions::Settings& settings) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : settings)
        if (value.empty()) keys.push_back(key);
    return keys;
}

struct Answer {
    int status = 200;
    json body;
    std::string cookie;
};
void reply_once_saved(Exchange& exchange, state::SqliteJournal& journal, BrowserSessions::Settings settings,
                      Answer answer) {
    auto ended = keys_of_ended(settings);
    exchange.events.save(
        {.tokens = {},
         .settings = std::move(settings),
         .done = [kept = exchange, &journal, ended = std::move(ended), answer = std::move(answer)]() mutable {
             if (!ended.empty())
                 kept.durability.behind_commits([&journal, ended = std::move(ended)] {
                     // an error is ignored, since a setting without a value has no effect
                     (void)journal.erase_settings(ended);
                 });
             answer.body["schema_version"] = 1;
             kept.responder->send(net::Response{
                 .status = answer.status, .body = json_text(answer.body), .headers = {{"set-cookie", answer.cookie}}});
         }});
}

}  // namespace

void post_session(Exchange& exchange, const TokenBook& tokens, BrowserSessions& sessions,
                  const Credentials& credentials, state::SqliteJournal& journal) {
    const std::int64_t now = wall_ms();
    const auto text = token_text(exchange);
    const auto row = text ? tokens.check_person_token(*text, now) : Result<state::TokenRow>(text.error());
    if (!row) return refuse_sign_in(exchange, sessions, row.error());
    if (!sessions.may_sign_in(row->user, now)) return refuse_too_many(exchange);
    // a new random secret; a secret that the browser has sent is never used
    const std::string secret = security::random_hex(secret_bytes);
    auto begun = sessions.begin(secret, *row, tokens, now);
    if (!begun) return refuse(exchange, begun.error());
    tokens.note_use(row->id, now);
    name_in_audit(exchange, *row);
    const Caller caller{.role = *role_of(row->role), .user = row->user, .node = "", .token_id = row->id};
    reply_once_saved(exchange, journal, std::move(*begun),
                     {201, session_json(caller, secret), credentials.browser().cookie(secret)});
}

// Returns the caller, and for a browser the CSRF token. Requests with a bearer token need no CSRF token, so their
// answer has none.
void get_session(Exchange& exchange, const Credentials& credentials) {
    const bool browser = !exchange.caller.session.empty();
    reply_json(exchange, 200,
               session_json(exchange.caller, browser ? credentials.browser().secret_of(exchange.request) : ""));
}

void delete_session(Exchange& exchange, BrowserSessions& sessions, const Credentials& credentials,
                    state::SqliteJournal& journal) {
    if (exchange.caller.session.empty())
        return refuse(exchange, {ErrorCode::not_found, "this request has a token and no session", ""});
    reply_once_saved(exchange, journal, sessions.end(exchange.caller.session),
                     {200, {{"status", "signed out"}}, credentials.browser().cookie("")});
}

}  // namespace rtrain::head
