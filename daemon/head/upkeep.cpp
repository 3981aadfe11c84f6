// Runs the head's periodic tasks: reads tokens made on this machine, logs the end of the audit, removes old files.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "daemon/head/access/dropped_tokens.hpp"
#include "daemon/head/files/uploads.hpp"
#include "daemon/head/parts.hpp"
#include "daemon/head/view/cluster_totals.hpp"
#include "scheduler/model/derived.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t sweep_pause_ms = 24LL * 3'600'000;
constexpr std::int64_t token_look_ms = 1'000;
constexpr std::int64_t archive_pause_ms = 60'000;
constexpr std::int64_t uploads_kept_ms = 3'600'000;
constexpr std::int64_t events_kept_ms = 30LL * 24 * 3'600'000;
constexpr std::int64_t use_pause_ms = 15'000;  // ms between two samples: one for each bucket of the finest level
constexpr std::int64_t storage_pause_ms = 60'000;

double whole_units(Sum sum) { return static_cast<double>(sum.ticks) / Amount::per_unit; }

// Returns the resident memory of this process in bytes; nullopt: /proc is not mounted.
std::optional<std::int64_t> resident_bytes() {
    std::ifstream pages("/proc/self/statm");
    std::int64_t all = 0, resident = 0;
    if (!(pages >> all >> resident)) return std::nullopt;
    return resident * ::sysconf(_SC_PAGESIZE);
}

// Counts the cluster's resources and allocations. The resources that nodes really use arrive with heartbeats.
ClusterCounts counts_of(const View& view, const HeadHealth& health) {
    const ClusterTotals sum = totals_of(view.cluster);
    const Sum cpus = amount_of(sum.total, cpu_key), cpus_free = amount_of(sum.free, cpu_key);
    const auto& states = view.names.in_states();
    const auto in_state = [&](RunState state) {
        const auto count = states.find(state);
        return count == states.end() ? 0 : count->second;
    };
    const auto as_number = [](const auto& value) {
        return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
    };
    const auto free_on = [](const std::optional<DiskSize>& disk) {
        return disk ? std::optional(static_cast<double>(disk->free)) : std::nullopt;
    };
    return {.wall_ms = wall_ms(),
            .gpus = whole_units(sum.gpus_total),
            .gpus_allocated = whole_units(sum.gpus_total - sum.gpus_free),
            .cpus = whole_units(cpus),
            .cpus_allocated = whole_units(cpus - cpus_free),
            .runs_waiting = in_state(RunState::queued) + in_state(RunState::recovering),
            .runs_running = in_state(RunState::running),
            .head_memory_bytes = as_number(health.memory_bytes),
            .head_longest_task_seconds = health.longest_task_seconds,
            .data_free_bytes = free_on(health.data_disk),
            .storage_free_bytes = free_on(health.storage_disk)};
}

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

// Moves the oldest rows of the audit out of the database.
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

// Removes the node in the same way as the verb `node leave`. Its certificates are revoked at every agent, and it needs
// a new join token to return.
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
    // completes removals of directories that an earlier head has begun
    const auto swept = [root = options_.storage_root] {
        if (const auto done = storage::sweep_aside(root); !done)
            std::fprintf(stderr, "rtrain head: %s\n", done.error().message.c_str());
        sweep_uploads(root, uploads_kept_ms);
    };
    loop_.offload_at(options_.storage_root, swept, [this] { stored_.count(); });
}

void Head::measure_use() {
    const net::Loop::LongestTask longest = loop_.longest_task();
    facts_.health.memory_bytes = resident_bytes();
    facts_.health.longest_task_seconds = static_cast<double>(longest.wall_us) / 1e6;
    facts_.health.data_disk = disk_size(options_.data_dir);
    history_.counted(counts_of(view_, facts_.health));
    loop_.after(use_pause_ms, [this] { measure_use(); });
}

void Head::measure_storage() {
    loop_.offload_at(
        options_.storage_root, [root = options_.storage_root] { return disk_size(root); },
        [](const Error&) { return std::optional<DiskSize>(); },
        [this](const std::optional<DiskSize>& disk) {
            facts_.health.storage_disk = disk;
            loop_.after(storage_pause_ms, [this] { measure_storage(); });
        });
}

void Head::sweep_later() {
    loop_.after(sweep_pause_ms, [this] { sweep(); });
}

void Head::sweep() {
    events_.once_written([this] { tidy_up(); });  // waits for the disk, because tidying reads the stored state
    if (auto leaf = security::make_leaf(identity_.authority, "rtrain-head")) {
        identity_.leaf = std::move(*leaf);
        server_->replace_identity(identity_.tls());
    }
    sweep_later();
}

}  // namespace rtrain::head
