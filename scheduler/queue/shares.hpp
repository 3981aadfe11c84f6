// Computes the fair share and the quota of each queue, from what its runs hold now and from their past use, which
// decays with a half-life. Used inside of the scheduler's core only.
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

// Computes the use of each queue in relation to its share: the queue's largest fraction of any resource of the cluster,
// in billionths, divided by the share. Past use counts with a decaying weight. The queue with the smallest result is
// next.
class FairShare {
  public:
    FairShare(const Cluster& cluster, const ClusterIndex& index, Time now);
    std::int64_t of(const std::string& queue);
    void count(const std::string& queue, const Sums& demand);  // counts `demand` as if the queue held it already

  private:
    const Queues& queues_;
    const Sums& totals_;
    std::map<std::string, Sums> used_;
    std::map<std::string, std::int64_t> known_;  // cached results of `of`; key: the queue
};

// The refusal of a demand by a quota: which quota, and why.
struct OverQuota {
    std::string queue;  // the queue that has this quota: the run's own queue, or one above it
    std::string resource;
    Sum in_use, requested;
    Amount quota;
    Sum reserved{};  // amount that is kept free for preemptors and for runs with reserved seats; not part of `in_use`
    // The queue that has lent its own quota to others, so that a demand within the quota of a queue below it does not
    // fit. Empty: there is none.
    std::string lender{};
    // true: the parent has idle quota, but a queue that lent its own quota is waiting to get it back
    bool claimed = false;
    bool promised = false;  // true: the quota has an idle amount, which is withheld for runs with reserved seats
    bool of_user = false;   // true: `quota` is the queue's limit for one user, and `resource` is "runs" or "GPU"
    // true: a budget is used up, and `quota` is its GPU hours; with `of_user` it is the user's budget, else the queue's
    bool of_budget = false;
    Duration window{};
    bool lent() const { return !lender.empty(); }
};
// The run for which quota is requested. Three kinds of reservations withhold nothing from it: its own, those that begin
// after its end, and those that wait for the end of the run's own program.
struct Borrower {
    RunId run{};
    std::optional<Time> over_by{};
    const Run* record = nullptr;        // shows which program the run belongs to; null: no program
    const std::string* user = nullptr;  // the user whose limits apply; null: no limits of users apply
    bool has_attempt = false;  // true: the run is already counted among the user's runs, and requests more resources
};
Borrower borrower(const Run& run, Time now);
class Quotas {
  public:
    explicit Quotas(const Cluster& cluster);
    std::optional<OverQuota> refuses(const std::string& queue, const Sums& demand, const Borrower& who = {}) const;
    // Returns true if the queue stays within its own quota when it also holds `demand`.
    bool own(const std::string& queue, const Sums& demand) const;
    bool borrows(const std::string& queue) const;   // true if the queue holds more than its own quota
    bool borrowed(const std::string& queue) const;  // true if the queue, or one above it, holds more than its own quota
    // Returns true if the queue `preemptor` may reclaim quota from runs of the queue `holder`. Two conditions must
    // hold. `holder`, or a queue above it, has borrowed some of the demanded resources from a queue that is also above
    // `preemptor`. With `demand`, the lender's child that contains `preemptor` stays within its own quota.
    bool can_reclaim(const std::string& holder, const std::string& preemptor, const Sums& demand) const;
    bool below(const std::string& queue, const std::string& above) const;
    void count(const std::string& queue, const Sums& demand);
    void uncount(const std::string& queue, const Sums& demand);
    // Adds one run, and the GPUs of its whole attempt (`demand`), to what the run's user holds in its queue.
    // uncount_user() subtracts them.
    void count_user(const Run& run, const Sums& demand) { add_to_user(run.spec.queue, run.user, 1, gpus_of(demand)); }
    void uncount_user(const Run& run, const Sums& demand) {
        add_to_user(run.spec.queue, run.user, -1, Sum{} - gpus_of(demand));
    }
    void forget_users() {
        held_by_user_.clear();
        budgets_count_ = false;
    }
    // Returns the used-up budget that refuses the demand; nullopt if no budget does.
    std::optional<OverQuota> beyond_budget(const std::string& queue, const Sums& demand, const Borrower& who) const;
    // Returns true if a limit for one user refuses runs of this line with this demand. Reads no quota.
    bool limit_keeps_out(const Line& line, const Sums& demand) const;
    // Reserves quota for a preemptor until it starts. No other run may use it.
    void reserve(const std::string& queue, const Sums& demand);
    // Withholds quota for a run with reserved seats until it starts. The run's queue must stay within its own quota,
    // together with what was withheld before. Then no run gets the amount that will be free at the expected start:
    // neither a run of the same queue nor one that borrows. Runs of a higher priority in the same queue still get it.
    void withhold(const Run& run, const Sums& demand);
    // Returns true if quota of the run's own queue is being withheld for the run.
    bool withholds(const Run& run) const;
    void starts(RunId run);
    // For a plan that counts attempts as ended although they still run. Counts the demands of other runs' reservations
    // that begin by `time` as reserved from now on. Leaves out reservations of a lower priority than `waiting`.
    void start_withheld_by(Time time, const Run& waiting);
    // Makes the queue `above` lend nothing until it has recovered what it lent.
    void claim_back(const std::string& above) { claimed_back_.push_back(above); }
    const Sums& in_use(const std::string& queue) const;  // amounts that the queue and the queues below it hold
    const Cluster& cluster() const { return cluster_; }

  private:
    struct Withheld {
        Sums demand;
        Time from;  // begin of the reservation; an unknown begin is later than every known one
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
    // Key: the queue. `withheld_`: kept from runs within their queue's own quota. `not_lent_`: kept from runs whose
    // queue borrows.
    std::map<std::string, std::map<RunId, Withheld>> withheld_, not_lent_;
    std::vector<std::string> claimed_back_;
    bool budgets_count_ = true;
    std::optional<SpentBudgets> own_spent_;  // set if the cluster's own list of used-up budgets is out of date
    bool limits_users_ = false;              // true: some queue has a limit for one user
    // key: the queue and the user; value: what the user holds there and in the queues below
    std::map<std::pair<std::string, std::string>, UserHold> held_by_user_;
};
// Marks each queue whose quota is lent to others while its own runs wait: it lends nothing more. A waiting run is
// ignored if the present nodes, or unused quotas, could never hold it.
void claim_lent(Quotas& quotas, Change& change);
void claim_lent(Quotas& quotas, const Cluster& cluster);
Reason reason_of(const OverQuota& over);
Quotas quotas_unused(const Cluster& cluster);  // the quotas as if no run held anything
// Returns two checks whether the queue's quotas allow a gang. One check uses the quotas `now`, the other one uses the
// quotas as if no run held anything.
placing::QuotaRoom quota_room(const Quotas& now, const std::string& queue, const Borrower& who);

}  // namespace rtrain::core
