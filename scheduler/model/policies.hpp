// What a run was allowed and asked for: retries, retention, elastic size, predecessors; and what is asked of it while
// it runs. Plain values inside the records (records.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/reason.hpp"

namespace rtrain {

struct FailurePolicy {
    std::int32_t max_failures = 0;  // -1: without end
    Duration backoff_first{1'000};
    Duration backoff_last{300'000};
    bool backoff_set = false;  // by the job: it holds whatever the attempt had reached
    bool avoid_bad_nodes = true;
    bool fail_fast = false;  // the first attempt that fails or is lost ends the run, whatever the cause
    bool operator==(const FailurePolicy&) const = default;
};

struct Retention {
    std::optional<std::uint32_t> num_to_keep;  // none: all
    std::string score_attribute;               // empty: by age
    bool higher_is_better = true;
    bool latest_until_success = false;  // the latest commit, when not among the best, goes with the run's success
    bool operator==(const Retention&) const = default;
};

// `scaling.workers: min..max`. The gang of the spec has max bundles, whose amounts are alike; an attempt takes the
// first n of them.
struct Elastic {
    std::uint32_t workers_min = 1;
    Duration grow_after{30'000};  // capacity must have been free for so long
    bool operator==(const Elastic&) const = default;
};

enum class AfterWhat { succeeded, ended };
const char* to_text(AfterWhat);  // "succeeded", "ended"
std::optional<AfterWhat> after_what(std::string_view);
struct After {  // a predecessor that is not over yet
    RunId run;
    AfterWhat what = AfterWhat::succeeded;
    bool operator==(const After&) const = default;
};

// Why a running attempt is asked for a checkpoint. What follows its next commit: operator: nothing; resize, drain,
// preemption: the attempt is stopped and placed anew; stop: the run ends. A later reason takes an earlier one's place.
enum class RequestReason { by_operator, resize, drain, preemption, stop };
const char* to_text(RequestReason);  // "operator", "resize", ...
std::optional<RequestReason> request_reason(std::string_view);
struct CheckpointRequest {
    RequestReason reason = RequestReason::by_operator;
    Reason why;
    Time asked;
    std::optional<Time> deadline;  // then what follows happens without a commit
    std::uint32_t workers = 0;     // resize: to how many
    RunId preemptor{};             // who is to have the room that it frees; 0: nobody in particular
    bool operator==(const CheckpointRequest&) const = default;
};

// A node on which attempts of different runs keep failing first is quarantined.
struct QuarantinePolicy {
    std::uint32_t failures = 3, runs = 2;  // so many, of so many runs; failures = 0: never
    Duration window{3'600'000};
    bool operator==(const QuarantinePolicy&) const = default;
};
struct NodeFailure {  // an attempt failed, and this node was the first
    AttemptId attempt;
    Time at;
    bool operator==(const NodeFailure&) const = default;
};

}  // namespace rtrain
