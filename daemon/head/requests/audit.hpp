// The audit of requests: a row for each requested change, in the transaction of that change. The row of a request that
// changes only files (an upload, a backup) becomes durable before the answer. See storage/state/audit.hpp.
#pragma once

#include <string>

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

// begins the row of a request that changes something; called after the caller was authorised
void begin_audit(Exchange& exchange, const Route& route);
void audit_detail(const Exchange& exchange, const std::string& text);
void drop_audit(const Exchange& exchange);  // drops the row, because the request turned out to change nothing

}  // namespace rtrain::head
