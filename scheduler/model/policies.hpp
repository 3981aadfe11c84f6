// The policies of a run: retries, retention, elastic size, predecessors; and the requests to it while it runs. Plain
// values inside the records (records.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/reason.hpp"

namespace rtrain {

struct FailurePolicy {
    std::int32_t max_failures = 0;  // failures after which the run fails; -1: no limit
    Duration backoff_first{1'000};
    Duration backoff_last{300'000};
    bool backoff_set = false;  // true: the job sets the backoff, which then applies after progress too
    bool avoid_bad_nodes = true;
    bool fail_fast = false;  // true: the first attempt that fails or is lost ends the run, whatever the cause
    bool operator==(const FailurePolicy&) const = default;
};

struct Retention {
    std::optional<std::uint32_t> num_to_keep;  // number of checkpoints that are kept; nullopt: all
    std::string score_attribute;               // metric by which checkpoints are ranked; empty: the newest are kept
    bool higher_is_better = true;
    // true: if the latest commit is not among the best, it is deleted when the run succeeds
    bool latest_until_success = false;
    bool operator==(const Retention&) const = default;
};

// `scaling.workers: min..max`. The gang of the spec has max equal bundles; an attempt takes the first n of them.
struct Elastic {
    std::uint32_t workers_min = 1;
    Duration grow_after{30'000};  // time for which the capacity must have been free
    bool operator==(const Elastic&) const = default;
};

enum class AfterWhat { succeeded, ended };
const char* to_text(AfterWhat);  // "succeeded", "ended"
std::optional<AfterWhat> after_what(std::string_view);
struct After {  // a predecessor that has not ended yet
    RunId run;
    AfterWhat what = AfterWhat::succeeded;
    bool operator==(const After&) const = default;
};

// A run that may yield is a helper of its owner, `Run::parent` or the session in `Run::program`, and ends with it.
// While it yields, it counts as free for all runs that do not, and ends for any of them that would start by its end.
enum class Yielding { never, paused, active };
const char* to_text(Yielding);  // "never", "paused", "active"
std::optional<Yielding> yielding(std::string_view);

// The reason why a checkpoint is requested from a running attempt. It decides what follows the next commit. operator:
// nothing. resize, drain, preemption: the attempt is stopped and placed anew. stop: the run ends. A later reason
// replaces an earlier one.
enum class RequestReason { by_operator, resize, drain, preemption, stop };
const char* to_text(RequestReason);  // "operator", "resize", ...
std::optional<RequestReason> request_reason(std::string_view);
struct CheckpointRequest {
    RequestReason reason = RequestReason::by_operator;
    Reason why;
    Time asked;
    std::optional<Time> deadline;  // time at which the consequence follows without a commit
    std::uint32_t workers = 0;     // for a resize: the new number of workers
    RunId preemptor{};             // the run that gets the freed resources; 0: no particular run
    bool operator==(const CheckpointRequest&) const = default;
};

// A node is quarantined if attempts of different runs keep failing on it first.
struct QuarantinePolicy {
    // a node is quarantined after this many failures of this many runs; failures = 0: never
    std::uint32_t failures = 3, runs = 2;
    Duration window{3'600'000};
    bool operator==(const QuarantinePolicy&) const = default;
};
struct NodeFailure {  // an attempt that failed on this node first
    AttemptId attempt;
    Time at;
    bool operator==(const NodeFailure&) const = default;
};

}  // namespace rtrain
