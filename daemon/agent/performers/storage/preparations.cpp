#include "daemon/agent/performers/storage/preparations.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/performers/offload.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/unused.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t probe_every_ms = 50, hang_named_ms = 10'000;

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

PreparationDone failed(AttemptKey key, const Trouble& trouble) {
    return {.attempt = key, .why = trouble.why, .permanent = trouble.permanent};
}

}  // namespace

Preparations::Preparations(AgentLoop& loop, const ThisNode& node, LiveAttempts& attempts, LogShipper& logs)
    : loop_(loop),
      node_(node),
      attempts_(attempts),
      logs_(logs),
      ports_(static_cast<std::uint16_t>(::getpid() * 101), can_bind),
      setups_(loop.net(), setups_below(node.files.data_dir)) {}

void Preparations::start(const StartPreparation& out) {
    offload_at(
        loop_.net(), apart_from_uploads(out.prepare.storage_path),
        [facts = node_.facts(), prepare = out.prepare] { return gear_up(facts, prepare, Probing::yes); },
        [this, key = key_of(out.prepare.attempt)](Try<Gear> geared) {
            if (const auto* why = std::get_if<Trouble>(&geared)) return loop_.enqueue(failed(key, *why));
            const Gear gear = std::get<Gear>(geared);
            attempts_.open(key).gear = gear;
            await_probes(gear, {.since_ms = boot_ms()});
        });
}

void Preparations::await_probes(const Gear& gear, const ProbeWait& wait) {
    if (gear->prepare.nodes.size() < 2) return set_up(gear);
    loop_.net().offload_at(
        apart_from_uploads(gear->prepare.storage_path),
        [gear, wait, facts = node_.facts()] { return look_for_probes(*gear, facts, wait, boot_ms()); },
        [wait](const Error& error) {
            ProbeWait unseen = wait;
            unseen.missing = "the other nodes (" + error.message + ")";
            unseen.looked_ms = boot_ms();
            return unseen;
        },
        [this, gear](const ProbeWait& seen) { look_at_probes(gear, seen); });
}

void Preparations::look_at_probes(const Gear& gear, const ProbeWait& seen) {
    if (seen.missing.empty()) return set_up(gear);
    const AttemptKey key = key_of(gear->prepare.attempt);
    const auto& attempts = loop_.state().attempts;
    const auto attempt = attempts.find(key);
    if (attempt == attempts.end() || attempt->second.stop_asked)
        return loop_.enqueue(PreparationDone{.attempt = key, .why = node_.name() + ": stopped"});
    if (verdict(seen) == ProbeVerdict::look_again) {
        loop_.net().after(probe_every_ms, [this, gear, seen] { await_probes(gear, seen); });
        return;
    }
    loop_.enqueue(failed(key, trouble_of(seen, *gear, node_.name())));
}

// The lines of a setup are shipped as they come; its failure is the attempt's, and permanent.
void Preparations::set_up(const Gear& gear) {
    if (gear->job.setup.empty()) return finish(gear);
    const AttemptKey key = key_of(gear->prepare.attempt);
    const SetupOrder order = setup_order(*gear, node_.facts());
    if (Status made = make_directory(node_.files.logs(key), 0711); !made)
        return set_up_failed(gear, made.error().message);
    for (const protocol::PeerNode& peer : gear->prepare.nodes)
        if (peer.node == node_.name() && !peer.ranks.empty())
            logs_.follow_setup(gear->prepare.attempt, peer.ranks.front());
    setups_.run(order, [this, gear, key](const SetupResult& result) {
        if (!result.why.empty()) return set_up_failed(gear, result.why);
        const Gear ready = with_setup(*gear, result);
        attempts_.open(key).gear = ready;
        finish(ready);
    });
}

void Preparations::set_up_failed(const Gear& gear, const std::string& why) {
    const AttemptKey key = key_of(gear->prepare.attempt);
    logs_.finish(key, [this, key, why] {
        loop_.enqueue_later(
            PreparationDone{.attempt = key, .why = node_.name() + ": setup: " + why, .permanent = true});
    });
}

void Preparations::finish(const Gear& gear) {
    offload_at(
        loop_.net(), apart_from_uploads(gear->prepare.storage_path),
        [gear, facts = node_.facts()]() -> Try<storage::ClaimAnswer> {
            auto reached = reach_peers(facts, gear->prepare);
            if (auto* why = std::get_if<Trouble>(&reached)) return *why;
            auto made = make_start_directories(*gear, facts);
            if (auto* why = std::get_if<Trouble>(&made)) return *why;
            if (!gear->prepare.claim) return storage::ClaimAnswer{.number = gear->prepare.attempt.number};
            return claim(*gear, facts, wall_ms());
        },
        [this, gear](Try<storage::ClaimAnswer> claimed) {
            if (const auto* why = std::get_if<Trouble>(&claimed))
                return loop_.enqueue(failed(key_of(gear->prepare.attempt), *why));
            prepared(gear, std::get<storage::ClaimAnswer>(claimed));
        });
}

void Preparations::prepared(const Gear& gear, const storage::ClaimAnswer& claimed) {
    PreparationDone done{.attempt = key_of(gear->prepare.attempt),
                         .number = claimed.number,
                         .from = claimed.from,
                         .upload = mode_of(gear->job.upload),
                         .local_run_path = local_run_path(*gear),
                         .policy = policy_of(gear->job)};
    if (LiveAttempt* attempt = attempts_.change(done.attempt)) attempt->begin.reports_before = claimed.reports_before;
    done.earlier = history(claimed, gear->job.retention.score_attribute);
    for (const std::string& damaged : claimed.damaged)
        done.notices.push_back("a damaged checkpoint was passed over: " + damaged);
    if (gear->prepare.claim) {
        const auto port = ports_.take(Time{boot_ms()});
        if (!port) done.why = node_.name() + ": no rendezvous port is free between 20000 and 29999";
        done.master_port = port.value_or(0);
        done.master_address = gear->prepare.nodes.empty() ? "127.0.0.1" : gear->prepare.nodes.front().address;
    }
    loop_.enqueue(std::move(done));
}

// Those of an attempt that is being prepared were marked as used a moment ago.
void Preparations::remove_unused() {
    std::set<std::string> in_use;
    for (const auto& [key, attempt] : attempts_.all()) {
        const Gear& gear = attempt.gear;
        if (!gear) continue;
        in_use.insert(gear->prepare.code_sha256);
        in_use.insert(std::filesystem::path(gear->driver_file).stem());
        if (!gear->job.setup.empty()) in_use.insert(former_setup_key(setup_order(*gear, node_.facts())));
        if (gear->setup) in_use.insert(std::filesystem::path(gear->setup->working_dir).parent_path().filename());
    }
    loop_.net().offload(
        [files = node_.files, in_use] {
            keep_apart(files);
            agent::remove_unused(files.data_dir, in_use, wall_ms());
        },
        [this] { loop_.net().after(day_ms, [this] { remove_unused(); }); });
}

}  // namespace rtrain::agent
