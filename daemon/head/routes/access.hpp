// Decides which callers may use a route. Only this file authenticates and authorises.
#pragma once

#include <string>

#include "daemon/head/access/credentials.hpp"
#include "daemon/head/access/ownership.hpp"
#include "daemon/head/routes/matching.hpp"

namespace rtrain::head {

// Authenticates the caller before the path is looked at, so that a stranger learns nothing from the path.
Admitted admit(const Credentials& credentials, const net::Request& request, const Found& match);
net::Response refusal_of(const NotAdmitted& caller);
// Returns true if a role may use a route at all. Where ownership decides, this is only the first check.
bool role_suffices(const Caller& caller, Access access);
bool allowed(const View& view, const Ownership& ownership, const Caller& caller, const Found& match);
Error forbidden(const Caller& caller, const Route& route);

}  // namespace rtrain::head
