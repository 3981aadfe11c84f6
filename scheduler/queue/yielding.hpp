// Finds the yielding runs that must end so that other runs start. It only finds them: lifecycle/yielding.cpp ends them.
// Used inside of the scheduler's core only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "scheduler/placement/node_holds.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

std::vector<AttemptId> yielding_attempts(const Cluster& cluster);  // live ones, including those that are ending

// A run that needs seats, and what its search may use.
struct SeatsWanted {
    const Run& run;
    GangRequest gang;
    Borrower who;
    ReservationMask open = every_reservation;
    const Attempt* own = nullptr;  // an attempt of the run that will have ended by then
};

// The nodes and quotas as they would be after yielding runs have ended. Runs claim seats one after the other.
// Invariant: claimed seats fit on the nodes without the yielding runs that end.
class YieldedRoom {
  public:
    YieldedRoom(const Cluster& cluster, const Quotas& quotas);
    // Returns seats that would be free if all yielding runs had ended; nullopt if there are none, or a quota forbids
    // it.
    std::optional<Seats> seats_for(const SeatsWanted& wanted) const;
    bool fits(const SeatsWanted& wanted, const Seats& seats) const;  // if all yielding runs had ended
    bool within_quota(const SeatsWanted& wanted) const;              // as above
    bool are_free_now(const SeatsWanted& wanted, const Seats& seats) const;
    // Takes the seats. Returns the yielding runs that have to end for them, as few as a greedy search finds.
    std::vector<RunId> claim(const SeatsWanted& wanted, const Seats& seats);
    // Subtracts all claimed seats from the nodes' free amounts.
    void take_claimed(std::vector<NodeView>& nodes) const;
    const Quotas& quotas_with_claims() const { return with_claims_; }  // counts all attempts and all claims
    const Quotas& quotas_without() const { return without_all_; }      // counts no yielding run

  private:
    std::vector<NodeView> nodes_without(const std::set<AttemptId>& ended, const SeatsWanted& wanted) const;
    // Returns the node without closed reservations, since the search for victims needs its free amounts alone.
    NodeView node_without(const std::set<AttemptId>& ended, const NodeId& id, const Attempt* own) const;
    void end(AttemptId id);
    void end_for_seats(const SeatsWanted& wanted, const Seats& seats, std::vector<RunId>& victims);
    void end_for_quota(const SeatsWanted& wanted, std::vector<RunId>& victims);

    const Cluster& cluster_;
    std::set<AttemptId> all_, ended_;  // the yielding attempts, and those of them that are ending
    std::map<NodeId, Held> claimed_;
    Quotas without_all_, without_ended_, with_claims_;
};

}  // namespace rtrain::core
