// Fair shares and quotas of queues: pure arithmetic on what queues hold and have held. Inside of the core only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::core {

class Change;

const QueueRules& rules_of(const Queues& queues, const std::string& queue);  // of an unknown queue: without limits
bool known_queue(const Queues& queues, const std::string& queue);
std::vector<std::string> queue_names(const Queues& queues);

// How much a queue has had of the cluster against its share, in billionths: its largest part of any resource, of what
// it holds and has held lately, by its share. The queue with the least is next.
class FairShare {
  public:
    FairShare(const Cluster& cluster, const ClusterIndex& index, Time now);
    std::int64_t of(const std::string& queue);
    void count(const std::string& queue, const Sums& demand);  // as if it were placed

  private:
    const Queues& queues_;
    const Sums& totals_;
    std::map<std::string, Sums> used_;
    std::map<std::string, std::int64_t> known_;  // what `of` said, until it counts more
};

// What a quota says of a further demand.
struct OverQuota {
    std::string queue;  // whose quota it is: the run's own, or one above it
    std::string resource;
    Sum in_use, requested;
    Amount quota;
    Sum reserved{};        // for preemptors
    std::string lender{};  // what is lacking here is within the quota below, and was lent to others; empty: it was not
    bool claimed = false;  // it could be borrowed, but a lender waits for it
    bool lent() const { return !lender.empty(); }
};
// Nothing is withheld from a run for itself, nor for a run that begins when it is over, nor for one that waits for the
// run's own program.
struct Borrower {
    RunId run{};
    std::optional<Time> over_by{};
    const Run* record = nullptr;  // says of which program it is; null: of none
};
Borrower borrower(const Run& run, Time now);
class Quotas {
  public:
    explicit Quotas(const Cluster& cluster);
    std::optional<OverQuota> refuses(const std::string& queue, const Sums& demand, const Borrower& who = {}) const;
    bool own(const std::string& queue, const Sums& demand) const;  // fits below the queue's own quota
    bool borrows(const std::string& queue) const;                  // holds more than its own quota
    bool borrowed(const std::string& queue) const;                 // it, or a queue above it
    // Of what the demand asks for, the holder's queue or one above it has borrowed from one that is above the
    // preemptor's too, and the preemptor's side of it stays within its own quota.
    bool can_reclaim(const std::string& holder, const std::string& preemptor, const Sums& demand) const;
    bool below(const std::string& queue, const std::string& above) const;
    void count(const std::string& queue, const Sums& demand);
    void uncount(const std::string& queue, const Sums& demand);
    // Reserved for a preemptor, until it starts: nobody else may have it.
    void reserve(const std::string& queue, const Sums& demand);
    // For a run that has seats reserved, until it starts: where its side of a queue, with those before it, stays within
    // its own quota, so much is lent to nobody else when it is expected to start.
    void withhold(const Run& run, const Sums& demand);
    void starts(RunId run);
    void claim_back(const std::string& above) { claimed_back_.push_back(above); }  // lends nothing until it is met
    const Sums& in_use(const std::string& queue) const;                            // with the queues below it
    const Cluster& cluster() const { return cluster_; }

  private:
    struct Withheld {
        Sums demand;
        Time from;  // an unknown time is the latest of all
        const Run* waiting = nullptr;
    };
    Sum ending(const Withheld& withheld, const std::string& above, const std::string& name) const;
    Sum withheld(const std::string& above, const std::string& name, const Borrower& who) const;
    const std::string& child_towards(const std::string& queue, const std::string& above) const;

    const Cluster& cluster_;
    const Queues& queues_;
    std::map<std::string, Sums> in_use_, reserved_, withheld_within_own_;
    std::map<std::string, std::map<RunId, Withheld>> withheld_;
    std::vector<std::string> claimed_back_;
};
// Queues that wait below their own quota while its room is lent to others: these are lent nothing more. A run that no
// present nodes could ever hold claims nothing.
void claim_lent(Quotas& quotas, Change& change);
void claim_lent(Quotas& quotas, const Cluster& cluster);
Reason reason_of(const OverQuota& over);
Quotas quotas_unused(const Cluster& cluster);  // as if nobody held anything
// Returns what `now`, and the quotas without any use, allow a run of the queue.
placing::QuotaRoom quota_room(const Quotas& now, const std::string& queue, const Borrower& who);

}  // namespace rtrain::core
