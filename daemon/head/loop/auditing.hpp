// The audit row of the request that is answered just now: it goes into the transaction of what the request changes.
#pragma once

#include <memory>
#include <optional>

#include "daemon/head/loop/intake.hpp"

namespace rtrain::head {

using AuditDraft = std::shared_ptr<std::optional<state::AuditRow>>;  // null: nothing is changed; empty: it was saved

// What a request takes, or saves before it is answered, has the request's row in its transaction while one of these is
// there. With an empty draft: what is taken beside the change itself has none.
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
