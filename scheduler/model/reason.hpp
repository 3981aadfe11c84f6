// Why a run waits or has ended, why an attempt ended, why a node is out of use, why a checkpoint was requested: values,
// saved as such, and the only thing that is decided by. sentences.cpp makes the text of each at the edge; no code
// compares or searches a text. Whatever takes the variant apart is in reason.cpp: nearly every file sees this class,
// and a compiler makes a function of each alternative for each such operation.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "scheduler/model/reasons.hpp"

namespace rtrain {

class Reason {
  public:
    using Value =
        std::variant<reasons::None, reasons::Text, reasons::NoRoom, reasons::NeverFits, reasons::QuotaFull,
                     reasons::QuotaReclaimed, reasons::AfterRuns, reasons::ArrayLimit, reasons::PredecessorEnded,
                     reasons::StoppedBy, reasons::QueueTime, reasons::WallTime, reasons::FailuresSpent,
                     reasons::FailFast, reasons::StartsFailed, reasons::RankFailed, reasons::RanksSucceeded,
                     reasons::NotPrepared, reasons::EndUnseen, reasons::NodeLost, reasons::NodeLeft,
                     reasons::NodeSmaller, reasons::StopMetric, reasons::GivenUp, reasons::NodeForgot,
                     reasons::RequestedBy, reasons::PreemptedBy, reasons::NodeDrains, reasons::ResizeRequested,
                     reasons::RoomToGrow, reasons::DrainedBy, reasons::Silent, reasons::Quarantined>;

    Reason() = default;
    template <class T>
        requires requires { T::kind; }
    Reason(T what);
    // No constructor: every file that makes a reason would ask whether what it gives converts to the variant.
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

    // Shared, and never changed: a record is copied at each change of it, its reason seldom changes, and the largest
    // alternative would make each run's record an eighth larger. None: null.
    std::shared_ptr<const Value> value_;
};

const char* kind_of(const Reason& reason);  // "no_room"

std::string to_text(const Reason& reason);   // one sentence; of none: empty
std::string to_text(const ExitCause& exit);  // "exit code 3: ValueError: ..."
// Returns the reason with the first line alone of what a job, an agent or a person has said, and with the place in the
// job's files where that follows.
Reason in_brief(const Reason& reason);

// A job's own words (its last error text, the output of its setup) are its user's: others read "(hidden)".
enum class JobWords { shown, hidden };
Reason without_job_words(const Reason& reason);
std::string to_text(const Reason& reason, JobWords words);
// Returns what an agent has said of a job up to the job's own words, which stand behind a bracket or from the second
// line on; "(hidden)" follows where there were any.
std::string without_output(const std::string& text);

}  // namespace rtrain
