#include "daemon/agent/performers/workers/worker_messages.hpp"

#include <set>
#include <utility>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/staged_files.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/performers/offload.hpp"
#include "daemon/agent/performers/workers/worker_place.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::agent {

namespace {

worker::Upload upload_of(const std::string& text) {
    if (text == "sync") return worker::Upload::sync;
    return text == "none" ? worker::Upload::none : worker::Upload::async;
}

}  // namespace

Status WorkerMessages::listen() {
    auto server =
        WorkerServer::listen(loop_, node_.socket_path, [this](Input input) { inputs_.enqueue(std::move(input)); });
    if (!server) return server.error();
    server_ = std::move(*server);
    server_->answer_readers([this](AttemptKey key, std::uint32_t rank) { return welcome_of(key, rank); });
    return Done{};
}

void WorkerMessages::admit(AttemptKey key) {
    const LiveAttempt& attempt = *attempts_.find(key);
    WorkerIdentity identity{.attempt = key, .key = attempt.context->key, .uid = attempt.context->user.uid};
    for (const protocol::LaunchWorker& worker : attempt.launch.workers) identity.ranks.insert(worker.rank);
    identity.holder_file = [files = node_.files, key](std::uint32_t rank) {
        return files.worker(key, rank) + "/holder";
    };
    server_->admit(attempt_text(attempt.context->prepare, attempt.number), std::move(identity));
}

std::optional<worker::Welcome> WorkerMessages::welcome_of(AttemptKey key, std::uint32_t rank) const {
    const LiveAttempt* attempt = attempts_.find(key);
    if (!attempt) return std::nullopt;
    worker::Welcome welcome{.context_json = context_json(node_, *attempt, rank)};
    if (!attempt->start_state.checkpoint_path.empty())
        welcome.checkpoint = worker::ResumeFrom{.path = attempt->start_state.checkpoint_path,
                                                .directory = attempt->launch.from,
                                                .metrics_json = attempt->start_state.checkpoint_metrics};
    return welcome;
}

void WorkerMessages::welcome(const WelcomeWorker& out) {
    auto welcome = welcome_of(out.attempt, out.rank);
    if (!welcome) return;
    welcome->next_index = out.next_index;
    welcome->next_broadcast = out.next_broadcast;
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    std::set<std::uint32_t> ranks;
    for (const protocol::LaunchWorker& worker : attempt->launch.workers) ranks.insert(worker.rank);
    const spec::Job& job = attempt->context->job;
    worker::ReportMemoryOffer terms{.alone = ranks.size() == attempt->context->prepare.world_size,
                                    .upload = upload_of(job.upload),
                                    .stop = job.stop};
    server_->welcome(out.attempt, out.rank, *welcome, ranks, std::move(terms));
}

// Checks the directory of a report. An agent that may be root moves and removes its files, so a directory that the
// agent did not make for this rank is dropped. The report itself still counts.
void WorkerMessages::check(WorkerMessage& message) const {
    auto* report = std::get_if<worker::Report>(&message.message);
    if (!report || !report->checkpoint) return;
    const LiveAttempt* attempt = attempts_.find(message.attempt);
    if (attempt && is_stage_of(*attempt->context, message.rank, report->checkpoint->path)) return;
    report->checkpoint_error = "rank " + std::to_string(message.rank) + " names '" + report->checkpoint->path +
                               "' as its checkpoint, which is not a directory that " + node_.name() +
                               " made for it; give report() a Checkpoint, and it is copied";
    report->error_reason = "storage_refused";
    report->checkpoint.reset();
}

// Makes a staging directory. The rank waits for it within its report, and a storage may hang. So it does not run on
// this thread or behind uploads.
void WorkerMessages::make_stage(const MakeStage& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    offload_at(
        loop_, staging_place(*attempt->context),
        [context = attempt->context, rank = out.rank, unique = security::random_hex(16),
         expected = attempt->staged_bytes] { return agent::make_stage(*context, rank, unique, expected); },
        [this, out, context = attempt->context](const Result<std::string>& place) { stage_made(out, context, place); });
}

void WorkerMessages::stage_made(const MakeStage& out, const Context& context, const Result<std::string>& place) {
    if (!attempts_.find(out.attempt))  // the attempt ended meanwhile, so its staging is removed
        return loop_.offload_at(context->prepare.storage_path, [context] { drop_staging(*context); }, [] {});
    if (!place) warn("no staging directory for rank " + std::to_string(out.rank) + ": " + place.error().message);
    worker::Staged staged{.path = place ? *place : "", .spare = out.spare};
    if (!place) {
        staged.error = node_.name() + ": " + place.error().message;
        staged.reason = storage_reason(place.error().code);
    }
    server_->send(out.attempt, out.rank, staged);
    server_->wake();  // no step follows, and the rank would see it only at its next look, 200 ms later
}

}  // namespace rtrain::agent
