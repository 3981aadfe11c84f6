// Parses HTTP/1 messages in both directions: takes bytes and calls back. Wraps Beast's parser, which is strict and
// fuzzed. Beast is hidden here because it takes long to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::net {

constexpr std::uint32_t header_limit = 64u << 10;

struct MessageHead {
    std::string method, target;                               // for a request
    int status = 0;                                           // for an answer
    std::map<std::string, std::string, std::less<>> headers;  // lower-case names; repeated ones joined by ", "
    bool keep_alive = false;
    bool chunked = false;
    bool wants_socket = false;  // true: a WebSocket upgrade
    std::optional<std::uint64_t> content_length;
    bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct HttpFault {
    int status = 400;
    std::string message;
};

class HttpParser {
  public:
    enum class Kind { request, answer, answer_to_head };
    // `body` is called with each piece. If it returns false, the parser stops and cannot be used further.
    HttpParser(Kind kind, std::function<bool(std::string_view piece)> body);
    ~HttpParser();

    // Consumes bytes from the front and returns their number. Stops once after the head; the caller calls it again.
    std::size_t put(std::string_view bytes);
    void put_end();  // The peer closed the connection, which ends an answer without a length.
    bool head_done() const;
    bool done() const;
    const MessageHead& head() const;
    const std::optional<HttpFault>& fault() const;

  private:
    struct Face;
    template <bool is_request>
    struct Parser;
    std::unique_ptr<Face> face_;
};

std::string_view reason_phrase(int status);

}  // namespace rtrain::net
