// See gate.hpp.
#include "cmd/dashboard/gate.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/security/security.hpp"

namespace rtrain::cmd {
namespace {

using What = Gate::Verdict::What;

std::string value_of(const net::MessageHead& request, std::string_view name) {
    const auto entry = request.headers.find(name);
    return entry == request.headers.end() ? "" : entry->second;
}

Gate::Verdict refuse(int status, std::string words) {
    return {.what = What::refuse, .status = status, .words = std::move(words)};
}

// The request is a browser's prefetch (`Sec-Purpose: prefetch`). It does not use up the one-time link.
bool prefetches(const net::MessageHead& request) {
    return (value_of(request, "sec-purpose") + value_of(request, "purpose")).find("prefetch") != std::string::npos;
}

}  // namespace

Gate::Gate(std::uint16_t port, std::string link_secret, std::string cookie_secret, std::int64_t now_ms)
    : port_(port),
      link_secret_(std::move(link_secret)),
      cookie_secret_(std::move(cookie_secret)),
      cookie_name_("rtrain-dashboard-" + std::to_string(port)),
      until_ms_(now_ms + link_opens_ms) {}

std::string Gate::set_cookie() const {
    return cookie_name_ + "=" + cookie_secret_ + "; Path=/; HttpOnly; SameSite=Strict";
}

bool Gate::has_cookie(const net::MessageHead& request) const {
    const std::string cookies = value_of(request, "cookie");
    for (std::string_view rest = cookies; !rest.empty();) {
        const std::size_t end = std::min(rest.find_first_of(";,"), rest.size());
        std::string_view pair = rest.substr(0, end);
        rest = end == rest.size() ? std::string_view{} : rest.substr(end + 1);
        while (pair.starts_with(' ')) pair.remove_prefix(1);
        const std::string_view start = pair.substr(0, pair.find('='));
        if (start == cookie_name_ && pair.size() > start.size() &&
            security::equal_constant_time(pair.substr(start.size() + 1), cookie_secret_))
            return true;
    }
    return false;
}

Gate::Verdict Gate::judge_link(const net::MessageHead& request, std::int64_t now_ms) {
    const std::string_view secret = std::string_view(request.target).substr(std::string_view(open_path).size());
    if (request.method != "GET" || prefetches(request)) return refuse(403, "This link is opened by a person.");
    if (!security::equal_constant_time(secret, link_secret_)) return refuse(403, "This link is none of this proxy's.");
    if (has_cookie(request)) return {.what = What::open, .status = 200, .words = ""};
    if (used_) return refuse(403, "This link was used already, and opens one browser. Run: rtrain dashboard");
    if (now_ms >= until_ms_) return refuse(403, "This link was not used for five minutes. Run: rtrain dashboard");
    used_ = true;
    return {.what = What::open, .status = 200, .words = ""};
}

Gate::Verdict Gate::judge(const net::MessageHead& request, std::int64_t now_ms) {
    const std::string host = value_of(request, "host"), page = value_of(request, "origin");
    if (host != "127.0.0.1:" + std::to_string(port_))
        return refuse(403, "This proxy answers at " + origin() + " alone.");
    if (!page.empty() && page != origin()) return refuse(403, "Another site's page may not use this proxy.");
    if (request.target.starts_with(open_path)) return judge_link(request, now_ms);
    const std::string site = value_of(request, "sec-fetch-site");
    if (!site.empty() && site != "same-origin" && site != "none")
        return refuse(403, "Another site's page may not use this proxy.");
    if (request.method != "GET" && request.method != "HEAD" && page.empty())
        return refuse(403, "A request that changes something names its page.");
    if (!has_cookie(request))
        return refuse(401, "This proxy serves the browser that opened its link, and no other. Run: rtrain dashboard");
    return {.what = What::pass, .status = 200, .words = ""};
}

}  // namespace rtrain::cmd
