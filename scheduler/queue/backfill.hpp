// The seats that a waiting run can count on, and from when. Inside of the core only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

struct Reservation {
    Seats seats;                   // empty: it could not be held even when all that runs has ended
    std::vector<NodeId> nodes;     // of the seats, by id
    Time from;                     // 0: the time is unknown
    std::vector<AttemptId> after;  // time unknown: the attempts whose ends the seats need, by id
    bool operator==(const Reservation&) const = default;
};
// Where and when the gang starts if nothing else does, beside the reservations that the mask does not open: attempts
// end one after the other, those of unknown end last. With `sooner_than`: only if that is before it, else nothing.
// Without a promise the time is unknown even if all these ends are known.
enum class Promise { of_a_time, none };
Reservation reserve(const Cluster& cluster, ClusterIndex& index, std::uint32_t shape, Time now, ReservationMask open,
                    std::optional<Time> sooner_than = {}, Promise promise = Promise::of_a_time);

// A run that is over before a reservation begins takes nothing from it. Neither does a run of a program that the
// reservation waits for: it ends with the program, which would wait for itself otherwise.
struct Begin {
    Time from;                         // 0: the time is unknown
    std::set<std::string> programs{};  // whose runs, of unknown end, the reservation waits for
    std::set<RunId> drivers{};         // those of the programs that are named after a run
};
Begin begin_of(const Cluster& cluster, const Run& waiting);
bool passes(const Begin& begin, const Run& run, std::optional<Duration> limit, Time now);
ReservationMask closed_to(const Cluster& cluster, const Run& run, Time now);  // the reservations it must leave alone

}  // namespace rtrain::core
