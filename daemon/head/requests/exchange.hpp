// One request of the API: its caller, the parts that its handler uses, and its answer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/loop/auditing.hpp"
#include "daemon/head/loop/durability.hpp"
#include "daemon/head/view/view.hpp"
#include "daemon/net/loop/background.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

struct Exchange {
    const View& view;            // the data from which answers are made
    Intake events;               // accepts events and changes of the handler
    Durability durability;       // runs tasks when data is durable
    net::Background background;  // runs tasks on the pool of threads
    net::Request request;
    std::shared_ptr<net::Responder> responder;
    Caller caller{};
    std::function<bool()> permitted{};  // true while the caller's token is still valid; thread-safe
    // key: a variable of the route's path: run, node, sha256, path or id
    std::map<std::string, std::string> variables{};
    AuditDraft audit{};
    std::string query(const std::string& name, const std::string& otherwise = "") const;
    bool asked(const std::string& name) const;  // true if the query has the flag: ?follow=true, ?follow=1, or ?follow
};

// Sends an answer. `body` is JSON text.
void reply(Exchange& exchange, int status, std::string body);
void refuse(Exchange& exchange, const Error& error);
void refuse(Exchange& exchange, const Error& error, const Problems& problems);
net::Response refusal(const Error& error);
// Returns the answer 401 for a request without a valid token: none was sent, or it is unknown, revoked, expired or used
// up. (A known caller without the right gets 403.)
net::Response refusal_of_stranger(const Error& error);
// Answers 429: the client may repeat the request after `seconds`.
void refuse_for_now(Exchange& exchange, const Error& error, std::int64_t seconds);
void drop_body(const Exchange& exchange);  // removes the file with a streamed body, on the pool
int http_status(const Error& error);
const char* code_text(ErrorCode code);
std::string error_body(const Error& error, const Problems& problems);

// Runs the function that answers a request. After an exception, answers 500 and logs it, and the head continues, since
// the function has decided nothing. Events that it has passed on are still decided.
void guarded(Exchange& exchange, const std::function<void()>& answer);
// Runs `work`, which returns a Result, on the pool, and then `then(exchange, result)` on the loop. An exception of
// either does not end the head. Work that may wait for a storage has that storage as its `place`: a hanging storage
// then does not block work of other places.
template <class Work, class Then>
void on_pool_at(const std::string& place, const Exchange& exchange, Work work, Then then) {
    exchange.background.offload_at(
        place, std::move(work), [](const Error& error) { return error; },
        [kept = exchange, then = std::move(then)](auto result) mutable {
            guarded(kept, [&] { then(kept, std::move(result)); });
        });
}
template <class Work, class Then>
void on_pool(const Exchange& exchange, Work work, Then then) {
    on_pool_at("", exchange, std::move(work), std::move(then));
}

// Returns the pool's place for a user's long reads of the database, so that a user waits only for their own answers.
std::string reading_place(const Caller& caller);
// Reads a value that may be long on the pool, and then calls `then(exchange, value)` on the loop. A read error becomes
// the answer.
template <class Work, class Then>
void read_on_pool(Exchange& exchange, Work work, Then then) {
    on_pool_at(
        reading_place(exchange.caller), exchange,
        [work = std::move(work)]() mutable -> Result<decltype(work())> {
            try {
                return work();
            } catch (const state::ReadFailed& failed) { return failed.error; }
        },
        [then = std::move(then)](Exchange& to, auto result) mutable {
            if (!result) return refuse(to, result.error());
            then(to, std::move(*result));
        });
}

// Calls `then` with the run that {run} names. If there is no such run, refuses the request.
template <class Then>
void with_run(Exchange& exchange, const Then& then) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    then(exchange.view.cluster.runs.at(*id));
}

}  // namespace rtrain::head
