// Computes the seats that a waiting run can count on, and the time from which it can have them. Used inside of the
// scheduler's core only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

struct Reservation {
    Seats seats;                // one seat per worker; empty: the gang would not fit even after all attempts have ended
    std::vector<NodeId> nodes;  // the nodes of the seats, sorted by id
    Time from;                  // expected start; 0: unknown
    // set only if `from` is unknown: the attempts that must end before the seats are free, sorted by id
    std::vector<AttemptId> after;
    bool operator==(const Reservation&) const = default;
};
// Returns the seats and the start of a gang of this shape, assuming that no other run starts first. It may use the
// seats of reservations in `open`, and leaves those of all other reservations free. Attempts are assumed to end in the
// order of their expected ends, those with an unknown end last. Returns a reservation without seats if there is no
// place, or if the start would not be before `sooner_than`. With Promise::none, `from` stays 0 (unknown) even if all
// ends are known.
enum class Promise { of_a_time, none };
Reservation reserve(const Cluster& cluster, ClusterIndex& index, std::uint32_t shape, Time now, ReservationMask open,
                    std::optional<Time> sooner_than = {}, Promise promise = Promise::of_a_time);

// The begin of a reservation. A run may use reserved seats if it ends before the reservation begins. So may a run of a
// program for whose end the reservation waits: the program cannot end before its own runs.
struct Begin {
    Time from;  // expected begin; 0: unknown
    // programs whose end is unknown and for which the reservation waits (see program_of)
    std::set<std::string> programs{};
    std::set<RunId> drivers{};  // for each program named "run-N": the run N, which is its driver
};
Begin begin_of(const Cluster& cluster, const Run& waiting);
bool passes(const Begin& begin, const Run& run, std::optional<Duration> limit, Time now);
// Returns the reservations that the run must leave alone: those of other runs with at least its priority, unless
// passes() permits the run to use them.
ReservationMask closed_to(const Cluster& cluster, const Run& run, Time now);

}  // namespace rtrain::core
