// Checks the headers by which a browser reports the origin of a request: the host of the URL, the page that sent it,
// and the session's cookie. Another site's page can send a request, but cannot choose these headers.
#pragma once

#include <set>
#include <string>

#include "base/result.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

class BrowserRequests {
  public:
    // `names` are the head's host names, beside "localhost", "rtrain-head" and every IP address. A foreign page can use
    // the head's address under its own host name (DNS rebinding), but never an address as its name.
    BrowserRequests(std::string cluster_id, std::set<std::string> names);

    // Returns the secret in the session's cookie; empty if the request has none.
    std::string secret_of(const net::Request& request) const;
    // Returns the value of Set-Cookie. The cookie's name contains the cluster's id, since all ports of a host share
    // cookies. An empty secret deletes the cookie.
    std::string cookie(const std::string& secret) const;

    // Returns unauthorised if the request was sent to another host name, or by another site's page.
    Status own_host(const net::Request& request) const;
    // like own_host, and also checks that a page of this head sent the request
    Status own_page(const net::Request& request) const;
    // Checks a request of a session that changes something: the browser must send an origin of this head, and the page
    // must send the CSRF token. Also makes the check of own_page.
    Status own_change(const net::Request& request, const std::string& secret) const;

  private:
    bool knows(std::string_view host) const;
    std::string cookie_name_;
    std::set<std::string> names_;
};

inline constexpr const char* csrf_header = "x-rtrain-csrf";

}  // namespace rtrain::head
