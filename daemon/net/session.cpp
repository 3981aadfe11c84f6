// The incoming side: handshake, heads, bodies. See session.hpp. Answers are in session_answer.cpp.
#include "daemon/net/session.hpp"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <sys/socket.h>

#include <utility>

#include "daemon/net/http/target.hpp"

namespace rtrain::net {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds handshake_timeout{10'000};
constexpr milliseconds head_timeout{30'000};  // from the first byte of a head to its last
constexpr milliseconds linger_timeout{5'000};
constexpr std::uint64_t linger_limit = 256u << 20;
constexpr std::size_t read_size = 16u << 10;  // bytes of a TLS record
constexpr std::size_t unread_limit = 256u << 10;
constexpr std::string_view plain_http_answer =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "This port speaks HTTPS only: use https://\n";

bool is_plain_http(const error_code& error) {
    return error.category() == asio::error::get_ssl_category() &&
           ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

Response too_large(std::uint64_t limit) {
    return error_response(
        {ErrorCode::full, "the request's body is larger than the limit of " + std::to_string(limit) + " bytes", ""},
        413);
}

}  // namespace

Session::Session(const std::shared_ptr<ServerState>& server, IoThread& io_thread, Tcp socket, const TlsContext& tls,
                 std::string address)
    : server_(*server),
      weak_server_(server),
      io_thread_(io_thread),
      peer_{.address = std::move(address)},
      wire_(std::make_unique<Wire>(std::move(socket), *tls, tls)),
      watchdog_(io_thread.io) {}

Session::~Session() {
    io_thread_.leave(this);
    drop_upload();
    drop_file();
}

void Session::enter(const std::string& address) {
    auto close_later = [server = weak_server_, io_thread = &io_thread_, session = weak_from_this()] {
        const auto alive = server.lock();  // The I/O thread lives as long as this pointer.
        if (!alive) return;
        asio::post(io_thread->io, [session] {
            if (const auto self = session.lock()) self->close();
        });
    };
    ticket_ = std::make_shared<ConnectionTicket>(server_, server_.table.enter(address, std::move(close_later)));
}

void Session::start() {
    if (state_ == State::closed) return;  // It had to make room for another connection before it began.
    io_thread_.join(this);
    watchdog_.within(std::min(handshake_timeout, milliseconds(server_.options.idle_timeout_ms)));
    watchdog_.start(shared_from_this(), [this] { close(); });
    wire_->handshake_as_server([self = shared_from_this()](error_code error) { self->secured(error); });
}

void Session::secured(error_code error) {
    if (state_ != State::handshake) return;
    if (!error) {
        peer_.certificate_name = verified_common_name(wire_->ssl());
        peer_.certificate_serial = verified_serial(wire_->ssl());
        return begin_exchange();
    }
    if (is_plain_http(error))
        (void)::send(wire_->tls().next_layer().native_handle(), plain_http_answer.data(), plain_http_answer.size(),
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (std::string why = refused_certificate(wire_->ssl()); !why.empty())
        server_.note_refusal(peer_.address, "its client certificate is not accepted: " + why);
    close();
}

void Session::begin_exchange() {
    if (draining_) return close();
    state_ = State::head;
    ++exchange_;
    parser_ = std::make_unique<HttpParser>(HttpParser::Kind::request,
                                           [this](std::string_view piece) { return take_body(piece); });
    request_ = Request{.peer = peer_};
    body_fault_.reset();
    body_bytes_ = 0;
    server_.table.release_bytes(ticket_->number);
    watchdog_.within(milliseconds(server_.options.idle_timeout_ms));
    parse();
}

void Session::read() {
    if (std::exchange(reading_, true)) return;
    inbox_.resize(read_size);
    wire_->read_some(inbox_.data(), read_size, [self = shared_from_this()](error_code error, std::size_t n) {
        self->reading_ = false;
        if (!error) self->in_.append(self->inbox_, 0, n);
        self->arrived(error, n);
    });
}

void Session::arrived(error_code error, std::size_t bytes) {
    if (state_ == State::closed) return;
    if (error) return close();
    switch (state_) {
        case State::head:
            if (!server_.table.may_hold(ticket_->number, bytes)) return close();
            if (in_.size() == bytes)  // the first bytes of a head
                watchdog_.within(std::min(head_timeout, milliseconds(server_.options.idle_timeout_ms)));
            return parse();
        case State::body:
            watchdog_.within(milliseconds(server_.options.idle_timeout_ms));
            return parse();
        case State::streaming:
            return in_.size() < unread_limit ? read() : close();
        case State::linger:
            in_.clear();
            lingered_bytes_ += bytes;
            return lingered_bytes_ < linger_limit ? read() : close();
        case State::handshake:
        case State::disk:
        case State::waiting:
        case State::writing:
        case State::closed:
            return;
    }
}

void Session::parse() {
    while (state_ == State::head || state_ == State::body) {
        const bool had_head = parser_->head_done();
        const std::size_t used = parser_->put(in_);
        in_.erase(0, used);
        if (parser_->fault()) {
            if (body_fault_) return refuse(*body_fault_);
            const HttpFault fault = *parser_->fault();
            return refuse(error_response({ErrorCode::usage, fault.message, ""}, fault.status));
        }
        if (!had_head && parser_->head_done()) {
            on_head_parsed();
            if (writing_) return;
            continue;
        }
        if (had_head && parser_->done()) return upload_ ? finish_upload() : dispatch();
        if (used > 0 && !in_.empty()) continue;
        if (in_.size() > unread_limit)
            return refuse(error_response({ErrorCode::usage, "malformed HTTP: a part that is too long", ""}, 400));
        return upload_ ? read_upload() : read();
    }
}

void Session::on_head_parsed() {
    const MessageHead& head = parser_->head();
    request_.method = head.method;
    request_.headers = head.headers;
    close_after_ = !head.keep_alive;
    Result<Target> target = parse_target(head.target);
    if (!target) return refuse(error_response(target.error(), 400));
    request_.path = std::move(target->path);
    request_.query = std::move(target->query);
    if (!admit()) return;
    if (head.wants_socket) {
        if (head.has_body() || !in_.empty())
            return refuse(error_response({ErrorCode::usage, "a WebSocket upgrade has no body", ""}, 400));
        if (reading_)  // The socket would be handed over in the middle of a read.
            return refuse(error_response(
                {ErrorCode::usage, "a WebSocket upgrade came before the answer to the request before it", ""}, 400));
        return dispatch();
    }
    if (!request_.body_file.empty()) return open_upload();
    if (!fits()) return;
    state_ = State::body;
    if (head.has_body() && request_.header("expect") == "100-continue" && in_.empty())
        return write("HTTP/1.1 100 Continue\r\n\r\n", &Session::parse);
}

// Requests the decision about the request, and counts the request for its caller or its address.
bool Session::admit() {
    Admission admission;
    if (server_.options.admit)
        admission = server_.options.admit(request_);
    else
        admission = {.caller = peer_.certificate_name.empty() ? "anybody" : peer_.certificate_name,
                     .room = Room::reserved};
    const auto now = ConnectionTable::Clock::now();
    of_stranger_ = admission.caller.empty();
    if (!of_stranger_ && !server_.table.belongs_to(ticket_->number, admission.caller, admission.room))
        return too_many("connections"), false;
    if (!server_.table.may_request(ticket_->number, now)) return too_many("requests"), false;
    if (admission.refusal) return refuse(std::move(*admission.refusal)), false;
    server_.table.release_bytes(ticket_->number);  // the bytes of the head
    body_limit_ = std::min(server_.options.body_limit, admission.body_limit);
    request_.body_file = std::move(admission.body_file);
    request_.held = std::move(admission.held);
    may_write_ = std::move(admission.may_write);
    return true;
}

void Session::too_many(const char* what) {
    close_after_ = true;
    const std::string whose = of_stranger_ ? "this address" : "this user or certificate";
    Response refusal = error_response(
        {ErrorCode::full, whose + " has too many " + what + " at the moment", "try again in a second"}, 429);
    refusal.headers["Retry-After"] = "1";
    refuse(std::move(refusal));
}

bool Session::fits() {
    const std::uint64_t length = parser_->head().content_length.value_or(0);
    if (length <= body_limit_) return true;
    refuse(too_large(body_limit_));
    return false;
}

bool Session::take_body(std::string_view piece) {
    body_bytes_ += piece.size();
    if (upload_) {
        to_write_ += piece;
        return true;
    }
    if (body_bytes_ > body_limit_) {
        body_fault_ = too_large(body_limit_);
        return false;
    }
    if (!server_.table.may_hold(ticket_->number, piece.size())) {
        close_after_ = true;
        body_fault_ = error_response(
            {ErrorCode::full, "too many bytes of requests are being read for this caller", "try again in a second"},
            429);
        return false;
    }
    request_.body += piece;
    return true;
}

void Session::refuse(Response refusal) {
    drop_upload();
    close_after_ = close_after_ || !parser_->done();
    state_ = State::waiting;
    answer(exchange_, std::move(refusal));
}

void Session::dispatch() {
    state_ = State::waiting;
    watchdog_.never();
    std::shared_ptr<ServerState> server = weak_server_.lock();
    if (!server) return close();
    auto responder =
        make_responder(server, io_thread_, weak_from_this(), exchange_, peer_, parser_->head().wants_socket);
    server->loop.post([server, responder = std::move(responder), request = std::move(request_)]() mutable {
        if (auto handler = server->handler)
            (*handler)(std::move(request), std::move(responder));
        else if (!request.body_file.empty())
            server->files.add("", [path = request.body_file] { remove_file(path); });
    });
}

void Session::linger() {
    state_ = State::linger;
    watchdog_.within(linger_timeout);
    in_.clear();
    wire_->end_sending();
    read();
}

void Session::drain() {
    draining_ = true;
    if (state_ == State::streaming) {
        std::lock_guard lock(stream_->mutex);
        stream_->ended = true;
        close_after_ = true;
        if (!writing_) asio::post(io_thread_.io, [self = shared_from_this()] { self->stream_piece(); });
        return;
    }
    if (state_ != State::writing) close();
    close_after_ = true;
}

void Session::close() {
    const State before = std::exchange(state_, State::closed);
    if (before == State::closed) return;
    auto self = shared_from_this();  // The watchdog may be the last owner.
    watchdog_.stop();
    release(std::exchange(stream_, nullptr));
    // The reader of the stream does not keep up.
    if (wire_ && before == State::streaming && writing_) wire_->drop_unsent();
    if (wire_) wire_->close();
    drop_upload();
    drop_file();
    ticket_.reset();
    io_thread_.leave(this);
}

}  // namespace rtrain::net
