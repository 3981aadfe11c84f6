// Dispatches requests by the table of routes, on the loop (api.hpp).
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/limits.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/timed.hpp"
#include "daemon/head/routes/access.hpp"
#include "daemon/head/routes/api.hpp"

namespace rtrain::head {
namespace {

// Returns true for a requested change, which gets an audit row.
bool is_change(const Exchange& exchange, const Route& route) {
    const std::string_view method = route.method, pattern = route.pattern;
    return method != "GET" && method != "HEAD" && pattern != "/v1/plan" && exchange.caller.role != Role::node;
}

// Returns true for requests that let the head store more, by an amount that no handler checks. Stop, remove and
// requests of admins are always accepted, so they are not among these.
bool adds_rows(const Route& route) {
    const std::string_view method = route.method, pattern = route.pattern;
    if (method != "POST") return false;
    constexpr std::string_view adding[] = {"/checkpoint", "/priority", "/resize", "/verified", "/verify"};
    return std::any_of(std::begin(adding), std::end(adding),
                       [&](std::string_view end) { return pattern.ends_with(end); });
}

// Returns true if the answer is a stream, which continues until it is cut off.
bool is_stream(const Exchange& exchange, const Route& route) {
    return exchange.asked("follow") && (" " + std::string(route.query) + " ").find(" follow ") != std::string::npos;
}

}  // namespace

// Counts a stream for its user. It counts until its follower, which owns a copy of `permitted`, has ended. Returns
// false if the user is at the limit; then the request has been answered.
bool Api::count_stream(Exchange& exchange) {
    const auto place = uses_.bytes.open_stream(exchange.caller.user);
    if (!place) {
        const std::size_t most = uses_.bytes.streams_limit_of(exchange.caller.user);
        constexpr std::int64_t again_s = 5;
        refuse_for_now(
            exchange,
            {ErrorCode::full,
             "user " + exchange.caller.user + " has " + std::to_string(most) +
                 " streams open (followed logs, events and metrics), and a user may have no more",
             "end some of them (Ctrl-C, or close pages), ask without follow, or ask an admin for more (rtrain access "
             "quota " +
                 exchange.caller.user + " --streams N)"},
            again_s);
        return false;
    }
    exchange.permitted = [permitted = std::move(exchange.permitted), place] { return permitted(); };
    return true;
}

void Api::answer(Exchange& exchange) {
    Found match = find_route(exchange.request);
    const Admitted admitted = admit(uses_.credentials, exchange.request, match);
    if (const auto* not_admitted = std::get_if<NotAdmitted>(&admitted)) {
        drop_body(exchange);
        return exchange.responder->send(refusal_of(*not_admitted));
    }
    const Caller* caller = std::get_if<Caller>(&admitted);
    uses_.first_admin.saw(*caller, uses_.events);
    const Route& route = *match.route;
    exchange.caller = *caller;
    exchange.permitted = [&credentials = uses_.credentials, caller = *caller] {
        return credentials.still_opens(caller, wall_ms());
    };
    if (!allowed(uses_.view, uses_.ownership, exchange.caller, match)) {
        drop_body(exchange);
        return refuse(exchange, forbidden(exchange.caller, route));
    }
    exchange.variables = std::move(match.variables);
    if (const auto& no_room = *uses_.durability.no_room(); no_room && is_change(exchange, route)) {
        drop_body(exchange);
        return refuse(exchange, {no_room->code, "the head takes no change now: " + no_room->message,
                                 no_room->next + ", and ask again"});
    }
    if (adds_rows(route))
        if (const Status may =
                uses_.bytes.may_add(exchange.caller.user, Kept::events, {.database = limits::request_bytes});
            !may)
            return refuse(exchange, may.error());
    exchange.responder = timed(uses_.durability, uses_.metrics, std::move(exchange.responder), route);
    begin_audit(exchange, route);
    if (const std::int64_t wait_ms = wait_for_change(exchange); wait_ms > 0) {
        drop_audit(exchange);
        drop_body(exchange);
        return refuse_for_now(
            exchange,
            {ErrorCode::full,
             "this token has changed something " + std::to_string(ChangeRate::burst) +
                 " times in a row; from then on it may " + std::to_string(ChangeRate::each_second) + " times a second",
             "send it again in " + std::to_string(wait_ms) + " ms"},
            (wait_ms + 999) / 1'000);
    }
    if (is_stream(exchange, route) && !count_stream(exchange)) return;
    const Auditing scope(uses_.events, exchange.audit);
    route.answer(exchange, uses_.parts);
}

// Returns how long the caller must wait before the next change, in milliseconds. A request without an audit row is not
// a change.
std::int64_t Api::wait_for_change(const Exchange& exchange) {
    if (!exchange.audit || !*exchange.audit || exchange.caller.user.empty()) return 0;
    const std::string party = party_of_changes(exchange.caller);
    return party.empty() ? 0 : changes_.take(party, monotonic_us() / 1'000);
}

void Api::dispatch(net::Request request, std::shared_ptr<net::Responder> responder) {
    Exchange exchange{uses_.view,       uses_.events,       uses_.durability,
                      uses_.background, std::move(request), std::move(responder)};
    guarded(exchange, [&] { answer(exchange); });
}

}  // namespace rtrain::head
