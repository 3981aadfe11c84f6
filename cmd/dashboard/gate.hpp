// The gate of the local proxy. It admits only the one browser that opened the one-time link, and only requests of the
// head's own page. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/net/http/http_parser.hpp"

namespace rtrain::cmd {

inline constexpr std::int64_t link_opens_ms = 5 * 60'000;

class Gate {
  public:
    // `link_secret` and `cookie_secret` are random. `now_ms` is a monotonic clock, as in `judge`.
    Gate(std::uint16_t port, std::string link_secret, std::string cookie_secret, std::int64_t now_ms);

    struct Verdict {
        enum class What { pass, open, refuse } what = What::refuse;
        int status = 403;   // HTTP status if the verdict is `refuse`
        std::string words;  // text for a person if the verdict is `refuse`
    };
    Verdict judge(const net::MessageHead& request, std::int64_t now_ms);

    std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }
    std::string link() const { return origin() + open_path + link_secret_; }
    bool link_opens(std::int64_t now_ms) const { return !used_ && now_ms < until_ms_; }
    std::string set_cookie() const;

  private:
    bool has_cookie(const net::MessageHead& request) const;
    Verdict judge_link(const net::MessageHead& request, std::int64_t now_ms);

    static constexpr const char* open_path = "/open/";
    const std::uint16_t port_;
    const std::string link_secret_, cookie_secret_, cookie_name_;
    const std::int64_t until_ms_;
    bool used_ = false;
};

}  // namespace rtrain::cmd
