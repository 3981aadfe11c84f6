// A request over HTTP without TLS, to the metadata server of the machine's cloud alone. The call blocks for a short
// time, and the answer is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace rtrain::agent {

struct HttpQuestion {
    std::string host{};  // an address, not a name
    std::uint16_t port = 80;
    std::string method = "GET", target{};
    std::map<std::string, std::string> headers{};
    std::int64_t patience_ms = 2'000;  // time limit of the whole call
};
struct HttpAnswer {
    int status = 0;
    std::string body;
    bool operator==(const HttpAnswer&) const = default;
};
// Nullopt without a complete answer within the time limit.
std::optional<HttpAnswer> fetch_plain_http(const HttpQuestion& question);
// Parses all bytes up to the end of the connection.
std::optional<HttpAnswer> read_http_answer(const std::string& bytes);

}  // namespace rtrain::agent
