// The seats that a waiting run can count on, and their time. Used inside of the core only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

struct Reservation {
    Seats seats;                   // empty: the gang could not be placed even after all attempts have ended
    std::vector<NodeId> nodes;     // the nodes of the seats, sorted by id
    Time from;                     // 0: the time is unknown
    std::vector<AttemptId> after;  // for an unknown time: the attempts whose ends the seats need, sorted by id
    bool operator==(const Reservation&) const = default;
};
// Returns where and when the gang starts if no other run starts, beside the reservations that the mask does not open.
// Attempts end one after the other, those of unknown end last. With `sooner_than`, returns nothing unless the start is
// before it. Without a promise the time is unknown even if all these ends are known.
enum class Promise { of_a_time, none };
Reservation reserve(const Cluster& cluster, ClusterIndex& index, std::uint32_t shape, Time now, ReservationMask open,
                    std::optional<Time> sooner_than = {}, Promise promise = Promise::of_a_time);

// A run that ends before a reservation begins takes nothing from it. The same holds for a run of a program that the
// reservation waits for: it ends with the program, which would otherwise wait for itself.
struct Begin {
    Time from;                         // 0: the time is unknown
    std::set<std::string> programs{};  // programs with unknown end whose runs the reservation waits for
    std::set<RunId> drivers{};         // the drivers' runs of programs that are named after a run
};
Begin begin_of(const Cluster& cluster, const Run& waiting);
bool passes(const Begin& begin, const Run& run, std::optional<Duration> limit, Time now);
// Returns the reservations that the run must leave alone.
ReservationMask closed_to(const Cluster& cluster, const Run& run, Time now);

}  // namespace rtrain::core
