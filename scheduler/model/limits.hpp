// Every bound and constant of policy of the core, each with its reason. What a file alone knows of its own algorithm
// (a number of bits, a gap between keys) stays there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/model/ids.hpp"

namespace rtrain::limits {

// ---- the queue ----------------------------------------------------------------------------------------------------
// A run that retries so soon keeps its place against those behind it: a short backoff would cost it its position.
inline constexpr Duration backoff_keeps_place{10'000};
// A preempted run yields its position for so long: longer than a backoff that keeps its place, so that its preemptor
// comes first.
inline constexpr Duration yields_position{15'000};
// Gangs of more than one bundle that have waited so long have a claim, one of each queue at a time: small runs would
// keep a large one out for ever, and many claims at once would empty the cluster.
inline constexpr Duration starves_after{1'800'000};
inline constexpr std::size_t starving_of_each_queue = 1;
// Runs that reserve seats at a time, and of them those that lack something else than those before them: each costs a
// look at every node.
inline constexpr std::size_t reservations_most = 12;
inline constexpr std::size_t heads_most = 4;
// A reservation is looked at anew when a quarter of what it needs was given back at once: not for every small end.
inline constexpr std::int64_t looks_for_a_part_of = 4;
// Cycles for one event: another one follows when a reservation is given up that has kept a run waiting.
inline constexpr int cycles_most = 3;
// Runs of a shape that are passed over in search of a shorter one, which bounds a scheduling cycle over a long queue.
inline constexpr std::size_t too_long_most = 100;

// ---- preemption ---------------------------------------------------------------------------------------------------
// Looks at all nodes for one event: each copies what they have free, so there are fewer in a large cluster.
inline constexpr std::size_t nodes_looked_at = 16'000, looks_least = 4, looks_most = 256;
inline constexpr std::size_t victim_sets_most = 1'000;  // tried in search of the cheapest one

// ---- placement: budgets of searches; each is some tens of milliseconds at most --------------------------------------
inline constexpr std::int64_t device_steps = 100'000;  // to share the devices of one node
inline constexpr std::int64_t fit_steps = 200'000;     // looks at a node for a bundle, unlike bundles
inline constexpr std::size_t exact_bundles = 8;        // beyond these an exact search is not tried
inline constexpr std::size_t exact_nodes = 64;
inline constexpr std::size_t indexed_shapes = 128;      // for which the index of free slots answers
inline constexpr std::size_t masks_remembered = 32;     // of each shape, with their verdicts
inline constexpr std::size_t gains_remembered = 8'192;  // four times the nodes of a large cluster

// Workers of one user on one node that hold no resource. Each is a process of at least some 30 MB, and no amount bounds
// their number. The bound is per user, so that one user's workers take no place from another's.
inline constexpr std::uint32_t zero_bundles_most = 256;

// ---- explanations: a person reads them, and the loop waits for a brief one ------------------------------------------
inline constexpr std::size_t brief_nodes = 256, brief_bundles = 256, brief_unlike = 32, brief_reasons = 3;
inline constexpr std::size_t changes_shown = 2;
inline constexpr std::size_t nodes_tried = 16, labels_tried = 16;
inline constexpr std::size_t bundles_changed = 16;  // of a gang of unlike ones
inline constexpr std::size_t names_shown = 8;

// ---- autoscaling: what is looked at of a long queue; machines for these come first anyway --------------------------
inline constexpr std::size_t autoscaled_runs = 64, autoscaled_bundles = 32'768;

// ---- the life of runs -----------------------------------------------------------------------------------------------
inline constexpr std::uint32_t backoffs_doubled = 32;  // so many failures in a row are looked at for a backoff
// An attempt that ran for so long, or has committed, is followed by the next one at once: it made progress, and a fault
// that comes back will cost a failure each time. Where the job says nothing of its backoff.
inline constexpr Duration progress_after{30'000};
inline constexpr std::size_t avoided_nodes = 8;     // of a run; the oldest blame is forgotten
inline constexpr std::uint32_t failed_starts = 5;   // in a row, before any worker has reported: then the run has failed
inline constexpr std::size_t deletions_most = 10;   // with one commit: a run that goes on under its name may find many
inline constexpr Duration result_repeats{600'000};  // a result written this long ago may have been lost on the way
inline constexpr std::size_t node_failures = 16;    // remembered of a node

}  // namespace rtrain::limits
