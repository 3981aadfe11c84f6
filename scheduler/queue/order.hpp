// The order of the waiting runs, one after the other, while some of them are being placed. Inside of the core only.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/queue/shares.hpp"

namespace rtrain {

std::vector<RunId> queue_order(const Cluster& cluster);  // waiting runs: priority, then fair share, then age

namespace core {

// Why a run comes before the others of its queue: it has reserved nodes; it is a gang that has waited long.
enum class Claim { none, reservation, starving };

struct Candidate {  // the run that is looked at next
    const Line* line = nullptr;
    std::uint32_t shape = 0;
    RunId run;
    Claim claim = Claim::none;
};

class Order {
  public:
    Order(const ClusterIndex& index, FairShare shares, Time now);
    std::optional<Candidate> next();        // each run once
    void skip(const Candidate& candidate);  // the rest of its line that has the same shape

  private:
    struct Open {
        const Line* line = nullptr;
        const ClusterIndex::Batches* batches = nullptr;
        std::vector<std::pair<Waiter, std::uint32_t>> heads;  // the oldest of each shape, the oldest of all at the back
    };
    void open_priority();
    void add_starving();
    void add_claim(const Line& line, std::uint32_t shape, RunId run, Claim claim);
    std::optional<Candidate> next_by_share();
    std::vector<Candidate> claims_;  // of this priority: those that keep their place come first, the oldest at the back
    std::set<RunId> seen_;

    const ClusterIndex& index_;
    FairShare shares_;
    std::vector<RunId> position_holders_;
    Time now_;
    std::map<Line, ClusterIndex::Batches>::const_iterator line_;
    std::vector<Open> lines_;
};

}  // namespace core
}  // namespace rtrain
