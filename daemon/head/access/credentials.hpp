// The caller of a request is known by a certificate, a bearer token, or the cookie of a browser's session.
#pragma once

#include <optional>
#include <variant>

#include "daemon/head/access/browser_requests.hpp"
#include "daemon/head/access/browser_sessions.hpp"

namespace rtrain::head {

// A stranger shows nothing that opens (401). A barred request has a session that opens, and may have been made by
// another site's page (403).
struct NotAdmitted {
    enum class Why { stranger, barred, other } why = Why::stranger;
    Error error;
};
using Admitted = std::variant<Caller, NotAdmitted>;

class Credentials {
  public:
    Credentials(TokenBook& tokens, BrowserSessions& sessions) : tokens_(tokens), sessions_(sessions) {}
    void name(BrowserRequests requests) { requests_.emplace(std::move(requests)); }  // before the server listens
    const BrowserRequests& browser() const { return *requests_; }

    // A certificate counts before a token, a token before a cookie. From any thread.
    Admitted authenticate(const net::Request& request, std::int64_t wall_ms) const;
    // Does what let this caller in still open? From any thread.
    bool still_opens(const Caller& caller, std::int64_t wall_ms) const;
    bool left(const std::string& node) const { return tokens_.left(node); }

  private:
    TokenBook& tokens_;
    BrowserSessions& sessions_;
    std::optional<BrowserRequests> requests_;
};

}  // namespace rtrain::head
