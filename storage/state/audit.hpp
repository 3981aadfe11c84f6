// The audit: who changed what, when and from where. A row is written in the transaction of the change itself. Each row
// holds the SHA-256 hash of its own content and of the hash of the row before. So no row can be changed, removed or
// inserted unnoticed. Missing rows at the end are found by comparison with a hash that the head has written to its log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::state {

struct AuditRow {
    std::uint64_t sequence = 0;  // counts from 1 without gaps; the commit sets it, and `hash`
    std::int64_t wall_ms = 0;
    std::string user, role;  // the caller's name and role; role: admin, user, viewer, metrics or node
    // the credential of the caller: a token's id, "run-..." for a run's token, "node:NAME" for a certificate; never a
    // secret
    std::string credential;
    std::string from;    // the address that the request was sent from
    std::string action;  // method and route of the request: "POST /v1/runs/{run}/stop"
    std::string target;  // the requested path, with the parameters of its query
    std::string run;     // id of the run that the change is about; empty: none
    std::string hash;    // audit_hash() of this row and of the hash of the row before: 64 lower-case hex digits
    bool operator==(const AuditRow&) const = default;
};

struct AuditEnd {  // the newest row; sequence 0 and an empty hash if the audit is empty
    std::uint64_t sequence = 0;
    std::string hash;
    bool operator==(const AuditEnd&) const = default;
};

// Returns the SHA-256 hash in hex over: the hash `before` (empty for the first row), then the row's sequence, wall_ms,
// user, role, credential, from, action, target and run. Each of these is written as its decimal length, ':' and the
// text; numbers are decimal.
std::string audit_hash(const std::string& before, const AuditRow& row);
// Sets `end` to `row` if the row follows it in the chain. Otherwise returns `damaged`, with the row's number.
Status follow(AuditEnd& end, const AuditRow& row);

}  // namespace rtrain::state
