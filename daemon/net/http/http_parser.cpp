// See http_parser.hpp.
#include "daemon/net/http/http_parser.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <utility>

namespace rtrain::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using BeastView = boost::beast::string_view;

std::string lower(BeastView text) {
    std::string out(text.data(), text.size());
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

HttpFault fault_of(const error_code& error) {
    if (error == http::error::header_limit)
        return {431, "the request's headers are larger than " + std::to_string(header_limit >> 10) + " KiB"};
    return {400, "malformed HTTP: " + error.message()};
}

}  // namespace

struct HttpParser::Face {
    virtual ~Face() = default;
    virtual std::size_t feed(std::string_view bytes) = 0;
    virtual void end() = 0;
    virtual bool finished() const = 0;
    MessageHead head;
    bool head_done = false;
    std::optional<HttpFault> fault;
};

template <bool is_request>
struct HttpParser::Parser final : HttpParser::Face, http::basic_parser<is_request> {
    using Base = http::basic_parser<is_request>;
    std::function<bool(std::string_view)> body;

    Parser(std::function<bool(std::string_view)> take, Kind kind) : body(std::move(take)) {
        this->header_limit(net::header_limit);
        this->body_limit(boost::none);  // the callback has limits of its own
        if (kind == Kind::answer_to_head) this->skip(true);
    }

    std::size_t feed(std::string_view bytes) override {
        if (fault || bytes.empty() || finished()) return 0;
        error_code error;
        std::size_t used = this->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
        if (error && error != http::error::need_more) fault = fault_of(error);
        return used;
    }
    void end() override {
        if (!this->got_some()) return;  // No message has begun, so none is complete.
        error_code error;
        if (!fault && !finished()) this->put_eof(error);
        if (error) fault = fault_of(error);
    }
    bool finished() const override { return this->is_done(); }

    void on_request_impl(http::verb, BeastView method, BeastView target, int, error_code&) override {
        head.method.assign(method.data(), method.size());
        head.target.assign(target.data(), target.size());
    }
    void on_response_impl(int code, BeastView, int, error_code&) override { head.status = code; }
    void on_field_impl(http::field, BeastView name, BeastView value, error_code&) override {
        auto [at, fresh] = head.headers.emplace(lower(name), std::string(value.data(), value.size()));
        if (!fresh) at->second += ", " + std::string(value.data(), value.size());
    }
    void on_header_impl(error_code&) override {
        head.keep_alive = this->keep_alive();
        head.chunked = this->chunked();
        if (auto length = this->content_length()) head.content_length = *length;
        auto upgrade = head.headers.find("upgrade");
        head.wants_socket = this->upgrade() && head.method == "GET" && upgrade != head.headers.end() &&
                            lower(upgrade->second) == "websocket" && head.headers.contains("sec-websocket-key");
        head_done = true;
    }
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(BeastView piece, error_code& error) override {
        if (!body({piece.data(), piece.size()})) error = http::error::body_limit;
        return piece.size();
    }
    void on_chunk_header_impl(std::uint64_t, BeastView, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, BeastView piece, error_code& error) override {
        return on_body_impl(piece, error);
    }
    void on_finish_impl(error_code&) override {}
};

HttpParser::HttpParser(Kind kind, std::function<bool(std::string_view)> body) {
    if (kind == Kind::request)
        face_ = std::make_unique<Parser<true>>(std::move(body), kind);
    else
        face_ = std::make_unique<Parser<false>>(std::move(body), kind);
}

HttpParser::~HttpParser() = default;

std::size_t HttpParser::put(std::string_view bytes) { return face_->feed(bytes); }
void HttpParser::put_end() { face_->end(); }
bool HttpParser::head_done() const { return face_->head_done; }
bool HttpParser::done() const { return face_->finished(); }
const MessageHead& HttpParser::head() const { return face_->head; }
const std::optional<HttpFault>& HttpParser::fault() const { return face_->fault; }

std::string_view reason_phrase(int status) {
    BeastView text = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
    return {text.data(), text.size()};
}

}  // namespace rtrain::net
