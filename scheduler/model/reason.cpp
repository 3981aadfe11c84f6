// The operations of a Reason's variant, compiled once.
#include "scheduler/model/reason.hpp"

#include <type_traits>
#include <utility>

namespace rtrain {

Reason Reason::of(Value value) {
    Reason reason;
    if (value.index() != 0) reason.value_ = std::make_shared<const Value>(std::move(value));
    return reason;
}

template <class T>
    requires requires { T::kind; }
Reason::Reason(T what) {
    if constexpr (!std::is_same_v<T, reasons::None>) value_ = std::make_shared<const Value>(std::move(what));
}

const Reason::Value& Reason::value() const {
    static const Value nothing;
    return value_ ? *value_ : nothing;
}

bool Reason::same_value(const Reason& other) const { return value() == other.value(); }

template Reason::Reason(reasons::None);
template Reason::Reason(reasons::Text);
template Reason::Reason(reasons::NoRoom);
template Reason::Reason(reasons::NeverFits);
template Reason::Reason(reasons::QuotaFull);
template Reason::Reason(reasons::QuotaReclaimed);
template Reason::Reason(reasons::QueueUserLimit);
template Reason::Reason(reasons::BudgetUsed);
template Reason::Reason(reasons::AfterRuns);
template Reason::Reason(reasons::ArrayLimit);
template Reason::Reason(reasons::PredecessorEnded);
template Reason::Reason(reasons::StoppedBy);
template Reason::Reason(reasons::QueueTime);
template Reason::Reason(reasons::WallTime);
template Reason::Reason(reasons::FailuresSpent);
template Reason::Reason(reasons::FailFast);
template Reason::Reason(reasons::UserLimit);
template Reason::Reason(reasons::StartsFailed);
template Reason::Reason(reasons::NodesLost);
template Reason::Reason(reasons::RankFailed);
template Reason::Reason(reasons::RanksSucceeded);
template Reason::Reason(reasons::NotPrepared);
template Reason::Reason(reasons::EndUnseen);
template Reason::Reason(reasons::NodeLost);
template Reason::Reason(reasons::NodeLeft);
template Reason::Reason(reasons::NodeSmaller);
template Reason::Reason(reasons::StopMetric);
template Reason::Reason(reasons::GivenUp);
template Reason::Reason(reasons::NodeForgot);
template Reason::Reason(reasons::RequestedBy);
template Reason::Reason(reasons::PreemptedBy);
template Reason::Reason(reasons::YieldedTo);
template Reason::Reason(reasons::OwnerEnded);
template Reason::Reason(reasons::NodeDrains);
template Reason::Reason(reasons::ResizeRequested);
template Reason::Reason(reasons::RoomToGrow);
template Reason::Reason(reasons::DrainedBy);
template Reason::Reason(reasons::Silent);
template Reason::Reason(reasons::Quarantined);

}  // namespace rtrain
