// HTTP/1 messages, bytes in and callbacks out, for both directions. A thin face over Beast's parser, which is strict
// and fuzzed; hidden here because it takes long to compile.
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
    std::string method, target;                               // of a request
    int status = 0;                                           // of an answer
    std::map<std::string, std::string, std::less<>> headers;  // lower-case names; repeated ones joined by ", "
    bool keep_alive = false;
    bool chunked = false;
    bool wants_socket = false;  // a WebSocket upgrade is asked for
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
    // `body` gets each piece; false stops the parser, which is then of no more use.
    HttpParser(Kind kind, std::function<bool(std::string_view piece)> body);
    ~HttpParser();

    // Takes what it can from the front and says how much that was. Stops after the head, once, to be asked again.
    std::size_t put(std::string_view bytes);
    void put_end();  // the peer closed: the end of an answer without a length
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
