// The bounds and policy constants of the core, each with its reason. Constants of one algorithm (a number of bits, a
// gap between keys) stay in its file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/model/ids.hpp"

namespace rtrain::limits {

// ---- the queue ----------------------------------------------------------------------------------------------------
// A run that retries within this time keeps its place in the order. Otherwise a short backoff would cost it its
// position.
inline constexpr Duration backoff_keeps_place{10'000};
// A preempted run gives up its position for this time. It is longer than a backoff that keeps its place, so that the
// preemptor comes first.
inline constexpr Duration yields_position{15'000};
// Gangs of more than one bundle that have waited this long have a claim, one per queue at a time. Without claims, small
// runs would keep a large one out for ever. Many claims at once would empty the cluster.
inline constexpr Duration starves_after{1'800'000};
inline constexpr std::size_t starving_of_each_queue = 1;
// The most runs that reserve seats at a time. `heads_most`: the most of them that reserve because they lack another
// resource than all earlier ones. Each reservation costs a search of all nodes.
inline constexpr std::size_t reservations_most = 12;
inline constexpr std::size_t heads_most = 4;
// A reservation is computed anew only if this fraction (1/4) of its demand was released at once, not after each small
// run that ends.
inline constexpr std::int64_t looks_for_a_part_of = 4;
// The most cycles for one event. A further cycle follows if a reservation that kept a run waiting is given up.
inline constexpr int cycles_most = 3;
// The most runs of a shape that are passed over in search of a shorter run. This bounds a scheduling cycle over a long
// queue.
inline constexpr std::size_t too_long_most = 100;

// The most searches of one event for waiting runs that would start if yielding runs ended. Each copies the free
// amounts.
inline constexpr std::size_t yielding_looks_most = 200;

// ---- job arrays ---------------------------------------------------------------------------------------------------
// The most runs of job arrays that one event makes. A longer array is made by several events, so that other users'
// events are decided between them. Long jobs make a slice shorter: each run has a copy of its job.
inline constexpr std::size_t array_slice_runs = 250;
inline constexpr std::size_t array_slice_bytes = 4u << 20;

// ---- preemption ---------------------------------------------------------------------------------------------------
// Searches of the nodes for one event. Each copies the nodes' free amounts, so a large cluster permits fewer.
inline constexpr std::size_t nodes_looked_at = 16'000, looks_least = 4, looks_most = 256;
inline constexpr std::size_t victim_sets_most = 1'000;  // the most sets of victims that are tried

// ---- placement: budgets of searches; each is some tens of milliseconds at most --------------------------------------
// steps per search for a division of one node's devices among bundles
inline constexpr std::int64_t device_steps = 100'000;
// comparisons of a node with a bundle, for gangs whose bundles differ
inline constexpr std::int64_t fit_steps = 200'000;
inline constexpr std::size_t exact_bundles = 8;  // Larger gangs are not searched exhaustively.
inline constexpr std::size_t exact_nodes = 64;
inline constexpr std::size_t indexed_shapes = 128;      // the most shapes in the index of free slots
inline constexpr std::size_t masks_remembered = 32;     // the most masks per shape whose verdicts are kept
inline constexpr std::size_t gains_remembered = 8'192;  // four times the nodes of a large cluster

// The most workers of one user on one node that hold no resource. Each is a process of at least some 30 MB, and no
// amount bounds their number. The bound is per user, so that users do not take each other's places.
inline constexpr std::uint32_t zero_bundles_most = 256;

// ---- explanations: a person reads them, and the loop waits for a brief one ------------------------------------------
inline constexpr std::size_t brief_nodes = 256, brief_bundles = 256, brief_unlike = 32, brief_reasons = 3;
inline constexpr std::size_t changes_shown = 2;
inline constexpr std::size_t nodes_tried = 16, labels_tried = 16;
// the most bundles that a proposed change may alter, in a gang whose bundles differ
inline constexpr std::size_t bundles_changed = 16;
inline constexpr std::int64_t budget_slices = 30;      // a budget's use is known for each thirtieth of its window
inline constexpr std::size_t budget_slices_most = 64;  // more only after changes of the window; the oldest are joined
inline constexpr std::size_t names_shown = 8;

// ---- autoscaling: what is looked at of a long queue; machines for these come first anyway --------------------------
inline constexpr std::size_t autoscaled_runs = 64, autoscaled_bundles = 32'768;

// ---- the life of runs -----------------------------------------------------------------------------------------------
inline constexpr std::uint32_t backoffs_doubled = 32;  // the most failures in a row that a backoff counts
// An attempt that ran this long, or has committed, is followed by the next one at once: it made progress, so a
// recurring fault costs one failure each time. It applies if the job sets no backoff.
inline constexpr Duration progress_after{30'000};
inline constexpr std::size_t avoided_nodes = 8;  // the most nodes that a run avoids; the oldest entry is removed
// After so many failed starts in a row, before any worker has reported, the run fails. A node that is lost during the
// start is a failed start too: the run's `setup` may have taken it down, together with other users' runs.
inline constexpr std::uint32_t failed_starts = 5;
// After so many attempts in a row that lost a node uncounted, in the start or later, the run fails: it may be what ends
// the nodes. An attempt that committed a checkpoint, or ran for `proves_harmless`, begins the series anew.
inline constexpr std::uint32_t losses_in_a_row = 5;
inline constexpr Duration proves_harmless{600'000};
// The most times that one node of an attempt registers without the preparation that it was ordered. An order may be
// lost with its connection. An agent that restarts again and again is likely to be ended by the preparation itself.
inline constexpr std::ptrdiff_t preparations_forgotten = 2;
// the most deletions with one commit; a run that resumes an earlier run's name may find many checkpoints
inline constexpr std::size_t deletions_most = 10;
// A result that was written longer ago than this is written again, because the order may have been lost.
inline constexpr Duration result_repeats{600'000};
inline constexpr std::size_t node_failures = 16;  // the most failures that are stored for a node
// The least wait before the next attempt of a run that failed. The second value holds after `failures_of_series`
// attempts in a row without progress. A run that fails at once would fill the records with its attempts.
inline constexpr Duration backoff_least{100}, backoff_least_in_series{1'000};
inline constexpr std::uint32_t failures_of_series = 32;  // Invariant: failures_of_series <= backoffs_doubled
// The most failures of a run that has `max_failures: -1`, or more. Each failure leaves an attempt, which stays until
// the run is removed.
inline constexpr std::uint32_t failures_most = 100'000;

// ---- causes of failure ----------------------------------------------------------------------------------------------
// The most bytes of one cause. The newest attempts and the first one keep `cause_bytes`. The others keep the first and
// the last bytes of it, as do ranks that failed after another rank.
inline constexpr std::size_t cause_bytes = 256 << 10, cause_bytes_of_older = 4 << 10, cause_bytes_of_old = 256;
inline constexpr std::size_t causes_bytes_of_attempt = 1 << 20;  // the sum over all ranks but the first one that failed
// the same sum, after a later attempt of the run has ended
inline constexpr std::size_t causes_bytes_of_older = 64 << 10;
// Failures of a run that are stored whole however quickly they follow each other. Later ones of an attempt that ran for
// less than `progress_after` are cut: their events stay in the database until they are pruned.
inline constexpr std::uint32_t failures_whole = 16;
inline constexpr std::size_t note_bytes = 4 << 10;       // the most bytes of a cause in the line of an event
inline constexpr std::size_t attempts_with_causes = 32;  // the newest attempts; older ones keep `cause_bytes_of_old`

}  // namespace rtrain::limits
