// One request of the API on its way: who asks, what it reads, where it puts events, and how it is answered.
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
    const View& view;            // what answers are made of
    Intake events;               // where changes are put
    Durability durability;       // for answers that wait for the disk
    net::Background background;  // for work on the pool
    net::Request request;
    std::shared_ptr<net::Responder> responder;
    Caller caller{};
    std::function<bool()> permitted{};               // as long as the caller's token opens; safe from any thread
    std::map<std::string, std::string> variables{};  // {run}, {node}, {sha256}, {path}, {id}
    AuditDraft audit{};
    std::string query(const std::string& name, const std::string& otherwise = "") const;
    bool asked(const std::string& name) const;  // ?follow=true, =1, or just ?follow
};

// Answers. `body` is JSON text.
void reply(Exchange& exchange, int status, std::string body);
void refuse(Exchange& exchange, const Error& error);
void refuse(Exchange& exchange, const Error& error, const Problems& problems);
net::Response refusal(const Error& error);
// 401 where no token opens anything: none was shown, or it is unknown, revoked, expired or used up. Whoever is known
// and may not is answered with 403.
net::Response refusal_of_stranger(const Error& error);
void refuse_for_now(Exchange& exchange, const Error& error, std::int64_t seconds);  // 429: ask again after that time
void drop_body(const Exchange& exchange);  // a streamed body that nobody wants; on the pool
int http_status(const Error& error);
const char* code_text(ErrorCode code);
std::string error_body(const Error& error, const Problems& problems);

// Runs what answers a request. What it throws is answered with 500 and told on standard error, and the head goes on: at
// that point nothing has been decided. What it handed over to be decided is decided all the same, outside of this.
void guarded(Exchange& exchange, const std::function<void()>& answer);
// Runs `work`, which gives a Result, on the pool, and `then(exchange, result)` on the loop; neither ends the head. Work
// that waits for a storage is `on_pool_at` its place: where that hangs, the work of other places goes on.
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

// The place on the pool where long answers of a user are read from the database: a user waits for his own only.
std::string reading_place(const Caller& caller);
// Reads on the pool what may be long, and calls `then(exchange, value)` on the loop; what cannot be read is refused.
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

// Calls `then` with the run that {run} names, or refuses.
template <class Then>
void with_run(Exchange& exchange, const Then& then) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    then(exchange.view.cluster.runs.at(*id));
}

}  // namespace rtrain::head
