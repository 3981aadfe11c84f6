// The headers by which a browser tells where a request comes from: the host that it believes to speak to, whose page
// asked, and the cookie of its session. Another site's page can send a request, but cannot choose these headers.
#pragma once

#include <set>
#include <string>

#include "base/result.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

class BrowserRequests {
  public:
    // `names`: the head's, beside "localhost", "rtrain-head" and every IP address: a stranger's page can have the
    // head's address behind a name of its own (DNS rebinding), but never an address as its name.
    BrowserRequests(std::string cluster_id, std::set<std::string> names);

    // The secret of the session's cookie; empty: the request has none.
    std::string secret_of(const net::Request& request) const;
    // The value of Set-Cookie. The cookie's name has the cluster's id: cookies are shared by all ports of a host. An
    // empty secret takes the cookie away.
    std::string cookie(const std::string& secret) const;

    // Unauthorised: the request was made for another host, or by another site's page.
    Status own_host(const net::Request& request) const;
    Status own_page(const net::Request& request) const;  // own_host too
    // ... of a request that changes something, with a session: a browser names its origin, and the page the CSRF token.
    Status own_change(const net::Request& request, const std::string& secret) const;

  private:
    bool knows(std::string_view host) const;
    std::string cookie_name_;
    std::set<std::string> names_;
};

inline constexpr const char* csrf_header = "x-rtrain-csrf";

}  // namespace rtrain::head
