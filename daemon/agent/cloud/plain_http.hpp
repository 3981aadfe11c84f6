// A question over HTTP without TLS, to the machine's own cloud: blocking, short, its answer bounded. Not for the
// network.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace rtrain::agent {

struct HttpQuestion {
    std::string host{};  // an address, no name
    std::uint16_t port = 80;
    std::string method = "GET", target{};
    std::map<std::string, std::string> headers{};
    std::int64_t patience_ms = 2'000;  // for all of it
};
struct HttpAnswer {
    int status = 0;
    std::string body;
    bool operator==(const HttpAnswer&) const = default;
};
std::optional<HttpAnswer> fetch_plain_http(const HttpQuestion& question);  // none: no whole answer within the patience
std::optional<HttpAnswer> read_http_answer(const std::string& bytes);  // all that came until the end of the connection

}  // namespace rtrain::agent
