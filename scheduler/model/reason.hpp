// The reason why a run waits or has ended, why an attempt ended, why a node is out of use, or why a checkpoint was
// requested. Reasons are stored as values, and decisions read values only. sentences.cpp makes the text for people; no
// code compares or searches a text. Operations on the variant are in reason.cpp: nearly every file includes this class,
// and a compiler generates a function per alternative for each operation.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "scheduler/model/reasons.hpp"

namespace rtrain {

class Reason {
  public:
    using Value = std::variant<
        reasons::None, reasons::Text, reasons::NoRoom, reasons::NeverFits, reasons::QuotaFull, reasons::QuotaReclaimed,
        reasons::AfterRuns, reasons::ArrayLimit, reasons::PredecessorEnded, reasons::StoppedBy, reasons::QueueTime,
        reasons::WallTime, reasons::FailuresSpent, reasons::FailFast, reasons::StartsFailed, reasons::RankFailed,
        reasons::RanksSucceeded, reasons::NotPrepared, reasons::EndUnseen, reasons::NodeLost, reasons::NodeLeft,
        reasons::NodeSmaller, reasons::StopMetric, reasons::GivenUp, reasons::NodeForgot, reasons::RequestedBy,
        reasons::PreemptedBy, reasons::NodeDrains, reasons::ResizeRequested, reasons::RoomToGrow, reasons::DrainedBy,
        reasons::Silent, reasons::Quarantined, reasons::UserLimit, reasons::QueueUserLimit, reasons::NodesLost,
        reasons::BudgetUsed, reasons::YieldedTo, reasons::OwnerEnded>;

    Reason() = default;
    template <class T>
        requires requires { T::kind; }
    Reason(T what);
    // A function, not a constructor: otherwise each file that makes a reason would check the conversion of its argument
    // to the variant.
    static Reason of(Value value);
    bool none() const { return value_ == nullptr; }
    template <class T>
    bool is() const {
        return std::holds_alternative<T>(value());
    }
    const Value& value() const;
    bool operator==(const Reason& other) const { return value_ == other.value_ || same_value(other); }

  private:
    bool same_value(const Reason& other) const;

    // Shared and immutable: a record is copied at each change, but its reason seldom changes. The largest alternative
    // would enlarge each run's record by an eighth. Null: no reason.
    std::shared_ptr<const Value> value_;
};

const char* kind_of(const Reason& reason);  // "no_room"

std::string to_text(const Reason& reason);   // one sentence; empty for no reason
std::string span_text(Duration span);        // "30 days", "36 hours": in the largest unit that divides the span
std::string to_text(const ExitCause& exit);  // "exit code 3: ValueError: ..."
// Returns the reason shortened for a list: of each text of a job, an agent or a person only the first line, and the
// place in the job's files that follows it.
Reason in_brief(const Reason& reason);

// The words of a job itself (its last error text, the output of its setup) belong to its user. Other users read
// "(hidden)".
enum class JobWords { shown, hidden };
Reason without_job_words(const Reason& reason);
std::string to_text(const Reason& reason, JobWords words);
// Returns an agent's text about a job up to the job's own words, which stand in a bracket or from the second line on.
// "(hidden)" replaces them.
std::string without_output(const std::string& text);

}  // namespace rtrain
