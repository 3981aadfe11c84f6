#include "daemon/agent/performers/storage/preparations.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/limits.hpp"
#include "daemon/agent/disk/disk_room.hpp"
#include "daemon/agent/performers/offload.hpp"
#include "daemon/agent/preparation/compile_caches.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/unused.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t probe_every_ms = 50, hang_named_ms = 10'000;
constexpr std::int64_t setups_look_ms = 600'000;

UploadMode mode_of(const std::string& text) {
    if (text == "sync") return UploadMode::sync;
    return text == "none" ? UploadMode::none : UploadMode::async;
}

// Returns the policy. The job's own hang_timeout counts even if it is shorter than the backend's timeout. Then the rank
// that hangs is named before the ranks that wait for it.
AttemptPolicy policy_of(const spec::Job& job, MemoryLimits limits) {
    AttemptPolicy policy{.isolation_timeout_ms = job.isolation_timeout_ms.value_or(0),
                         .report_timeout_ms = job.backend_timeout_s * 1000,
                         .stop_at = job.stop};
    if (limits != MemoryLimits::off)
        policy.memory_bytes = amount_of(job.resources_per_worker, memory_key).ticks / Amount::per_unit;
    if (!job.hang_timeout_ms) return policy;
    policy.hang_timeout_ms = *job.hang_timeout_ms;
    policy.report_timeout_ms = policy.hang_timeout_ms + hang_named_ms;
    return policy;
}

std::string local_run_path(const AttemptContext& context) {
    return context.store->local() ? context.store->local_path(context.prepare.run_name) : std::string{};
}

// Returns the bounds of a setup, which ends before it uses the reserve of the disk.
SetupBounds setup_bounds(const ThisNode& node) {
    SetupBounds bounds;
    const DiskRoom disk = room_at(node.files.data_dir);
    const std::uint64_t reserve = reserve_of(disk, node.options.disk_reserve);
    if (disk.size > 0) bounds.bytes_most = static_cast<std::int64_t>(disk.free - std::min(disk.free, reserve));
    return bounds;
}

PreparationDone failed(AttemptKey key, const Trouble& trouble) {
    return {.attempt = key, .why = trouble.why, .permanent = trouble.permanent};
}

}  // namespace

Preparations::Preparations(Inputs inputs, const AgentState& state, net::Background background, const ThisNode& node,
                           LiveAttempts& attempts, LogShipper& logs)
    : inputs_(inputs),
      state_(state),
      background_(background),
      node_(node),
      attempts_(attempts),
      logs_(logs),
      ports_(static_cast<std::uint16_t>(::getpid() * 101), can_bind),
      setups_(background, setups_below(node.files.data_dir), [&node] { return setup_bounds(node); }) {}

void Preparations::start(const StartPreparation& out) {
    offload_at(
        background_, apart_from_uploads(out.prepare.storage_path),
        [facts = node_.facts(), prepare = out.prepare] { return make_context(facts, prepare, Probing::yes); },
        [this, key = key_of(out.prepare.attempt)](Try<Context> result) {
            if (const auto* why = std::get_if<Trouble>(&result)) return inputs_.enqueue(failed(key, *why));
            const Context context = std::get<Context>(result);
            attempts_.open(key).context = context;
            await_probes(context, {.since_ms = boot_ms()});
        });
}

void Preparations::await_probes(const Context& context, const ProbeWait& wait) {
    if (context->prepare.nodes.size() < 2) return set_up(context);
    background_.offload_at(
        apart_from_uploads(context->prepare.storage_path),
        [context, wait, facts = node_.facts()] { return look_for_probes(*context, facts, wait, boot_ms()); },
        [wait](const Error& error) {
            ProbeWait unseen = wait;
            unseen.missing = "the other nodes (" + error.message + ")";
            unseen.looked_ms = boot_ms();
            return unseen;
        },
        [this, context](const ProbeWait& seen) { look_at_probes(context, seen); });
}

void Preparations::look_at_probes(const Context& context, const ProbeWait& seen) {
    if (seen.missing.empty()) return set_up(context);
    const AttemptKey key = key_of(context->prepare.attempt);
    if (stopped(key)) return inputs_.enqueue(PreparationDone{.attempt = key, .why = node_.name() + ": stopped"});
    if (verdict(seen) == ProbeVerdict::look_again) {
        background_.after(probe_every_ms, [this, context, seen] { await_probes(context, seen); });
        return;
    }
    inputs_.enqueue(failed(key, trouble_of(seen, *context, node_.name())));
}

// Returns true if the attempt no longer needs the preparation.
bool Preparations::stopped(AttemptKey key) const {
    const auto attempt = state_.attempts.find(key);
    return attempt == state_.attempts.end() || attempt->second.stop_asked;
}

