// Computes fair shares and quotas of queues from what they hold and have held. Used inside of the scheduler's core
// only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/index/cluster.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::core {

class Change;

const QueueRules& rules_of(const Queues& queues, const std::string& queue);  // An unknown queue has no limits.
bool known_queue(const Queues& queues, const std::string& queue);
std::vector<std::string> queue_names(const Queues& queues);

// The use of each queue in relation to its share. It is the queue's largest fraction of any resource of the cluster,
// held now or lately, in billionths, divided by the share. The queue with the smallest use is next.
class FairShare {
  public:
    FairShare(const Cluster& cluster, const ClusterIndex& index, Time now);
    std::int64_t of(const std::string& queue);
    void count(const std::string& queue, const Sums& demand);  // counts the demand as if it were placed

  private:
    const Queues& queues_;
    const Sums& totals_;
    std::map<std::string, Sums> used_;
    std::map<std::string, std::int64_t> known_;  // cached results of `of`
};

// The reason why a quota does not permit a further demand.
struct OverQuota {
    std::string queue;  // the queue whose quota it is: the run's own queue, or one above it
    std::string resource;
    Sum in_use, requested;
    Amount quota;
    Sum reserved{};  // for preemptors and for runs with reserved seats, beside `in_use`
    // A queue above that has lent its room to others, although the demand is within the quota below it. Empty: none.
    std::string lender{};
    bool claimed = false;    // true: the parent has room to lend, but a lender waits for it
    bool promised = false;   // true: the quota has room, which is withheld for runs with reserved seats
    bool of_user = false;    // true: `quota` is the queue's limit for one user, and `resource` is "runs" or GPU
    bool of_budget = false;  // true: a budget is used up, and `quota` is its GPU hours; of_user: the user's budget
    Duration window{};
    bool lent() const { return !lender.empty(); }
};
// The run that asks for quota. Nothing is withheld from it for three kinds of reservations: its own, those that begin
// after its end, and those that wait for the end of the run's own program.
struct Borrower {
    RunId run{};
    std::optional<Time> over_by{};
    const Run* record = nullptr;        // decides which program the run belongs to; null: none
    const std::string* user = nullptr;  // whose limits count; null: no user's
    bool has_attempt = false;           // true: the run is counted among the user's runs already, and asks for more
};
Borrower borrower(const Run& run, Time now);
class Quotas {
  public:
    explicit Quotas(const Cluster& cluster);
    std::optional<OverQuota> refuses(const std::string& queue, const Sums& demand, const Borrower& who = {}) const;
    // Returns true if the queue stays within its own quota with this demand.
    bool own(const std::string& queue, const Sums& demand) const;
    bool borrows(const std::string& queue) const;   // true if it holds more than its own quota
    bool borrowed(const std::string& queue) const;  // true if it or a queue above it borrows
    // Returns true if the preemptor may reclaim quota from the holder. The holder's queue, or one above it, has
    // borrowed some of the demanded resources from a queue above the preemptor's. The preemptor's side stays within its
    // own quota.
    bool can_reclaim(const std::string& holder, const std::string& preemptor, const Sums& demand) const;
    bool below(const std::string& queue, const std::string& above) const;
    void count(const std::string& queue, const Sums& demand);
    void uncount(const std::string& queue, const Sums& demand);
    // The same for the limits of one user. The demand is that of a whole attempt.
    void count_user(const Run& run, const Sums& demand) { add_to_user(run.spec.queue, run.user, 1, gpus_of(demand)); }
    void uncount_user(const Run& run, const Sums& demand) {
        add_to_user(run.spec.queue, run.user, -1, Sum{} - gpus_of(demand));
    }
    void forget_users() {
        held_by_user_.clear();
        budgets_count_ = false;
    }
    // Returns the budget that is used up and keeps such a run out.
    std::optional<OverQuota> beyond_budget(const std::string& queue, const Sums& demand, const Borrower& who) const;
    // Returns true if limits for one user keep such runs of the line out. Reads no quota.
    bool limit_keeps_out(const Line& line, const Sums& demand) const;
    // Reserves quota for a preemptor until it starts. No other run may use it.
    void reserve(const std::string& queue, const Sums& demand);
    // Withholds quota for a run with reserved seats until it starts. As long as the run's queue stays within its own
    // quota, together with what was withheld before, no run gets the amount that is still there at the expected start:
    // neither a run of the same queue nor one that borrows. Runs of a higher priority in the same queue get it.
    void withhold(const Run& run, const Sums& demand);
    // Returns true if quota of the run's own queue is withheld for it.
    bool withholds(const Run& run) const;
    void starts(RunId run);
    // Counts the demand of other runs' reservations that begin until then as reserved from now on, except for those of
    // a lower priority. For a plan that counts attempts as ended which are expected to end.
    void start_withheld_by(Time time, const Run& waiting);
    // The queue lends nothing until it has recovered what it lent.
    void claim_back(const std::string& above) { claimed_back_.push_back(above); }
    const Sums& in_use(const std::string& queue) const;  // includes the queues below it
    const Cluster& cluster() const { return cluster_; }

  private:
    struct Withheld {
        Sums demand;
        Time from;  // An unknown time is the latest of all.
        const Run* waiting = nullptr;
    };
    static Sum gpus_of(const Sums& demand) { return amount_of(demand, gpu_key); }
    void add_to_user(const std::string& queue, const std::string& user, std::int64_t runs, Sum gpus);
    std::optional<OverQuota> beyond_user_limit(const std::string& queue, const Sums& demand, const Borrower& who) const;
    std::optional<OverQuota> beyond_limits(const std::string& queue, const Sums& demand, const Borrower& who) const;
    Sum ending(const Withheld& withheld, const std::string& above, const std::string& name, bool borrows) const;
    Sum withheld(const std::string& above, const std::string& name, const Borrower& who, bool borrows) const;
    bool own_beside(const std::map<RunId, Withheld>& others, const std::string& queue, const Withheld& withheld) const;
    Sums ended_by(Time time, const std::string& queue) const;
    Sum reserved_in(const std::string& queue, const std::string& name) const;
    bool claims_back(const std::string& queue) const;
    bool own_at(const std::string& queue, const Sums& demand, Time time) const;
    const std::string& child_towards(const std::string& queue, const std::string& above) const;

    const Cluster& cluster_;
    const Queues& queues_;
    std::map<std::string, Sums> in_use_, reserved_;
    // By queue: what is withheld from those within their own quota, and what is not lent to those beyond it.
    std::map<std::string, std::map<RunId, Withheld>> withheld_, not_lent_;
    std::vector<std::string> claimed_back_;
    bool budgets_count_ = true;
    std::optional<SpentBudgets> own_spent_;                                 // if the cluster's is out of date
    bool limits_users_ = false;                                             // true: some queue has a limit for one user
    std::map<std::pair<std::string, std::string>, UserHold> held_by_user_;  // key: queue and user; with queues below
};
// Marks the queues whose quota is lent to others while they wait below it: nothing more is lent of theirs. A run is
// not counted if no present nodes or no unused quotas could ever hold it.
void claim_lent(Quotas& quotas, Change& change);
void claim_lent(Quotas& quotas, const Cluster& cluster);
Reason reason_of(const OverQuota& over);
Quotas quotas_unused(const Cluster& cluster);  // as if no run held anything
// Returns two checks for runs of the queue: against the quotas `now`, and against unused quotas.
placing::QuotaRoom quota_room(const Quotas& now, const std::string& queue, const Borrower& who);

}  // namespace rtrain::core
