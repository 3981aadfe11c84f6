// The blocking client. Each step is an asynchronous operation on a private io_context, which runs until the step is
// done, its deadline has passed, or abort() was called. See client.hpp.
#include "daemon/net/client.hpp"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "daemon/net/client/call_body.hpp"
#include "daemon/net/client/connecting.hpp"
#include "daemon/net/http/http_parser.hpp"

namespace rtrain::net {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t read_size = 64u << 10;
constexpr std::size_t together_limit = 64u << 10;
constexpr std::uint64_t expect_continue_above = 1u << 20;  // larger bodies wait for "100 Continue"

bool idempotent(const std::string& method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" || method == "OPTIONS";
}

bool is_token(const std::string& text) {
    for (unsigned char c : text)
        if (c <= ' ' || c >= 0x7f || c == ':') return false;
    return !text.empty();
}

Status check(const Call& call) {
    bool fits = is_token(call.method) && call.target.starts_with('/');
    for (unsigned char c : call.target) fits = fits && c > ' ' && c < 0x7f;
    for (const auto& [name, value] : call.headers)
        fits = fits && is_token(name) && value.find_first_of("\r\n") == std::string::npos;
    if (fits) return Done{};
    return Error{ErrorCode::usage,
                 "the request " + call.method + " " + call.target +
                     " cannot be sent: its target or a header has characters that must be encoded",
                 ""};
}

std::string head_text(const Endpoint& endpoint, const Call& call, std::uint64_t length) {
    std::string out = call.method + " " + call.target + " HTTP/1.1\r\nUser-Agent: rtrain/" RTRAIN_VERSION "\r\n";
    if (!call.headers.contains("host")) out += "Host: " + where_text(endpoint) + "\r\n";
    if (!endpoint.bearer.empty()) out += "Authorization: Bearer " + endpoint.bearer + "\r\n";
    if (length > 0 || call.method == "PUT" || call.method == "POST")
        out += "Content-Length: " + std::to_string(length) + "\r\n";
    if (length > expect_continue_above) out += "Expect: 100-continue\r\n";
    for (const auto& [name, value] : call.headers) out += name + ": " + value + "\r\n";
    return out + "\r\n";
}

}  // namespace

struct Client::Body {
    explicit Body(Endpoint to) : endpoint(std::move(to)) {}
    ~Body() { disconnect(); }

    const Endpoint endpoint;
    asio::io_context io{1};
    std::shared_ptr<Wire> wire;
    std::string in, inbox;
    std::atomic<bool> aborted = false;
    bool answer_begun = false;

    Result<Response> call(const Call& call);
    Status connect();
    Result<Response> exchange(const Call& call);
    Status send(const Call& call, SentBody& body, AnswerBody& answer);
    Status send_body(const Call& call, SentBody& body);
    Status read_head(HttpParser& parser);
    Status read_rest(HttpParser& parser, const AnswerBody& answer, const Call& call);
    Result<std::size_t> more(Clock::time_point deadline);
    Status write(const std::string& bytes);
    Status wait(const bool& done, Clock::time_point deadline);
    Clock::time_point answer_deadline() const {
        return Clock::now() + std::chrono::milliseconds(endpoint.answer_timeout_ms);
    }
    bool stale() const;
    void disconnect() {
        if (auto gone = std::exchange(wire, nullptr)) gone->close();
        in.clear();
    }
    std::unique_ptr<HttpParser> parser;
};

