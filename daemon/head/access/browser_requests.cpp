// See browser_requests.hpp.
#include "daemon/head/access/browser_requests.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/head/access/browser_sessions.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

bool is_port(std::string_view text) {
    return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns the host of "host", "host:7433" or "[::1]:7433" in lower case; empty if the header has another form.
std::string host_of(std::string_view header) {
    std::string_view host = header;
    if (host.starts_with('[')) {
        const std::size_t end = host.find(']');
        if (end == std::string_view::npos) return "";
        const std::string_view rest = host.substr(end + 1);
        if (!rest.empty() && !(rest.front() == ':' && is_port(rest.substr(1)))) return "";
        return lower(host.substr(1, end - 1));
    }
    if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
        if (!is_port(host.substr(colon + 1))) return "";
        host = host.substr(0, colon);
    }
    return lower(host);
}

bool is_address(const std::string& host) {
    in6_addr room{};
    return inet_pton(AF_INET, host.c_str(), &room) == 1 || inet_pton(AF_INET6, host.c_str(), &room) == 1;
}

Error forged(const std::string& message, const std::string& next) { return {ErrorCode::unauthorised, message, next}; }

std::string shown(const std::string& text) { return text.size() > 200 ? text.substr(0, 200) + "..." : text; }

}  // namespace

BrowserRequests::BrowserRequests(std::string cluster_id, std::set<std::string> names)
    : cookie_name_("__Host-rtrain-" + std::move(cluster_id)) {
    for (const std::string& name : names) names_.insert(lower(name));
    names_.insert({"localhost", "rtrain-head"});
}

std::string BrowserRequests::secret_of(const net::Request& request) const {
    const std::string header = request.header("cookie");
    for (std::string_view rest = header; !rest.empty();) {
        // several Cookie headers are joined by ','
        const std::size_t end = std::min(rest.find_first_of(";,"), rest.size());
        std::string_view pair = rest.substr(0, end);
        rest = end == rest.size() ? std::string_view{} : rest.substr(end + 1);
        while (pair.starts_with(' ')) pair.remove_prefix(1);
        while (pair.ends_with(' ')) pair.remove_suffix(1);
        const std::size_t equals = pair.find('=');
        if (equals != std::string_view::npos && pair.substr(0, equals) == cookie_name_)
            return std::string(pair.substr(equals + 1));
    }
    return "";
}

std::string BrowserRequests::cookie(const std::string& secret) const {
    return cookie_name_ + "=" + secret + "; Path=/; Secure; HttpOnly; SameSite=Strict" +
           (secret.empty() ? "; Max-Age=0" : "");
}

bool BrowserRequests::knows(std::string_view host) const {
    const std::string plain(host.ends_with('.') ? host.substr(0, host.size() - 1) : host);
    return !plain.empty() && (names_.contains(plain) || is_address(plain));
}

Status BrowserRequests::own_host(const net::Request& request) const {
    const std::string header = request.header("host");
    if (knows(host_of(header))) return Done{};
    return forged("this head is not called '" + shown(header) + "' (header Host)",
                  "open the page by the head's address, or name it: rtrain head start --page-name NAME");
}

Status BrowserRequests::own_page(const net::Request& request) const {
    if (Status host = own_host(request); !host) return host;
    const std::string origin = request.header("origin"), host = request.header("host");
    if (!origin.empty() && lower(origin) != "https://" + lower(host))
        return forged("a page of '" + shown(origin) + "' may not do this (header Origin)",
                      "use the page of the head itself");
    const std::string site = request.header("sec-fetch-site");
    if (!site.empty() && site != "same-origin" && site != "none")
        return forged("another site's page may not do this (header Sec-Fetch-Site)", "use the page of the head itself");
    return Done{};
}

Status BrowserRequests::own_change(const net::Request& request, const std::string& secret) const {
    if (Status page = own_page(request); !page) return page;
    if (request.header("origin").empty())
        return forged("a browser's request that changes something names its page (header Origin)",
                      "scripts send a token: Authorization: Bearer ...");
    if (!security::equal_constant_time(csrf_token_of(secret), request.header(csrf_header)))
        return forged(std::string("the CSRF token is missing or wrong (header ") + csrf_header + ")",
                      "load the page again; GET /v1/session gives the token");
    return Done{};
}

}  // namespace rtrain::head
