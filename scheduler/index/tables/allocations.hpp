// The allocations of live attempts, and their sums by queue and by user.
// Invariant: in_use() and user_holds() are the sums over all allocations.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/index/tables/expected_ends.hpp"
#include "scheduler/model/records.hpp"
#include "scheduler/placement/node_holds.hpp"

namespace rtrain {

using QueueUser = std::pair<std::string, std::string>;  // a queue and a user
struct UserHold {                                       // the holdings of one user in one queue
    std::int64_t runs = 0;                              // number of the user's runs with a live attempt
    Sum gpus;
    bool operator==(const UserHold&) const = default;
};

struct Allocation {
    using ByNode = std::map<NodeId, std::pair<Resources, std::vector<GpuShare>>>;
    std::string queue, user;
    Sums total;
    ByNode by_node;
    // key: the node; value: number of workers that hold no resource there
    std::map<NodeId, std::uint32_t> zero_bundles;
    Time end = unknown_end;           // expected end, as far as the records determine it
    ReservationMask ends_before = 0;  // the reservations on the attempt's nodes that expect it to end before they begin
};
// Returns what the attempt holds of each node. Its total is not computed yet.
Allocation allocation_of(const Run& run, const Attempt& attempt);

class Allocations {
  public:
    void add(AttemptId id, Allocation allocation);  // adds the allocation, and computes its total
    void remove(AttemptId id);
    bool contains(AttemptId id) const { return live_.contains(id); }
    Allocation& at(AttemptId live) { return attempts_.at(live); }
    const Allocation& at(AttemptId live) const { return attempts_.at(live); }
    const std::set<AttemptId>& live() const { return live_; }
    const std::map<std::string, Sums>& in_use() const { return in_use_; }  // key: the queue; may have empty sums
    // the holdings of each user with a live attempt
    const std::map<QueueUser, UserHold>& user_holds() const { return user_holds_; }

  private:
    std::set<AttemptId> live_;
    std::map<AttemptId, Allocation> attempts_;
    std::map<std::string, Sums> in_use_;
    std::map<QueueUser, UserHold> user_holds_;
};

}  // namespace rtrain
