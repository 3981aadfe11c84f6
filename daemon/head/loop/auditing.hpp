// The audit row of the request that is being answered. It is written in the transaction of the request's change.
#pragma once

#include <memory>
#include <optional>

#include "daemon/head/loop/intake.hpp"

namespace rtrain::head {

// Null: nothing is changed; empty: the row was saved.
using AuditDraft = std::shared_ptr<std::optional<state::AuditRow>>;

// While an object of this class exists, events and saves of the request have its row in their transaction. An empty
// draft is for changes beside the request's own.
class Auditing {
  public:
    Auditing(Intake events, const AuditDraft& draft);
    ~Auditing();
    Auditing(const Auditing&) = delete;
    Auditing& operator=(const Auditing&) = delete;

  private:
    EventLoop& events_;
    std::optional<state::AuditRow>* before_;
    AuditDraft draft_;
};

}  // namespace rtrain::head
