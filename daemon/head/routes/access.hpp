// Who may use a route: the one place that authenticates and authorises.
#pragma once

#include <string>

#include "daemon/head/access/credentials.hpp"
#include "daemon/head/access/ownership.hpp"
#include "daemon/head/routes/matching.hpp"

namespace rtrain::head {

// Before anything else is said about a path: a stranger learns only that he is one.
Admitted admit(const Credentials& credentials, const net::Request& request, const Found& match);
net::Response refusal_of(const NotAdmitted& caller);
// Whether a role may use a route at all; where ownership decides, the least that is needed.
bool role_suffices(const Caller& caller, Access access);
bool allowed(const View& view, const Ownership& ownership, const Caller& caller, const Found& match);
Error forbidden(const Caller& caller, const Route& route);

}  // namespace rtrain::head
