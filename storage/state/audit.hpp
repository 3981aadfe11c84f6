// The audit: who changed what, when, and from where, in the transaction of the change itself. Rows are chained: each
// holds SHA-256 over the hash of the row before it and its own content, so that no row can be changed, taken out or put
// in between. That rows at the end are gone shows against a chain's end that was noted elsewhere (the head's log).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain::state {

struct AuditRow {
    std::uint64_t sequence = 0;  // from 1, without gaps; given by the commit, as is `hash`
    std::int64_t wall_ms = 0;
    std::string user, role;  // of whom it was; role: admin, user, viewer, metrics, node
    std::string credential;  // the id of the token, "run-..." of a run's, "node:NAME" of a certificate; never a secret
    std::string from;        // the address that the request came from
    std::string action;      // "POST /v1/runs/{run}/stop"
    std::string target;      // the path that was asked for, with what its query says
    std::string run;         // the run's id, where the change is about one
    std::string hash;        // 64 lower-case hex digits
    bool operator==(const AuditRow&) const = default;
};

struct AuditEnd {  // the newest row; sequence 0 and an empty hash: there is none
    std::uint64_t sequence = 0;
    std::string hash;
    bool operator==(const AuditEnd&) const = default;
};

// Hex of SHA-256 over: the hash before (empty for the first row), then sequence, wall_ms, user, role, credential, from,
// action, target and run, each as decimal length, ':' and the text; numbers are decimal.
std::string audit_hash(const std::string& before, const AuditRow& row);
// Moves `end` on to `row`, if the row follows it; else: damaged, with the row's number.
Status follow(AuditEnd& end, const AuditRow& row);

}  // namespace rtrain::state
