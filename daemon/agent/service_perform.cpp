// Outputs towards the head, storage and other agents.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/named_logs.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/hardware/gpu_heartbeat.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/service.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t probe_every_ms = 50, journal_gather_ms = 1'000, journal_again_ms = 10'000,
                       hang_named_ms = 10'000, mend_outbox_ms = 1'000;

std::int64_t kib(const std::map<std::string, std::string>& words, const char* name) {
    const auto found = words.find(name);
    return found == words.end() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10) * 1024;
}

std::int64_t resident_bytes(std::int64_t pid) {
    const auto text = read_whole("/proc/" + std::to_string(pid) + "/statm");
    if (!text) return 0;
    const auto space = text->find(' ');
    return space == std::string::npos ? 0 : std::strtoll(text->c_str() + space, nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

UploadMode mode_of(const std::string& text) {
    if (text == "sync") return UploadMode::sync;
    return text == "none" ? UploadMode::none : UploadMode::async;
}

// Below the backend's timeout nothing is called a hang: until then a collective may still come to its end. Who hangs is
// named before those who wait for it are.
AttemptPolicy policy_of(const spec::Job& job) {
    AttemptPolicy policy{.isolation_timeout_ms = job.isolation_timeout_ms.value_or(0),
                         .report_timeout_ms = job.backend_timeout_s * 1000,
                         .stop_at = job.stop};
    if (!job.hang_timeout_ms) return policy;
    policy.hang_timeout_ms = std::max(*job.hang_timeout_ms, job.backend_timeout_s * 1000);
    policy.report_timeout_ms = policy.hang_timeout_ms + hang_named_ms;
    return policy;
}

std::string local_run_path(const AttemptGear& gear) {
    return gear.store->local() ? gear.store->local_path(gear.prepare.run_name) : std::string{};
}

// These may be the last news for long: they do not wait for the next to be written.
void mend_later(net::Loop& loop, Outbox& outbox) {
    loop.after(mend_outbox_ms, [&loop, &outbox] {
        if (!outbox.mend()) mend_later(loop, outbox);
    });
}

}  // namespace

void Service::perform(Output output) {
    std::visit([this](auto& one) { on(one); }, output);
}

void Service::on(const ToHead& out) { send(out.message); }

void Service::on(const KeepNews& out) {
    const bool before = outbox_.torn();
    const Status kept = outbox_.keep(out.news);
    if (kept) return;
    warn("news " + std::to_string(out.news.seq) + " is in memory only: " + kept.error().message);
    if (!before) mend_later(loop_, outbox_);
}

void Service::on(const DropNews& out) {
    if (Status dropped = outbox_.drop(out.up_to); !dropped) warn(dropped.error().message);
}

void Service::on(const CloseHead& out) {
    warn("the head refuses this node: " + out.why);
    reconnect_ms_ = 30'000;
    if (head_) head_->close("refused");
}

void Service::on(SendHeartbeat& out) {
    const auto memory = read_words("/proc/meminfo");
    launcher_->look_at_memory(boot_ms());
    for (protocol::WorkerPulse& pulse : out.workers) {
        const auto attempt = state_.attempts.find(key_of(pulse.attempt));
        if (attempt == state_.attempts.end()) continue;
        const auto worker = attempt->second.workers.find(pulse.rank);
        if (worker != attempt->second.workers.end()) pulse.resident_bytes = resident_bytes(worker->second.pid);
    }
    send(protocol::Heartbeat{.memory_used = kib(memory, "MemTotal:") - kib(memory, "MemAvailable:"),
                             .memory_total = kib(memory, "MemTotal:"),
                             .workers = std::move(out.workers),
                             .gpus = gpus_});
    sample_gpus();
}

// For the next heartbeat: a driver in trouble may take its time.
void Service::sample_gpus() {
    if (sampling_gpus_ || !has_real_gpus(inventory_.devices)) return;
    sampling_gpus_ = true;
    offload([] { return gpu_stats(); }, [](const Error&) { return std::vector<GpuStats>{}; },
            [this](const std::vector<GpuStats>& stats) {
                sampling_gpus_ = false;
                gpus_ = gpu_pulses(stats, inventory_.devices);
                feed(GpusSampled{busy_gpus(gpus_)});
            });
}

void Service::on(const ResendLogs&) {
    logs_->resend();
    deliver_rests();
}
void Service::on(const LogsAcknowledged& out) { logs_->acknowledged(out.ack); }

void Service::on(const StartPreparation& out) {
    offload_at(
        apart_from_uploads(out.prepare.storage_path),
        [facts = facts(), prepare = out.prepare] { return gear_up(facts, prepare, Probing::yes); },
        [this, key = key_of(out.prepare.attempt)](Try<Gear> geared) {
            if (const auto* why = std::get_if<Trouble>(&geared))
                return feed(PreparationDone{.attempt = key, .why = why->why, .permanent = why->permanent});
            const Gear gear = std::get<Gear>(geared);
            held_[key].gear = gear;
            await_probes(gear, {.since_ms = boot_ms()});
        });
}

void Service::await_probes(const Gear& gear, const ProbeWait& wait) {
    if (gear->prepare.nodes.size() < 2) return set_up(gear);
    offload_at(
        apart_from_uploads(gear->prepare.storage_path),
        [gear, wait, facts = facts()] { return look_for_probes(*gear, facts, wait, boot_ms()); },
        [wait](const Error& error) {
            ProbeWait failed = wait;
            failed.missing = "the other nodes (" + error.message + ")";
            failed.looked_ms = boot_ms();
            return failed;
        },
        [this, gear](const ProbeWait& seen) {
            if (seen.missing.empty()) return set_up(gear);
            const AttemptKey key = key_of(gear->prepare.attempt);
            const auto attempt = state_.attempts.find(key);
            if (attempt == state_.attempts.end() || attempt->second.stop_asked)
                return feed(PreparationDone{.attempt = key, .why = identity_.node + ": stopped"});
            if (verdict(seen) == ProbeVerdict::look_again) {
                loop_.after(probe_every_ms, [this, gear, seen] { await_probes(gear, seen); });
                return;
            }
            const Trouble trouble = trouble_of(seen, *gear, identity_.node);
            feed(PreparationDone{.attempt = key, .why = trouble.why, .permanent = trouble.permanent});
        });
}

void Service::finish_preparation(const Gear& gear) {
    offload_at(
        apart_from_uploads(gear->prepare.storage_path),
        [gear, facts = facts()]() -> Try<storage::ClaimAnswer> {
            auto reached = reach_peers(facts, gear->prepare);
            if (auto* why = std::get_if<Trouble>(&reached)) return *why;
            auto made = make_start_directories(*gear, facts);
            if (auto* why = std::get_if<Trouble>(&made)) return *why;
            if (!gear->prepare.claim) return storage::ClaimAnswer{.number = gear->prepare.attempt.number};
            return claim(*gear, facts, wall_ms());
        },
        [this, gear](Try<storage::ClaimAnswer> claimed) {
            if (const auto* why = std::get_if<Trouble>(&claimed))
                return feed(PreparationDone{
                    .attempt = key_of(gear->prepare.attempt), .why = why->why, .permanent = why->permanent});
            prepared(gear, std::get<storage::ClaimAnswer>(claimed));
        });
}

void Service::prepared(const Gear& gear, const storage::ClaimAnswer& claimed) {
    PreparationDone done{.attempt = key_of(gear->prepare.attempt),
                         .number = claimed.number,
                         .from = claimed.from,
                         .upload = mode_of(gear->job.upload),
                         .local_run_path = local_run_path(*gear),
                         .policy = policy_of(gear->job)};
    if (Held* one = held(done.attempt)) one->begin.reports_before = claimed.reports_before;
    done.earlier = history(claimed, gear->job.retention.score_attribute);
    for (const std::string& damaged : claimed.damaged)
        done.notices.push_back("a damaged checkpoint was passed over: " + damaged);
    if (gear->prepare.claim) {
        const auto port = ports_.take(Time{boot_ms()});
        if (!port) done.why = identity_.node + ": no rendezvous port is free between 20000 and 29999";
        done.master_port = port.value_or(0);
        done.master_address = gear->prepare.nodes.empty() ? "127.0.0.1" : gear->prepare.nodes.front().address;
    }
    feed(std::move(done));
}

void Service::on(const KeepAttempt& out) {
    const AttemptKey key = key_of(out.image.prepare.attempt);
    if (Held* one = held(key)) one->number = out.image.number;
    const std::string path = files_.attempt(key) + "/" + live_image;
    if (Status kept = write_whole(path, encode(out.image), 0600, Durable::no); !kept)
        warn("attempt " + attempt_text(out.image.prepare, out.image.number) +
             " would not be adopted after a restart: " + kept.error().message);
}

void Service::on(const FetchCheckpoint& out) {
    Held* one = held(out.attempt);
    if (!one) return feed(CheckpointFetched{out.attempt, "its preparation is gone"});
    if (out.from.empty()) return begin_with(out.attempt, {}, "");
    struct Fetched {
        std::string why, path, metrics;
    };
    offload_at(
        one->gear->prepare.storage_path,
        [gear = one->gear, from = out.from, to = files_.restored(out.attempt)]() -> Fetched {
            if (Status own = own_directory(to); !own) return {own.error().message, "", ""};
            auto path = storage::fetch_checkpoint(*gear->store, gear->prepare.run_name, from, to, {});
            if (path && *path == to)
                if (Status lent = lend_directory(to, gear->user); !lent) path = lent.error();
            if (!path) return {"checkpoint " + from + ": " + path.error().message, "", ""};
            const auto text = gear->store->get(gear->prepare.run_name + "/" + from + "/.manifest.json");
            const auto manifest = text ? storage::decode_manifest(*text) : Result<storage::Manifest>(text.error());
            if (!manifest) return {"checkpoint " + from + ": " + manifest.error().message, "", ""};
            return {"", *path, manifest->metrics_json};
        },
        [from = out.from](const Error& error) -> Fetched {
            return {"checkpoint " + from + ": " + error.message, "", ""};
        },
        [this, key = out.attempt](const Fetched& fetched) {
            Beginning begin{.checkpoint_path = fetched.path};
            if (!fetched.metrics.empty()) begin.checkpoint_metrics = fetched.metrics;
            begin_with(key, std::move(begin), fetched.why);
        });
}

// The agent before this one may have written the manifest of the checkpoint that was on its way, and not have told of
// it. Then every node's part is there, and the other nodes, which may have ended the attempt since, need not be heard.
void Service::look_for_commit(AttemptKey key, const AttemptImage& image) {
    const Held* one = held(key);
    const std::string manifest = image.prepare.run_name + "/" + image.uploading->released.directory + "/.manifest.json";
    offload_at(
        one->gear->prepare.storage_path, [gear = one->gear, manifest] { return gear->store->get(manifest); },
        [this, key, image](const Result<std::string>& text) {
            const auto found = text ? storage::decode_manifest(*text) : Result<storage::Manifest>(text.error());
            if (!found) return;
            for (const protocol::PeerNode& node : image.prepare.nodes) {
                if (node.node == identity_.node) continue;
                protocol::GroupUploaded part{.index = found->report};
                for (const storage::ManifestFile& file : found->files)
                    if (std::find(node.ranks.begin(), node.ranks.end(), file.rank) != node.ranks.end())
                        part.files.push_back({file.rank, file.path, file.bytes, file.sha256});
                feed(GroupSaid{key, node.node, std::move(part)});
            }
        });
}

// Kept before any worker starts: another agent may be the one that it says hello to.
void Service::begin_with(AttemptKey key, Beginning begin, std::string why) {
    if (Held* one = held(key)) {
        begin.reports_before = one->begin.reports_before;
        one->begin = std::move(begin);
        if (Status kept = keep(one->begin, files_.attempt(key)); !kept && why.empty())
            why = "keeping what the workers begin with: " + kept.error().message;
    }
    feed(CheckpointFetched{key, why});
}

void Service::on(const ListStaged& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    offload_at(
        one->gear->prepare.storage_path, [gear = one->gear, out] { return list_staged(*gear, out); },
        [out](const Error& error) {
            return StagedListed{
                .attempt = out.attempt, .index = out.index, .why = error.message, .reason = storage_reason(error.code)};
        },
        [this](StagedListed listed) {
            if (Held* one = held(listed.attempt)) {
                one->staged_bytes = 0;
                for (const protocol::StagedFile& file : listed.files) one->staged_bytes += file.bytes;
            }
            feed(std::move(listed));
        });
}

void Service::on(const DropStaged& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    loop_.offload_at(
        one->gear->prepare.storage_path, [gear = one->gear, staged = out.staged] { drop_staged(*gear, staged); },
        [] {});
}

void Service::on(const Upload& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    const auto moved = [this, key = out.attempt, index = out.index](std::int64_t bytes) {
        loop_.post([this, key, index, bytes] { feed(UploadMoved{key, index, bytes}); });
    };
    offload_at(
        one->gear->prepare.storage_path, [gear = one->gear, out, moved] { return upload(*gear, out, moved); },
        [out](const Error& error) {
            return Uploaded{
                .attempt = out.attempt, .index = out.index, .why = error.message, .reason = storage_reason(error.code)};
        },
        [this](Uploaded done) { feed(std::move(done)); });
}

void Service::on(const WriteManifest& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    offload_at(
        apart_from_uploads(one->gear->prepare.storage_path), [gear = one->gear, out] { return commit(*gear, out); },
        [out](const Error& error) {
            return ManifestWritten{.attempt = out.attempt,
                                   .index = out.manifest.report,
                                   .why = error.message,
                                   .reason = storage_reason(error.code)};
        },
        [this](ManifestWritten done) { feed(std::move(done)); });
}

void Service::on(const DropUncommitted& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    loop_.offload_at(
        one->gear->prepare.storage_path,
        [gear = one->gear, directory = out.directory] {
            // Committed after all, by an agent that died before it could say so: that is the head's to delete.
            const std::string manifest = gear->prepare.run_name + "/" + directory + "/.manifest.json";
            const auto committed = gear->store->get(manifest);
            if (committed || committed.error().code != ErrorCode::not_found) return;
            const Status gone = storage::delete_checkpoint(*gear->store, gear->prepare.run_name, directory);
            if (!gone) warn("what is left of " + directory + " stays: " + gone.error().message);
        },
        [] {});
}

void Service::on(const JournalMetrics& out) {
    Held* one = held(out.attempt);
    if (!one) return;
    if (!one->journal) one->journal = std::make_shared<Journal>(files_.journal(out.attempt));
    if (Status kept = one->journal->add(journal_line(out)); !kept)
        warn("metrics of report " + std::to_string(out.index) + " are in memory only: " + kept.error().message);
    flush_journal_in(out.attempt, journal_gather_ms);
}

void Service::flush_journal_in(AttemptKey key, std::int64_t ms) {
    Held* one = held(key);
    if (!one || one->journal_scheduled) return;
    one->journal_scheduled = true;
    loop_.after(ms, [this, key] { flush_journal(key); });
}

// Ranks wait for this thread, so the lines are appended on the pool. Storage that is away is tried again.
void Service::flush_journal(AttemptKey key) {
    Held* one = held(key);
    if (!one) return;
    one->journal_scheduled = false;
    if (one->journal->empty()) return;
    offload_at(
        apart_from_uploads(one->gear->prepare.storage_path),
        [gear = one->gear, number = one->number, journal = one->journal] { return deliver(*journal, *gear, number); },
        [this, key](const Status& kept) {
            Held* now = held(key);
            if (!now) return;
            const std::string trouble = kept ? std::string{} : kept.error().message;
            if (!kept && trouble != now->journal_trouble)
                warn("metrics of " + now->gear->prepare.run_name + " wait on this node for its journal: " + trouble);
            now->journal_trouble = trouble;
            if (!kept) flush_journal_in(key, journal_again_ms);
        });
}

void Service::on(const DialCoordinator& out) { links_->dial(out.attempt, out.peer); }
void Service::on(const ToGroup& out) { links_->send(out.attempt, out.node, out.message); }

void Service::on(const FinishLogs& out) {
    logs_->hold_to_limits(out.attempt);
    const Held* one = held(out.attempt);
    if (!one) return feed(LogsDone{out.attempt});
    struct Delivered {
        Status metrics{Done{}}, logs{Done{}};
    };
    offload_at(
        one->gear->prepare.storage_path,
        [gear = one->gear, facts = facts(), number = one->number, killed = one->killed, node = identity_.node,
         groups = cgroups_, key = out.attempt, journal = one->journal] {
            if (groups) groups->kill(key);
            Delivered done;
            if (journal) done.metrics = deliver(*journal, *gear, number);
            if (killed) kill_strays(attempt_text(gear->prepare, number), node);
            done.logs = copy_logs(*gear, facts, number);
            return done;
        },
        [](const Error& error) { return Delivered{.metrics = error, .logs = error}; },
        [this, key = out.attempt,
         rest = Rest{.prepare = one->gear->prepare, .gear = one->gear, .number = one->number, .journal = one->journal}](
            const Delivered& done) mutable {
            rest.logs = !done.logs;
            if (!done.logs)
                leave_behind(key, std::move(rest), "logs are not beside the run: " + done.logs.error().message);
            else if (!done.metrics)
                leave_behind(key, std::move(rest),
                             "the last metrics are not in the run's journal: " + done.metrics.error().message);
            logs_->finish(key, [this, key] { loop_.post([this, key] { feed(LogsDone{key}); }); });
        });
}

void Service::on(const CloseAttempt& out) {
    workers_->dismiss(out.attempt);
    links_->close(out.attempt);
    const std::string folder = files_.attempt(out.attempt);
    ::rename((folder + "/" + live_image).c_str(), (folder + "/" + ended_image).c_str());
    const Held* one = held(out.attempt);
    if (!one) return;
    const auto rest = rests_.find(out.attempt);
    loop_.offload_at(
        one->gear->prepare.storage_path,
        [gear = one->gear, facts = facts(), scratch = files_.scratch(out.attempt),
         restored = files_.restored(out.attempt), groups = cgroups_, key = out.attempt,
         logs_stay = rest != rests_.end() && rest->second.logs] {
            if (logs_stay)
                remove_all_but(scratch, named_logs_folder);
            else
                remove_tree(scratch);
            drop_staging(*gear);
            remove_tree(restored);
            remove_start_directories(*gear, facts);
            if (groups) groups->remove(key);
        },
        [this, key = out.attempt] {
            if (logs_->complete(key)) let_go(key);
        });
    held_.erase(out.attempt);
}

void Service::on(const ForgetAttempt& out) {
    logs_->forget(out.attempt);
    rests_.erase(out.attempt);  // there is one: its run was removed
    loop_.offload(
        [scratch = files_.scratch(out.attempt), folder = files_.attempt(out.attempt)] {
            remove_tree(scratch);
            remove_tree(folder);
        },
        [] {});
}

void Service::on(const RemoveCheckpoint& out) {
    offload_at(
        out.order.storage_path, [facts = facts(), order = out.order] { return remove_checkpoint(facts, order); },
        [order = out.order](const Error& error) {
            return CheckpointGone{.run = order.run, .directory = order.directory, .why = error.message};
        },
        [this](CheckpointGone gone) { feed(std::move(gone)); });
}

void Service::on(const WriteResultFile& out) {
    loop_.offload_at(
        out.order.storage_path,
        [facts = facts(), order = out.order] {
            const Status written = write_result_file(facts, order);
            if (!written) warn("result.json of " + order.run_name + ": " + written.error().message);
        },
        [] {});
}

}  // namespace rtrain::agent
