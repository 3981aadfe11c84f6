// See credentials.hpp.
#include "daemon/head/access/credentials.hpp"

namespace rtrain::head {
namespace {

bool changes(const net::Request& request) { return request.method != "GET" && request.method != "HEAD"; }

}  // namespace

Admitted Credentials::authenticate(const net::Request& request, std::int64_t wall_ms) const {
    using Why = NotAdmitted::Why;
    const std::string secret = requests_->secret_of(request);
    const bool by_cookie =
        !secret.empty() && request.header("authorization").empty() && request.peer.certificate_name.empty();
    if (!by_cookie) {
        auto caller = tokens_.authenticate(request, wall_ms);
        if (!caller) return NotAdmitted{Why::stranger, caller.error()};
        return *caller;
    }
    // The host is checked before the session, so that a foreign page cannot find out whether there is one.
    if (Status page = requests_->own_page(request); !page) return NotAdmitted{Why::barred, page.error()};
    auto caller = sessions_.caller_of(secret, tokens_, wall_ms);
    if (!caller) return NotAdmitted{Why::stranger, caller.error()};
    if (!changes(request)) return *caller;
    if (Status change = requests_->own_change(request, secret); !change)
        return NotAdmitted{Why::barred, change.error()};
    return *caller;
}

bool Credentials::still_opens(const Caller& caller, std::int64_t wall_ms) const {
    return tokens_.still_opens(caller, wall_ms) && (caller.session.empty() || sessions_.lives(caller.session, wall_ms));
}

}  // namespace rtrain::head
