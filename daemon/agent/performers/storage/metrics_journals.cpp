#include "daemon/agent/performers/storage/metrics_journals.hpp"

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/performers/offload.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t journal_gather_ms = 1'000, journal_again_ms = 10'000;

}  // namespace

MetricsJournals::OfAttempt& MetricsJournals::opened(AttemptKey key) {
    OfAttempt& of = journals_[key];
    if (!of.journal) of.journal = std::make_shared<Journal>(node_.files.journal(key));
    return of;
}

void MetricsJournals::open(AttemptKey key) { opened(key); }

std::shared_ptr<Journal> MetricsJournals::find(AttemptKey key) const {
    const auto entry = journals_.find(key);
    return entry == journals_.end() ? nullptr : entry->second.journal;
}

void MetricsJournals::add(const JournalMetrics& out) {
    if (!attempts_.find(out.attempt)) return;
    if (Status kept = opened(out.attempt).journal->add(journal_line(out)); !kept)
        warn("metrics of report " + std::to_string(out.index) + " are in memory only: " + kept.error().message);
    deliver_in(out.attempt, journal_gather_ms);
}

void MetricsJournals::deliver(AttemptKey key) { deliver_in(key, 0); }

void MetricsJournals::deliver_in(AttemptKey key, std::int64_t ms) {
    const auto entry = journals_.find(key);
    if (entry == journals_.end() || entry->second.scheduled) return;
    entry->second.scheduled = true;
    background_.after(ms, [this, key] { deliver_now(key); });
}

// Ranks wait for this thread, so the lines are appended on the pool. Storage that is away is tried again.
void MetricsJournals::deliver_now(AttemptKey key) {
    const LiveAttempt* attempt = attempts_.find(key);
    const auto entry = journals_.find(key);
    if (!attempt || entry == journals_.end()) return;
    entry->second.scheduled = false;
    if (entry->second.journal->empty()) return;
    offload_at(
        background_, apart_from_uploads(attempt->context->prepare.storage_path),
        [context = attempt->context, number = attempt->number, journal = entry->second.journal] {
            return agent::deliver(*journal, *context, number);
        },
        [this, key](const Status& kept) { delivered(key, kept); });
}

void MetricsJournals::delivered(AttemptKey key, const Status& kept) {
    const LiveAttempt* attempt = attempts_.find(key);
    const auto entry = journals_.find(key);
    if (!attempt || entry == journals_.end()) return;
    const std::string trouble = kept ? std::string{} : kept.error().message;
    if (!kept && trouble != entry->second.trouble)
        warn("metrics of " + attempt->context->prepare.run_name + " wait on this node for its journal: " + trouble);
    entry->second.trouble = trouble;
    if (!kept) deliver_in(key, journal_again_ms);
}

}  // namespace rtrain::agent
