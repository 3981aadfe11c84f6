// Every route of the head: one table, one place that authenticates and authorises, no route without. The OpenAPI page
// is made from this table.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/head/reach.hpp"
#include "daemon/head/shell.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

// Who may ask. Roles contain each other: viewer < user < admin.
enum class Access {
    anyone,  // /healthz, /v1/join: no token
    viewer,
    user,
    owner,  // of {run}, or admin
    admin,
    agent,           // a node's certificate
    agent_or_owner,  // of the run whose directory {path} lies in, or admin
    agent_or_user,
    agent_or_admin,
};
const char* to_text(Access access);

using AuditDraft = std::shared_ptr<std::optional<state::AuditRow>>;  // null: nothing is changed; empty: it was saved

// One request with its caller and its route's variables.
struct Ask {
    Head& head;
    net::Request request;
    std::shared_ptr<net::Responder> responder;
    Caller caller{};
    std::map<std::string, std::string> variables{};  // {run}, {node}, {sha256}, {path}, {id}
    AuditDraft audit{};
    std::string query(const std::string& name, const std::string& otherwise = "") const;
    bool asked(const std::string& name) const;  // ?follow=true, =1, or just ?follow
};

struct Route {
    const char* method;
    const char* pattern;  // "/v1/runs/{run}/stop"; "{path...}" takes the rest
    Access access;
    const char* summary;
    const char* query;  // names of the parameters, separated by blanks
    void (*answer)(Ask&);
};
std::span<const Route> routes();

void dispatch(Head& head, net::Request request, std::shared_ptr<net::Responder> responder);
net::ServerOptions server_options(Head& head);

// audit.cpp. What a request takes, or saves before it is answered, has the request's row in its transaction while one
// of these is there. With an empty draft: what is taken beside the change itself has none.
class Auditing {
  public:
    Auditing(Head& head, const AuditDraft& draft)
        : head_(head), before_(std::exchange(head.auditing, draft.get())), draft_(draft) {}
    ~Auditing() { head_.auditing = before_; }
    Auditing(const Auditing&) = delete;
    Auditing& operator=(const Auditing&) = delete;

  private:
    Head& head_;
    std::optional<state::AuditRow>* before_;
    AuditDraft draft_;
};
void begin_audit(Ask& ask, const Route& route);  // of a change; once the caller was let in
void audit_detail(const Ask& ask, const std::string& text);
void drop_audit(const Ask& ask);  // the request turned out to change nothing
void tell_audit_end(Head& head);  // on standard error, each hour

// Answers. `body` is JSON text.
void reply(Ask& ask, int status, std::string body);
void refuse(Ask& ask, const Error& error);
std::function<bool()> still_permitted(const Ask& ask);  // as long as the caller's token opens; safe from any thread
void refuse(Ask& ask, const Error& error, const Problems& problems);
// 401 where no token opens anything: none was shown, or it is unknown, revoked, expired or used up. Whoever is known
// and may not is answered with 403.
net::Response refusal_of_stranger(const Error& error);
// Runs what answers a request. What it throws is answered with 500 and told on standard error, and the head goes on: at
// that point nothing has been decided. What it handed over to be decided is decided all the same, outside of this.
void guarded(Ask& ask, const std::function<void()>& answer);
// Runs `work`, which gives a Result, on the pool, and `then(ask, result)` on the loop; neither ends the head. Work that
// waits for a storage is `on_pool_at` its place: where that hangs, the work of other places goes on.
template <class Work, class Then>
void on_pool_at(const std::string& place, const Ask& ask, Work work, Then then) {
    ask.head.loop.offload_at(
        place, std::move(work), [](const Error& error) { return error; },
        [kept = ask, then = std::move(then)](auto result) mutable {
            guarded(kept, [&] { then(kept, std::move(result)); });
        });
}
template <class Work, class Then>
void on_pool(const Ask& ask, Work work, Then then) {
    on_pool_at("", ask, std::move(work), std::move(then));
}
int http_status(const Error& error);
const char* code_text(ErrorCode code);
std::string error_body(const Error& error, const Problems& problems);

// A run by id, by name (the live one, else the newest), or by an unambiguous prefix of its id.
Result<RunId> find_run(const Head& head, const std::string& text);

// Returns the answer to a node that does not reach `path` of cluster://; none: it does, or it is no node. On the loop.
std::optional<net::Response> refuse_unreached(const Head& head, const Caller& caller, const std::string& path,
                                              Touch touch);

void sweep_uploads(const std::string& storage_root, std::int64_t untouched_ms);  // to cluster://, that nobody finished
void prune_logs(Head& head);  // of runs that ended longer ago than their logs.keep

// Where a streamed upload is written: beside its target, so that moving it there is a rename. Refused: its target is no
// name that a blob or a file may have. Waits for nothing; safe on the server's threads.
Result<std::string> upload_place(const Head& head, const net::Request& request);
// Full: with so many bytes more, an upload would leave less free than the reserve. Asks the file system.
enum class Upload { blob, storage };
Status upload_room(const Head& head, Upload kind, std::uint64_t bytes);
Status blob_name(const std::string& text);             // usage: it is no SHA-256
Status storage_name(const std::string& path);          // usage: it is no path below the storage root
constexpr std::uint64_t storage_body_max = 64u << 20;  // of a piece, an appended part, or a file that must be new
void drop_body(const Ask& ask);                        // a streamed body that nobody wants; on the pool

}  // namespace rtrain::head
