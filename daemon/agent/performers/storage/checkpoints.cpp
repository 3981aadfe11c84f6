#include "daemon/agent/performers/storage/checkpoints.hpp"

#include <algorithm>
#include <utility>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/disk/kept_checkpoints.hpp"
#include "daemon/agent/performers/offload.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::agent {
namespace {

struct Fetched {
    std::string why, path, metrics;
};

Fetched fetch_now(const AttemptContext& context, const std::string& from, const std::string& to) {
    if (Status own = own_directory(to); !own) return {own.error().message, "", ""};
    KeptFiles kept(context.kept, context.prepare.run_id);
    auto path = storage::fetch_checkpoint(*context.store, context.prepare.run_name, from, to, {}, kept.copies());
    if (const std::string used = kept.text(); !used.empty())
        log_info("read on this node, not downloaded: " + used + " of checkpoint " + from + " of run " +
                 context.prepare.run_name);
    if (path && *path == to)
        if (Status lent = lend_directory(to, context.user); !lent) path = lent.error();
    if (!path) return {"checkpoint " + from + ": " + path.error().message, "", ""};
    const auto text = context.store->get(context.prepare.run_name + "/" + from + "/.manifest.json");
    const auto manifest = text ? storage::decode_manifest(*text) : Result<storage::Manifest>(text.error());
    if (!manifest) return {"checkpoint " + from + ": " + manifest.error().message, "", ""};
    return {"", *path, manifest->metrics_json};
}

void drop_uncommitted_now(const AttemptContext& context, const std::string& directory) {
    // An agent committed it but died before it reported that. The head deletes such a checkpoint.
    const std::string manifest = context.prepare.run_name + "/" + directory + "/.manifest.json";
    const auto committed = context.store->get(manifest);
    if (committed || committed.error().code != ErrorCode::not_found) return;
    const Status gone = storage::delete_checkpoint(*context.store, context.prepare.run_name, directory);
    if (!gone) warn("what is left of " + directory + " stays: " + gone.error().message);
}

}  // namespace

void Checkpoints::fetch(const FetchCheckpoint& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return inputs_.enqueue(CheckpointFetched{out.attempt, "its preparation is gone"});
    if (out.from.empty()) return start_with(out.attempt, {}, "");
    background_.offload_at(
        attempt->context->prepare.storage_path,
        [context = attempt->context, from = out.from, to = node_.files.restored(out.attempt)] {
            return fetch_now(*context, from, to);
        },
        [from = out.from](const Error& error) -> Fetched {
            return {"checkpoint " + from + ": " + error.message, "", ""};
        },
        [this, key = out.attempt](const Fetched& fetched) {
            StartState start_state{.checkpoint_path = fetched.path};
            if (!fetched.metrics.empty()) start_state.checkpoint_metrics = fetched.metrics;
            start_with(key, std::move(start_state), fetched.why);
        });
}

// Stores the start state before any worker starts, since a worker may connect to a later agent.
void Checkpoints::start_with(AttemptKey key, StartState start_state, std::string why) {
    if (LiveAttempt* attempt = attempts_.change(key)) {
        start_state.reports_before = attempt->start_state.reports_before;
        attempt->start_state = std::move(start_state);
        if (Status kept = keep(attempt->start_state, node_.files.attempt(key)); !kept && why.empty())
            why = "keeping what the workers begin with: " + kept.error().message;
    }
    inputs_.enqueue(CheckpointFetched{key, why});
}

