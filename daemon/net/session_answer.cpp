// The outgoing side: answers from memory and from files, streams, the hand-over to a WebSocket. See session.hpp.
#include <cstdio>
#include <utility>

#include "daemon/net/session.hpp"

namespace rtrain::net {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t together_limit = 64u << 10;  // head and body are sent in one write up to this size
constexpr std::size_t chunk_limit = 128u << 10;
constexpr milliseconds goodbye_timeout{2'000};
constexpr milliseconds last_piece_timeout{200};  // for a stream that is cut while a piece is written

bool has_line_break(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos; }
bool may_have_body(int status) { return status >= 200 && status != 204 && status != 304; }

using Headers = std::map<std::string, std::string>;

std::string head_text(const Response& response, const Headers& otherwise, const std::string& body_header,
                      const std::string& content_type) {
    std::string out = "HTTP/1.1 " + std::to_string(response.status) + " ";
    out += reason_phrase(response.status);
    out += "\r\n";
    if (!content_type.empty() && !has_line_break(content_type)) out += "Content-Type: " + content_type + "\r\n";
    for (const auto& [name, value] : response.headers)
        if (!has_line_break(name) && !has_line_break(value)) out += name + ": " + value + "\r\n";
    for (const auto& [name, value] : otherwise)
        if (!response.headers.contains(name)) out += name + ": " + value + "\r\n";
    return out + body_header;
}

}  // namespace

std::string as_chunk(const std::string& data) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return size + data + "\r\n";
}

void Session::write(std::string bytes, Step then) {
    out_ = std::move(bytes);
    writing_ = true;
    watchdog_.within(milliseconds(server_.options.idle_timeout_ms));
    wire_->write(out_.data(), out_.size(), [self = shared_from_this(), then](error_code error) {
        self->writing_ = false;
        if (self->state_ == State::closed) return;
        if (error) return self->close();
        ((*self).*then)();
    });
}

void Session::answer(std::uint64_t exchange, Response response) {
    if (exchange != exchange_ || state_ != State::waiting) return;
    state_ = State::writing;
    // A joining node authenticates with its body, so its request is not counted for its address.
    if (of_stranger_ && parser_->head().method == "POST" && response.status < 300)
        server_.table.give_back_request(ticket_->number);
    response_ = std::move(response);
    if (!response_.file.empty() || response_.opened) return open_file();
    if (response_.pieces) return write_head_of_made();
    write_head(response_, response_.body.size());
}

void Session::write_head(const Response& response, std::uint64_t length) {
    const bool with_body = may_have_body(response.status);
    std::string ending = with_body ? "Content-Length: " + std::to_string(length) + "\r\n" : "";
    if (close_after_) ending += "Connection: close\r\n";
    std::string head =
        head_text(response, server_.options.headers, ending + "\r\n", with_body ? response.content_type : "");
    if (!with_body || parser_->head().method == "HEAD" || length == 0)
        return write(std::move(head), &Session::end_exchange);
    if (file_) return write(std::move(head), &Session::read_file_piece);
    if (length > together_limit) return write(std::move(head), &Session::write_body);
    write(head + response.body, &Session::end_exchange);
}

void Session::write_head_of_made() {
    made_body_ = std::make_shared<MadeBody>(response_);
    std::string ending = "Transfer-Encoding: chunked\r\n";
    if (close_after_) ending += "Connection: close\r\n";
    const Step then = parser_->head().method == "HEAD" ? &Session::end_exchange : &Session::make_piece;
    write(head_text(response_, server_.options.headers, ending + "\r\n", response_.content_type), then);
}

void Session::write_body() { write(std::exchange(response_.body, {}), &Session::end_exchange); }

void Session::end_exchange() {
    drop_file();
    response_ = Response{};
    stream_.reset();
    out_.clear();
    out_.shrink_to_fit();
    if (!close_after_ && !draining_) return begin_exchange();
    if (!parser_->done() && !draining_) return linger();
    state_ = State::linger;
    watchdog_.within(goodbye_timeout);
    if (reading_) return close();  // The TLS close_notify also reads.
    wire_->say_goodbye([self = shared_from_this()](error_code) { self->close(); });
}

void Session::open_stream(std::uint64_t exchange, const std::string& content_type,
                          std::shared_ptr<StreamShared> stream) {
    if (exchange != exchange_ || state_ != State::waiting) return cut_stream(stream);
    state_ = State::streaming;
    stream_ = std::move(stream);
    stream_writing_ = 0;  // The last piece of an earlier stream is still counted.
    std::string ending = "Transfer-Encoding: chunked\r\n";
    if (close_after_) ending += "Connection: close\r\n";
    const Response head{.headers = {{"cache-control", "no-store"}}};
    write(head_text(head, server_.options.headers, ending + "\r\n", content_type), &Session::stream_piece);
    read();  // Only a read shows that the peer has closed the connection.
}

void Session::pump_stream(const std::shared_ptr<StreamShared>& stream) {
    if (stream == stream_ && state_ == State::streaming && !writing_) stream_piece();
}

// Sends all waiting bytes as one chunk, up to a size.
void Session::stream_piece() {
    if (state_ != State::streaming || writing_) return;
    std::string data;
    bool last = false;
    {
        std::lock_guard lock(stream_->mutex);
        stream_->pump_posted = false;
        stream_->waiting_bytes -= std::exchange(stream_writing_, 0);
        while (!stream_->waiting.empty() && data.size() < chunk_limit) {
            data += stream_->waiting.front();
            stream_->waiting.pop_front();
        }
        stream_writing_ = data.size();
        last = stream_->waiting.empty() && stream_->ended;
    }
    if (data.empty() && !last) return watchdog_.never();
    std::string out = data.empty() ? "" : as_chunk(data);
    if (last) {
        out += "0\r\n\r\n";
        release(std::exchange(stream_, nullptr));
        state_ = State::writing;
        return write(std::move(out), &Session::end_exchange);
    }
    write(std::move(out), &Session::stream_piece);
}

void Session::end_stream(const std::shared_ptr<StreamShared>& stream) {
    if (stream != stream_ || state_ != State::streaming) return cut_stream(stream);
    writing_ ? watchdog_.within(last_piece_timeout) : stream_piece();
}

void Session::cut_stream(const std::shared_ptr<StreamShared>& stream) { stream == stream_ ? close() : release(stream); }

// The stream accepts nothing further, and its owner is notified.
void Session::release(std::shared_ptr<StreamShared> stream) {
    if (!stream) return;
    {
        std::lock_guard lock(stream->mutex);
        stream->gone = true;
        stream->waiting.clear();
    }
    server_.loop.post([stream = std::move(stream), alive = server_.alive] {
        if (!*alive || std::exchange(stream->closed_reported, true)) return;
        auto on_closed = std::move(stream->on_closed);
        if (on_closed) on_closed();
    });
}

void Session::open_socket(std::uint64_t exchange, const std::shared_ptr<WebSocket>& socket) {
    if (exchange != exchange_ || state_ != State::waiting) return drop_socket(socket, "the connection broke off");
    state_ = State::closed;
    auto self = shared_from_this();
    watchdog_.stop();
    io_thread_.leave(this);
    accept_socket(socket, *wire_, parser_->head(), std::move(ticket_));
    wire_.reset();
}

}  // namespace rtrain::net
