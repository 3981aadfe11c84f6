// The audit of requests: a row for each requested change, in the transaction of that change. The row of a request that
// changes only files (an upload, a backup) becomes durable before the answer. See storage/state/audit.hpp.
#pragma once

#include <string>

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

void begin_audit(Exchange& exchange, const Route& route);  // for a change, once the caller was authorised
void audit_detail(const Exchange& exchange, const std::string& text);
void drop_audit(const Exchange& exchange);  // the request turned out to change nothing

}  // namespace rtrain::head