// Looks for a manifest that an earlier agent wrote but did not report. If it exists, every node's part is stored, and
// the other nodes, which may have ended the attempt since, are not needed.
void Checkpoints::look_for_commit(AttemptKey key, const SavedAttempt& saved) {
    const LiveAttempt* attempt = attempts_.find(key);
    const std::string manifest = saved.prepare.run_name + "/" + saved.uploading->released.directory + "/.manifest.json";
    offload_at(
        background_, attempt->context->prepare.storage_path,
        [context = attempt->context, manifest] { return context->store->get(manifest); },
        [this, key, saved](const Result<std::string>& text) {
            const auto manifest = text ? storage::decode_manifest(*text) : Result<storage::Manifest>(text.error());
            if (!manifest) return;
            for (const protocol::PeerNode& peer : saved.prepare.nodes) {
                if (peer.node == node_.name()) continue;
                protocol::GroupUploaded part{.index = manifest->report};
                for (const storage::ManifestFile& file : manifest->files)
                    if (std::find(peer.ranks.begin(), peer.ranks.end(), file.rank) != peer.ranks.end())
                        part.files.push_back({file.rank, file.path, file.bytes, file.sha256});
                inputs_.enqueue(PeerMessage{key, peer.node, std::move(part)});
            }
        });
}

void Checkpoints::list_staged(const ListStaged& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    background_.offload_at(
        staging_place(*attempt->context),
        [context = attempt->context, out] { return agent::list_staged(*context, out); },
        [out](const Error& error) {
            return StagedListed{
                .attempt = out.attempt, .index = out.index, .why = error.message, .reason = storage_reason(error.code)};
        },
        [this](StagedListed listed) {
            if (LiveAttempt* live = attempts_.change(listed.attempt)) {
                live->staged_bytes = 0;
                for (const protocol::StagedFile& file : listed.files) live->staged_bytes += file.bytes;
            }
            inputs_.enqueue(std::move(listed));
        });
}

void Checkpoints::drop_staged(const DropStaged& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    background_.offload_at(
        staging_place(*attempt->context),
        [context = attempt->context, staged = out.staged] { agent::drop_staged(*context, staged); }, [] {});
}

void Checkpoints::upload(const Upload& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    const auto moved = [inputs = inputs_, key = out.attempt, index = out.index](std::int64_t bytes) {
        inputs.enqueue_later(UploadMoved{key, index, bytes});
    };
    background_.offload_at(
        attempt->context->prepare.storage_path,
        [context = attempt->context, out, moved] { return agent::upload(*context, out, moved); },
        [out](const Error& error) {
            return Uploaded{
                .attempt = out.attempt, .index = out.index, .why = error.message, .reason = storage_reason(error.code)};
        },
        [this](Uploaded done) { inputs_.enqueue(std::move(done)); });
}

void Checkpoints::write_manifest(const WriteManifest& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    background_.offload_at(
        apart_from_uploads(attempt->context->prepare.storage_path),
        [context = attempt->context, out] { return commit(*context, out); },
        [out](const Error& error) {
            return ManifestWritten{.attempt = out.attempt,
                                   .index = out.manifest.report,
                                   .why = error.message,
                                   .reason = storage_reason(error.code)};
        },
        [this](ManifestWritten done) { inputs_.enqueue(std::move(done)); });
}

// Runs at once, since the attempt may be closed in this step, which removes its spool.
void Checkpoints::keep_committed(const KeepCommitted& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt || attempt->context->store->local()) return;
    const AttemptContext& context = *attempt->context;
    const std::string directory =
        context.prepare.run_id + "/" + std::to_string(attempt->number) + "-" + std::to_string(out.index);
    const Status kept = agent::keep_committed(context.kept, directory, sent_below(context.spool, out.index));
    if (!kept) warn("a checkpoint is not kept on the node: " + kept.error().message);
    background_.offload([place = context.kept, directory] { drop_replaced(place, directory); }, [] {});
}

void Checkpoints::drop_kept(std::uint64_t run) {
    const std::string run_id = run_id_text(node_.identity.cluster_id, RunId{run});
    background_.offload([kept = node_.files.checkpoints(), run_id] { agent::drop_kept(kept, run_id); }, [] {});
}

void Checkpoints::drop_uncommitted(const DropUncommitted& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    background_.offload_at(
        attempt->context->prepare.storage_path,
        [context = attempt->context, directory = out.directory] { drop_uncommitted_now(*context, directory); }, [] {});
}

}  // namespace rtrain::agent
