// The audit row of the request that is being answered. It is written in the transaction of the request's change.
#pragma once

#include <memory>
#include <optional>

#include "daemon/head/loop/intake.hpp"

namespace rtrain::head {

// The row that is still to be saved. Null: the request changes nothing. Empty: the row was saved.
using AuditDraft = std::shared_ptr<std::optional<state::AuditRow>>;

// While an object of this class exists, the row is saved in the transaction of the next event or save. An empty draft
// is for changes that are not the request's own.
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