// Runs the setup. Its lines are sent while they are written. Its failure is a permanent failure of the attempt. A stop
// during the earlier steps could not cancel the setup, so it is checked here.
void Preparations::set_up(const Context& context) {
    if (context->job.setup.empty()) return finish(context);
    const AttemptKey key = key_of(context->prepare.attempt);
    if (stopped(key)) return inputs_.enqueue(PreparationDone{.attempt = key, .why = node_.name() + ": stopped"});
    SetupOrder order = setup_order(*context, node_.facts());
    if (node_.cgroups)
        if (const auto group = node_.cgroups->make(key)) order.cgroup = *group;
    if (Status status = make_directory(node_.files.logs(key), 0711); !status)
        return set_up_failed(context, status.error().message);
    for (const protocol::PeerNode& peer : context->prepare.nodes)
        if (peer.node == node_.name() && !peer.ranks.empty())
            logs_.follow_setup(context->prepare.attempt, peer.ranks.front(), log_bounds(*context));
    setups_.run(std::move(order), [this, context, key](const SetupResult& result) {
        if (node_.cgroups) node_.cgroups->kill(key);  // kills processes that the setup has left
        if (!result.why.empty()) return set_up_failed(context, result.why);
        const Context ready = with_setup(*context, result);
        attempts_.open(key).context = ready;
        finish(ready);
    });
}

void Preparations::set_up_failed(const Context& context, const std::string& why) {
    const AttemptKey key = key_of(context->prepare.attempt);
    logs_.finish(key, [this, key, why] {
        inputs_.enqueue_later(
            PreparationDone{.attempt = key, .why = node_.name() + ": setup: " + why, .permanent = true});
    });
}

void Preparations::finish(const Context& context) {
    offload_at(
        background_, apart_from_uploads(context->prepare.storage_path),
        [context, facts = node_.facts()]() -> Try<storage::ClaimAnswer> {
            auto reached = reach_peers(facts, context->prepare);
            if (auto* why = std::get_if<Trouble>(&reached)) return *why;
            auto directories = make_start_directories(*context, facts);
            if (auto* why = std::get_if<Trouble>(&directories)) return *why;
            if (!context->prepare.claim) return storage::ClaimAnswer{.number = context->prepare.attempt.number};
            return claim(*context, facts, wall_ms());
        },
        [this, context](Try<storage::ClaimAnswer> claimed) {
            if (const auto* why = std::get_if<Trouble>(&claimed))
                return inputs_.enqueue(failed(key_of(context->prepare.attempt), *why));
            prepared(context, std::get<storage::ClaimAnswer>(claimed));
        });
}

void Preparations::prepared(const Context& context, const storage::ClaimAnswer& claimed) {
    PreparationDone done{.attempt = key_of(context->prepare.attempt),
                         .number = claimed.number,
                         .from = claimed.from,
                         .upload = mode_of(context->job.upload),
                         .local_run_path = local_run_path(*context),
                         .policy = policy_of(context->job, node_.memory_limits)};
    if (LiveAttempt* attempt = attempts_.change(done.attempt))
        attempt->start_state.reports_before = claimed.reports_before;
    done.earlier = history(claimed, context->job.retention.score_attribute);
    for (const std::string& damaged : claimed.damaged)
        done.notices.push_back("a damaged checkpoint was passed over: " + damaged);
    if (context->prepare.claim) {
        const auto port = ports_.take(Time{boot_ms()});
        if (!port) done.why = node_.name() + ": no rendezvous port is free between 20000 and 29999";
        done.master_port = port.value_or(0);
        done.master_address = context->prepare.nodes.empty() ? "127.0.0.1" : context->prepare.nodes.front().address;
    }
    inputs_.enqueue(std::move(done));
}

void Preparations::bound_caches() {
    background_.offload([files = node_.files] { agent::bound_caches(files, wall_ms()); },
                        [this] { background_.after(caches_look_ms, [this] { bound_caches(); }); });
}

// Returns the entries in use. The entries of an attempt that is being prepared were marked as used just before.
std::set<std::string> Preparations::in_use() const {
    std::set<std::string> in_use;
    for (const auto& [key, attempt] : attempts_.all()) {
        const Context& context = attempt.context;
        if (!context) continue;
        in_use.insert(context->prepare.code_sha256);
        in_use.insert(context->prepare.run_id);
        in_use.insert(std::filesystem::path(context->driver_file).stem());
        if (!context->job.setup.empty()) in_use.insert(former_setup_key(setup_order(*context, node_.facts())));
        if (context->setup) in_use.insert(std::filesystem::path(context->setup->working_dir).parent_path().filename());
    }
    return in_use;
}

void Preparations::bound_setups() {
    const DiskRoom disk = room_at(node_.files.data_dir);
    const bool is_full = disk.free < reserve_of(disk, node_.options.disk_reserve);
    const std::uint64_t part = is_full ? limits::setups_part_when_full : limits::setups_part;
    const auto again = [this] { background_.after(setups_look_ms, [this] { bound_setups(); }); };
    if (disk.size == 0) return again();
    background_.offload(
        [data_dir = node_.files.data_dir, in_use = in_use(), share = static_cast<std::int64_t>(disk.size / part)] {
            agent::bound_setups(data_dir, in_use, share, wall_ms());
        },
        again);
}

void Preparations::remove_unused() {
    background_.offload(
        [files = node_.files, short_names = node_.short_names, in_use = in_use()] {
            keep_apart(files);
            short_names.keep_fresh();
            agent::remove_unused(files.data_dir, in_use, wall_ms());
        },
        [this] { background_.after(day_ms, [this] { remove_unused(); }); });
}

}  // namespace rtrain::agent
