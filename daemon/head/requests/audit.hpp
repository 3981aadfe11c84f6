// The audit of requests: a row for each change that somebody asked for, in the transaction of that change. What changes
// only files (an upload, a backup) has its row made durable before it is answered. See storage/state/audit.hpp.
#pragma once

#include <string>

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

void begin_audit(Exchange& exchange, const Route& route);  // of a change; once the caller was let in
void audit_detail(const Exchange& exchange, const std::string& text);
void drop_audit(const Exchange& exchange);  // the request turned out to change nothing

}  // namespace rtrain::head
