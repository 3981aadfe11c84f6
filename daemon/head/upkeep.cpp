// What the head does by the clock: tokens made on this machine, the end of the audit, old files.
#include <cstdio>

#include "daemon/head/access/dropped_tokens.hpp"
#include "daemon/head/files/uploads.hpp"
#include "daemon/head/parts.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t sweep_pause_ms = 24LL * 3'600'000;
constexpr std::int64_t token_look_ms = 1'000;
constexpr std::int64_t archive_pause_ms = 60'000;
constexpr std::int64_t uploads_kept_ms = 3'600'000;
constexpr std::int64_t events_kept_ms = 30LL * 24 * 3'600'000;

}  // namespace

void Head::send_alive() {
    options_.alive();
    loop_.after(options_.alive_every_ms, [this] { send_alive(); });
}

void Head::look_for_tokens() {
    if (const Status taken = take_dropped_tokens(options_.data_dir, *journal_, tokens_); !taken)
        std::fprintf(stderr, "rtrain head: %s\n", taken.error().message.c_str());
    loop_.after(token_look_ms, [this] { look_for_tokens(); });
}

void Head::log_audit_end() {
    const state::AuditEnd end = journal_->audit_end();
    if (end.sequence > 0)
        std::fprintf(stderr, "rtrain head: the audit ends at %llu:%s\n", static_cast<unsigned long long>(end.sequence),
                     end.hash.c_str());
    loop_.after(options_.audit_end_ms, [this] { log_audit_end(); });
}

// The audit grows with what people do: its oldest rows leave the database.
void Head::archive_audit() {
    loop_.offload(
        [this]() -> Status {
            for (bool more = true; more;) {
                const auto archived = journal_->archive_audit({});
                if (!archived) return archived.error();
                more = *archived;
            }
            return Done{};
        },
        [](const Error& error) { return Status(error); },
        [this](const Status& done) {
            if (!done) std::fprintf(stderr, "rtrain head: archiving the audit: %s\n", done.error().message.c_str());
            loop_.after(archive_pause_ms, [this] { archive_audit(); });
        });
}

// The node leaves as by `rtrain node leave`: its certificates are revoked with every agent, and only a new join token
// brings it back.
void Head::release_node(const std::string& node) {
    revocations_.revoke(node);
    tokens_.set_left(node, true);
    events_.save({.tokens = {}, .settings = {{"left/" + node, "1"}}, .done = {}});
    events_.take(NodeLeft{NodeId{node}}, [this, node](const Decision& decision) {
        if (!decision.refused) sessions_.dismiss(node, "the autoscaler gave the machine of node '" + node + "' back");
    });
}

void Head::tidy_up() {
    events_.behind_commits([this, before = wall_ms() - events_kept_ms] {
        journal_->prune_events(before);
        loop_.post([this] { count_rows(); });
    });
    logs_.prune(events_.cluster());
    blobs_.collect();
    const auto swept = [root = options_.storage_root] {  // removals that a head before this one did not finish
        if (const auto done = storage::sweep_aside(root); !done)
            std::fprintf(stderr, "rtrain head: %s\n", done.error().message.c_str());
        sweep_uploads(root, uploads_kept_ms);
    };
    loop_.offload_at(options_.storage_root, swept, [this] { stored_.count(); });
}

void Head::sweep_later() {
    loop_.after(sweep_pause_ms, [this] { sweep(); });
}

void Head::sweep() {
    events_.once_written([this] { tidy_up(); });  // what is tidied up is judged by what is on disk
    if (auto leaf = security::make_leaf(identity_.authority, "rtrain-head")) {
        identity_.leaf = std::move(*leaf);
        server_->replace_identity(identity_.tls());
    }
    sweep_later();
}

}  // namespace rtrain::head
