// Identifies the caller of a request by a certificate, a bearer token, or the cookie of a browser's session.
#pragma once

#include <optional>
#include <variant>

#include "daemon/head/access/browser_requests.hpp"
#include "daemon/head/access/browser_sessions.hpp"

namespace rtrain::head {

// Why a request is not admitted. `stranger`: it has no valid credential (401). `barred`: it has a valid session, but
// another site's page may have sent it (403).
struct NotAdmitted {
    enum class Why { stranger, barred, other } why = Why::stranger;
    Error error;
};
using Admitted = std::variant<Caller, NotAdmitted>;

class Credentials {
  public:
    Credentials(TokenBook& tokens, BrowserSessions& sessions) : tokens_(tokens), sessions_(sessions) {}
    void name(BrowserRequests requests) { requests_.emplace(std::move(requests)); }  // called before the server listens
    const BrowserRequests& browser() const { return *requests_; }

    // A certificate has priority over a token, and a token over a cookie. Thread-safe.
    Admitted authenticate(const net::Request& request, std::int64_t wall_ms) const;
    // Returns true if the caller's credential is still valid. Thread-safe.
    bool still_opens(const Caller& caller, std::int64_t wall_ms) const;
    bool left(const std::string& node) const { return tokens_.left(node); }

  private:
    TokenBook& tokens_;
    BrowserSessions& sessions_;
    std::optional<BrowserRequests> requests_;
};

}  // namespace rtrain::head
