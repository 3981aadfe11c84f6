#include "daemon/agent/performers/storage/pending_deliveries.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t again_first_ms = 5'000, again_last_ms = 600'000, busy_again_ms = 100;
constexpr std::int64_t patience_ms = 14LL * 24 * 3600 * 1000;

std::string name_of(const PendingDelivery& delivery) {
    return "attempt " + attempt_text(delivery.prepare, delivery.number);
}

bool is_of(const PendingDelivery& delivery, const protocol::Clear& order) {
    return delivery.prepare.run_name == order.run_name &&
           storage::same_place(delivery.prepare.storage_path, order.storage_path);
}

}  // namespace

// Stores the mark for the next agent.
void PendingDeliveries::keep(AttemptKey key, PendingDelivery delivery) {
    if (delivery.since_wall_ms == 0) delivery.since_wall_ms = wall_ms();
    Status kept = make_directory(node_.files.attempt(key), 0711);
    if (kept) kept = write_whole(node_.files.pending_delivery(key), encode_mark(delivery), 0600, Durable::no);
    if (!kept)
        warn(name_of(delivery) + ": what storage does not take is lost with this agent: " + kept.error().message);
    deliveries_[key] = std::move(delivery);
}

// Logged once.
void PendingDeliveries::leave_behind(AttemptKey key, PendingDelivery delivery, const std::string& why) {
    warn(name_of(delivery) + ": " + why + "; they are kept here and tried again");
    delivery.warned = true;
    keep(key, std::move(delivery));
    deliver_in(key, again_first_ms);
}

// Writes the end of an attempt, together with its logs if they are still pending. The end is stored before the first
// try, so that a failed try can be repeated, and the head's later texts are written after the agent's own.
void PendingDeliveries::write_end(const WriteEnd& out) {
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    const auto entry = deliveries_.find(out.attempt);
    PendingDelivery delivery = entry != deliveries_.end() ? entry->second
                                                          : PendingDelivery{.prepare = attempt->context->prepare,
                                                                            .context = attempt->context,
                                                                            .number = attempt->number,
                                                                            .journal = nullptr};
    delivery.end = out.end;
    keep(out.attempt, std::move(delivery));
    deliver_now(out.attempt);
}

void PendingDeliveries::find_of_ended(const SavedAttempt& saved) {
    const AttemptKey key = key_of(saved.prepare.attempt);
    const auto mark = read_whole(node_.files.pending_delivery(key));
    if (!mark) return;
    deliveries_[key] = delivery_of(saved, *mark, node_.files);
    deliver_now(key);
}

bool PendingDeliveries::has_logs(AttemptKey key) const {
    const auto entry = deliveries_.find(key);
    return entry != deliveries_.end() && entry->second.logs;
}

void PendingDeliveries::deliver_in(AttemptKey key, std::int64_t ms) {
    PendingDelivery& delivery = deliveries_.at(key);
    background_.cancel(delivery.timer);
    delivery.timer = background_.after(ms, [this, key] { deliver_now(key); });
}

void PendingDeliveries::deliver_all() {
    std::vector<AttemptKey> keys;
    for (auto& [key, delivery] : deliveries_) {
        delivery.again_ms = again_first_ms;
        keys.push_back(key);
    }
    for (const AttemptKey key : keys) deliver_now(key);
}

// Tries a delivery now. A storage that has hung since before this agent's start blocks one thread of its path, not all
// threads.
void PendingDeliveries::deliver_now(AttemptKey key) {
    const auto entry = deliveries_.find(key);
    if (entry == deliveries_.end() || entry->second.trying) return;
    PendingDelivery& delivery = entry->second;
    const std::string path = delivery.prepare.storage_path;
    const bool first = !delivery.context;
    if (first && !looking_at_.insert(path).second) return deliver_in(key, busy_again_ms);
    delivery.trying = true;
    background_.offload_at(
        path, [delivery, facts = node_.facts()] { return deliver(delivery, facts); },
        [](const Error& error) { return Tried{.all = error, .context = {}}; },
        [this, key, first, path, end = delivery.end](const Tried& result) {
            if (first) looking_at_.erase(path);
            tried(key, end, result);
        });
}

// Handles the result of a try. `end` is the end that was tried.
void PendingDeliveries::tried(AttemptKey key, const std::optional<storage::AttemptEnd>& end, const Tried& tried) {
    const auto at = deliveries_.find(key);
    if (at == deliveries_.end()) return;  // the delivery was dropped meanwhile
    PendingDelivery& now = at->second;
    now.trying = false;
    if (tried.context) now.context = tried.context;
    if (tried.logs) now.logs = false;
    if (!tried.all) return stays(key, now, tried.all.error().message);
    if (now.end != end) return deliver_now(key);  // the head's texts arrived meanwhile
    if (tried.run_is_gone)
        warn(name_of(now) + ": its run is not there any more; what was to come beside it is dropped");
    else if (now.warned)
        log_info(name_of(now) + ": what storage had not taken is beside its run");
    is_done(key);
}

void PendingDeliveries::stays(AttemptKey key, PendingDelivery& delivery, const std::string& why) {
    if (wall_ms() - delivery.since_wall_ms > patience_ms) {
        warn(name_of(delivery) + ": what is not beside its run is given up: " + why);
        return is_done(key);
    }
    if (!std::exchange(delivery.warned, true))
        warn(name_of(delivery) + (delivery.logs ? ": its logs are" : ": its end is") + " not beside the run: " + why +
             "; kept here and tried again");
    deliver_in(key, delivery.again_ms);
    delivery.again_ms = std::min(delivery.again_ms * 2, again_last_ms);
}

void PendingDeliveries::is_done(AttemptKey key) {
    deliveries_.erase(key);
    ::unlink(node_.files.pending_delivery(key).c_str());
    if (state_.attempts.contains(key)) return;
    // Named logs are delivered, so the scratch directory is removed.
    background_.offload([scratch = node_.files.scratch(key)] { remove_tree(scratch); }, [] {});
    if (logs_.complete(key)) forget(key);
}

// Forgets the attempt unless a delivery is pending.
void PendingDeliveries::let_go(AttemptKey key) {
    if (!state_.attempts.contains(key) && !deliveries_.contains(key)) forget(key);
}

void PendingDeliveries::forget(AttemptKey key) {
    logs_.forget(key);
    deliveries_.erase(key);  // drops a delivery whose run was removed
    background_.offload(
        [scratch = node_.files.scratch(key), folder = node_.files.attempt(key)] {
            remove_tree(scratch);
            remove_all_but(folder,
                           ended_attempt_file);  // removed last, so that the next agent continues after a kill here
            remove_tree(folder);
        },
        [] {});
}

std::string PendingDeliveries::hold(const protocol::Clear& order) {
    for (const auto& [key, delivery] : deliveries_)
        if (is_of(delivery, order) && delivery.trying)
            return "what its attempt " + std::to_string(delivery.number) + " left is on its way there at this moment";
    for (auto& [key, delivery] : deliveries_)
        if (is_of(delivery, order)) delivery.trying = true;
    return {};
}

void PendingDeliveries::release(const protocol::Clear& order, bool removed) {
    std::vector<AttemptKey> keys;
    for (auto& [key, delivery] : deliveries_)
        if (is_of(delivery, order)) keys.push_back(key);
    for (const AttemptKey key : keys) {
        deliveries_.at(key).trying = false;
        if (removed)
            is_done(key);
        else
            deliver_now(key);
    }
}

}  // namespace rtrain::agent