// Runs the io_context until `done`. After an error an operation may still be pending: the caller closes the connection
// and lets it end.
Status Client::Body::wait(const bool& done, Clock::time_point deadline) {
    while (!done) {
        io.restart();
        if (aborted.exchange(false))
            return Error{ErrorCode::io, "the call to " + where_text(endpoint) + " was aborted", ""};
        if (io.run_one_until(deadline) == 0 && !done && Clock::now() >= deadline)
            return Error{ErrorCode::unreachable,
                         where_text(endpoint) + " did not answer in time (" +
                             std::to_string(endpoint.answer_timeout_ms / 1'000) + " s)",
                         "rtrain head status"};
    }
    return Done{};
}

Status Client::Body::connect() {
    bool done = false;
    Status outcome = Done{};
    auto connecting = std::make_shared<Connecting>(io, endpoint, [&](Result<std::shared_ptr<Wire>> result) {
        done = true;
        if (result)
            wire = std::move(*result);
        else
            outcome = result.error();
    });
    connecting->start();
    const auto far = Clock::now() + std::chrono::milliseconds(endpoint.connect_timeout_ms) + std::chrono::seconds(1);
    if (Status waited = wait(done, far); !waited) {
        connecting->cancel();
        while (!done) io.restart(), io.run_one();
        disconnect();
        return waited;
    }
    return outcome;
}

Status Client::Body::write(const std::string& bytes) {
    bool done = false;
    error_code failed;
    wire->write(bytes.data(), bytes.size(), [&](error_code error) {
        failed = error;
        done = true;
    });
    if (Status waited = wait(done, answer_deadline()); !waited) {
        wire->close();
        while (!done) io.restart(), io.run_one();
        return waited;
    }
    if (failed) return broken(endpoint, "sending a request", failed);
    return Done{};
}

// Reads into `in`. Returns 0 at the end of the connection.
Result<std::size_t> Client::Body::more(Clock::time_point deadline) {
    bool done = false;
    error_code failed;
    std::size_t got = 0;
    inbox.resize(read_size);
    wire->read_some(inbox.data(), inbox.size(), [&](error_code error, std::size_t bytes) {
        failed = error;
        got = bytes;
        done = true;
    });
    if (Status waited = wait(done, deadline); !waited) {
        wire->close();
        while (!done) io.restart(), io.run_one();
        return waited.error();
    }
    if (failed == asio::error::eof) return std::size_t{0};
    if (failed) return broken(endpoint, "answering", failed);
    in.append(inbox, 0, got);
    answer_begun = true;
    return got;
}

Status Client::Body::read_head(HttpParser& to) {
    const auto deadline = answer_deadline();
    while (!to.head_done()) {
        in.erase(0, to.put(in));
        if (to.fault()) return Error{ErrorCode::unreachable, where_text(endpoint) + ": " + to.fault()->message, ""};
        if (to.head_done()) break;
        Result<std::size_t> got = more(deadline);
        if (!got) return got.error();
        if (*got == 0) return broken(endpoint, "answering", asio::error::eof);
    }
    return Done{};
}

Status Client::Body::read_rest(HttpParser& to, const AnswerBody& answer, const Call& call) {
    while (!to.done()) {
        const std::size_t used = to.put(in);
        in.erase(0, used);
        if (answer.stopped()) return answer.failure() ? Status(*answer.failure()) : Status(Done{});
        if (to.fault()) return Error{ErrorCode::unreachable, where_text(endpoint) + ": " + to.fault()->message, ""};
        if (to.done()) break;
        if (used > 0 && !in.empty()) continue;
        Result<std::size_t> got = more(call.on_piece ? Clock::time_point::max() : answer_deadline());
        if (!got) return got.error();
        if (*got > 0) continue;
        to.put_end();
        if (!to.done()) return broken(endpoint, "answering", asio::error::eof);
    }
    return Done{};
}

Status Client::Body::send_body(const Call& call, SentBody& body) {
    std::uint64_t sent = 0;
    while (sent < body.length()) {
        Result<std::string> piece = body.next();
        if (!piece) return piece.error();
        if (Status written = write(*piece); !written) return written;
        sent += piece->size();
        if (call.on_progress) call.on_progress(sent, body.length());
    }
    return Done{};
}

// Reads the answer into `parser`, which may contain its head already.
Status Client::Body::send(const Call& call, SentBody& body, AnswerBody& answer) {
    const auto kind = call.method == "HEAD" ? HttpParser::Kind::answer_to_head : HttpParser::Kind::answer;
    auto fresh = [&] {
        parser = std::make_unique<HttpParser>(
            kind, [this, &answer](std::string_view piece) { return answer.take(parser->head().status, piece); });
    };
    fresh();
    std::string head = head_text(endpoint, call, body.length());
    if (body.length() <= together_limit) {
        Result<std::string> all = body.next();
        if (!all) return all.error();
        Status written = write(head + *all);
        if (written && call.on_progress && body.length() > 0) call.on_progress(body.length(), body.length());
        return written;
    }
    if (Status written = write(head); !written) return written;
    if (body.length() > expect_continue_above) {
        if (Status came = read_head(*parser); !came) return came;
        if (parser->head().status != 100) return Done{};  // The server refuses: the body is not sent.
        fresh();
    }
    Status sent = send_body(call, body);
    // A peer that refuses in the middle of a body answers and closes. Its answer is more useful than "broken pipe".
    if (!sent && sent.error().code == ErrorCode::unreachable && wire && read_head(*parser)) return Done{};
    return sent;
}

Result<Response> Client::Body::exchange(const Call& call) {
    answer_begun = false;
    Result<SentBody> body = SentBody::open(call);
    if (!body) return body.error();
    AnswerBody answer(call);
    if (Status sent = send(call, *body, answer); !sent) return sent.error();
    if (Status came = read_head(*parser); !came) return came.error();
    while (parser->head().status < 200) {  // an interim answer
        parser = std::make_unique<HttpParser>(HttpParser::Kind::answer, [this, &answer](std::string_view piece) {
            return answer.take(parser->head().status, piece);
        });
        if (Status came = read_head(*parser); !came) return came.error();
    }
    if (call.on_head) call.on_head(response_of(parser->head()));
    if (Status begun = answer.begin(parser->head()); !begun) return begun.error();
    if (Status came = read_rest(*parser, answer, call); !came) return came.error();
    const bool reusable = parser->done() && parser->head().keep_alive && in.empty();
    Result<Response> response = answer.finish(parser->head());
    if (!reusable) disconnect();
    return response;
}

// The peer closed the connection while it was idle, or sent bytes that were not requested.
bool Client::Body::stale() const {
    char byte = 0;
    const ssize_t seen = ::recv(wire->tls().next_layer().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return seen >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

Result<Response> Client::Body::call(const Call& call) {
    if (Status fits = check(call); !fits) return fits.error();
    if (wire && stale()) disconnect();
    const bool reused = wire != nullptr;
    if (!reused)
        if (Status connected = connect(); !connected) return connected.error();
    Result<Response> response = exchange(call);
    if (response) return response;
    disconnect();
    const bool again =
        reused && !answer_begun && idempotent(call.method) && response.error().code == ErrorCode::unreachable;
    if (!again) return response;
    if (Status connected = connect(); !connected) return connected.error();
    response = exchange(call);
    if (!response) disconnect();
    return response;
}

Client::Client(Endpoint endpoint) : body_(std::make_unique<Body>(std::move(endpoint))) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

Result<Response> Client::call(const Call& call) { return body_->call(call); }

void Client::abort() {
    body_->aborted = true;
    asio::post(body_->io, [] {});
}

}  // namespace rtrain::net
