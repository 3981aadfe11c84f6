// Yields the waiting runs in the order in which they are placed. Usage, and so the order, changes while runs are
// placed. Used inside of the scheduler's core only.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/queue/shares.hpp"

namespace rtrain {

// Returns the waiting runs by priority, then fair share, then age. Yielding runs are the last.
std::vector<RunId> queue_order(const Cluster& cluster);

namespace core {

// The reason why a run comes before the others of its queue: it has a reservation, or it is a gang that has waited
// longer than `limits::starves_after`.
enum class Claim { none, reservation, starving };

struct Candidate {  // The run that is placed next.
    const Line* line = nullptr;
    std::uint32_t shape = 0;
    RunId run;
    Claim claim = Claim::none;
};

class Order {
  public:
    enum class Of { all, yielding };
    Order(const ClusterIndex& index, FairShare shares, Time now, Of which = Of::all);
    std::optional<Candidate> next();  // Returns the next run, each run once. Returns nullopt at the end.
    // Leaves out the remaining runs of the candidate's line that have its shape. The candidate is the last one that
    // next() has returned.
    void skip(const Candidate& candidate);

  private:
    struct Open {
        const Line* line = nullptr;
        const ClusterIndex::Batches* batches = nullptr;
        // the oldest run of each shape, with the shape's number; sorted, the oldest of all at the back
        std::vector<std::pair<Waiter, std::uint32_t>> heads;
    };
    void open_priority();
    void add_starving();
    void add_claim(const Line& line, std::uint32_t shape, RunId run, Claim claim);
    std::optional<Candidate> next_by_share();
    // Runs of the current priority that come before all others: first runs that keep their place (they have a
    // reservation, or their retry is due within seconds), then starving gangs. Stored in reverse, so that the next one
    // is at the back.
    std::vector<Candidate> claims_;
    std::set<RunId> seen_;
    // False if the last run that next() returned is certainly the last of its line and shape. Then skip() has nothing
    // to do, and a long queue of unlike runs is not searched for each of them.
    bool others_of_shape_ = true;

    const ClusterIndex& index_;
    FairShare shares_;
    std::vector<RunId> position_holders_;
    Time now_;
    std::map<Line, ClusterIndex::Batches>::const_iterator line_;
    std::vector<Open> lines_;
};

}  // namespace core
}  // namespace rtrain
