// See local_proxy.hpp. Uses one thread per connection: a browser opens six.
#include "cmd/dashboard/local_proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.hpp"
#include "cmd/dashboard/peer_user.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::size_t connections_most = 64;
constexpr std::size_t body_most = 8u << 20;
constexpr int idle_ms = 75'000, look_ms = 500;

std::int64_t monotonic_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

std::string header_of(const net::MessageHead& head, const std::string& name) {
    const auto entry = head.headers.find(name);
    return entry == head.headers.end() ? "" : entry->second;
}

bool send_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

// Waits for bytes and appends them to `into`. Returns false if the peer has closed the connection, or has sent nothing
// for too long.
bool read_some(int socket, std::string& into) {
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, idle_ms) <= 0) return false;
    char bytes[16 << 10];
    const ssize_t got = ::recv(socket, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    into.append(bytes, static_cast<std::size_t>(got));
    return true;
}

std::string head_text(int status, const std::map<std::string, std::string>& headers) {
    std::string out = "HTTP/1.1 " + std::to_string(status) + " " + std::string(net::reason_phrase(status)) + "\r\n";
    for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
    return out + "\r\n";
}

// Returns an HTML page that the proxy itself makes: text without a script.
std::string own_page(int status, const std::string& words, std::map<std::string, std::string> headers) {
    const std::string body =
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>rtrain</title>" + words + "</html>\n";
    headers.insert({{"cache-control", "no-store"},
                    {"content-length", std::to_string(body.size())},
                    {"content-security-policy", "default-src 'none'; frame-ancestors 'none'"},
                    {"content-type", "text/html; charset=utf-8"},
                    {"referrer-policy", "no-referrer"},
                    {"x-content-type-options", "nosniff"}});
    return head_text(status, headers) + body;
}

// Headers of the head's answer that the proxy does not pass on. Each belongs to one connection, or only to the head and
// the proxy.
const std::set<std::string> kept_back = {"connection",        "content-length",   "keep-alive", "set-cookie",
                                         "transfer-encoding", "www-authenticate", "trailer",    "upgrade"};
constexpr std::array passed_on = {"accept",        "accept-encoding", "content-type",
                                  "if-none-match", "last-event-id",   "x-rtrain-csrf"};

}  // namespace

LocalProxy::LocalProxy(net::Endpoint head)
    : head_(std::move(head)),
      host_((head_.host.find(':') == std::string::npos ? head_.host : "[" + head_.host + "]") + ":" +
            std::to_string(head_.port)) {}

Result<std::unique_ptr<LocalProxy>> LocalProxy::start(net::Endpoint head) {
    const std::string token = std::exchange(head.bearer, "");
    std::unique_ptr<LocalProxy> proxy(new LocalProxy(std::move(head)));
    if (Status in = proxy->sign_in(token); !in) return in.error();
    if (Status listening = proxy->listen(); !listening) return listening.error();
    proxy->acceptor_ = std::thread([&server = *proxy] { server.accept_all(); });
    return proxy;
}

// Returns the value of the header Origin. The head accepts browsers' requests only for one of its own names. It has the
// name `rtrain-head` at any address.
std::string LocalProxy::head_origin() const { return "https://rtrain-head"; }

Status LocalProxy::sign_in(const std::string& token) {
    net::Client client(head_);
    const auto answer = client.call({.method = "POST",
                                     .target = "/v1/session",
                                     .body = json_text(json{{"token", token}}),
                                     .headers = {{"content-type", "application/json"}, {"host", "rtrain-head"}}});
    if (!answer) return answer.error();
    if (answer->status == 201) return keep_cookie(*answer), Done{};
    const json answer_body = parse_json(answer->body);
    const bool known = answer_body.is_object();
    return Error{answer->status == 404 ? ErrorCode::not_found : ErrorCode::unauthorised,
                 "the head at " + host_ + " does not sign this token in: " +
                     (known ? answer_body.value("message", "") : "HTTP " + std::to_string(answer->status)),
                 known ? answer_body.value("next", "") : "rtrain doctor"};
}

void LocalProxy::keep_cookie(const net::Response& answer) {
    const auto set = answer.headers.find("set-cookie");
    if (set == answer.headers.end()) return;
    const std::lock_guard lock(guard_);
    cookie_ = set->second.substr(0, set->second.find(';'));
    if (cookie_.ends_with('=')) cookie_.clear();
}

void LocalProxy::sign_out() {
    if (cookie_.empty()) return;
    net::Client client(head_);
    net::Call call{.target = "/v1/session", .headers = {{"cookie", cookie_}, {"host", "rtrain-head"}}};
    const auto session = client.call(call);
    if (!session || session->status != 200) return;
    const json facts = parse_json(session->body);
    call.method = "DELETE";
    call.headers["origin"] = head_origin();
    call.headers["x-rtrain-csrf"] = facts.is_object() ? facts.value("csrf", "") : "";
    (void)client.call(call);  // the answer is ignored, because the head ends the session later anyway
}

Status LocalProxy::listen() {
    listener_ = storage::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (listener_.number() < 0 || ::bind(listener_.number(), any, size) != 0 || ::listen(listener_.number(), 64) != 0 ||
        ::getsockname(listener_.number(), any, &size) != 0)
        return Error{ErrorCode::io, std::string("listening on 127.0.0.1: ") + std::strerror(errno), ""};
    gate_ = std::make_unique<Gate>(ntohs(address.sin_port), security::random_hex(24), security::random_hex(32),
                                   monotonic_ms());
    link_ = gate_->link();
    return Done{};
}

bool LocalProxy::link_opens() {
    const std::lock_guard lock(guard_);
    return gate_->link_opens(monotonic_ms());
}

LocalProxy::~LocalProxy() {
    ends_ = true;
    if (acceptor_.joinable()) acceptor_.join();
    {
        const std::lock_guard lock(guard_);
        for (Connection& connection : connections_) {
            if (connection.done) continue;
            ::shutdown(connection.socket, SHUT_RDWR);
            connection.client->abort();
        }
    }
    for (Connection& connection : connections_) connection.thread.join();
    sign_out();
}

void LocalProxy::accept_all() {
    while (!ends_) {
        pollfd waiting{.fd = listener_.number(), .events = POLLIN, .revents = 0};
        const int ready = ::poll(&waiting, 1, look_ms);
        reap();
        cut_left_behind();
        if (ready <= 0) continue;
        const int socket = ::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC);
        if (socket < 0) continue;
        const std::lock_guard lock(guard_);
        if (connections_.size() >= connections_most || !is_own_peer(socket)) {
            ::close(socket);
            continue;
        }
        Connection& connection = connections_.emplace_back();
        connection.socket = socket;
        connection.client = std::make_unique<net::Client>(head_);
        connection.thread = std::thread([this, &connection] { serve(connection); });
    }
}

void LocalProxy::reap() {
    const std::lock_guard lock(guard_);
    for (auto at = connections_.begin(); at != connections_.end();) {
        if (!at->done) {
            ++at;
            continue;
        }
        at->thread.join();
        at = connections_.erase(at);
    }
}

// Closes streams whose browser has closed its connection. The thread of such a stream may otherwise wait for hours,
// because the head may send nothing.
void LocalProxy::cut_left_behind() {
    const std::lock_guard lock(guard_);
    for (Connection& connection : connections_) {
        if (connection.done || !connection.streams) continue;
        pollfd looked{.fd = connection.socket, .events = POLLRDHUP, .revents = 0};
        if (::poll(&looked, 1, 0) > 0 && (looked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
            connection.client->abort();
    }
}

void LocalProxy::serve(Connection& connection) {
    std::string read;
    while (!ends_ && serve_one(connection, read)) {}
    const std::lock_guard lock(guard_);
    ::close(connection.socket);
    connection.done = true;
}

// Reads a request and answers it. Returns true if the connection can be used again.
bool LocalProxy::serve_one(Connection& connection, std::string& read) {
    std::string body;
    net::HttpParser parser(net::HttpParser::Kind::request, [&](std::string_view piece) {
        body += piece;
        return body.size() <= body_most;
    });
    while (!parser.done()) {
        const std::size_t used = parser.put(read);
        read.erase(0, used);
        if (parser.fault() || body.size() > body_most) {
            send_all(connection.socket,
                     own_page(400, "<p>This is no request that the proxy can carry.</p>", {{"connection", "close"}}));
            return false;
        }
        if (parser.done()) break;
        if (used > 0 && !read.empty()) continue;
        if (!read_some(connection.socket, read)) return false;
    }
    return answer(connection, parser.head(), std::move(body)) && parser.head().keep_alive;
}

bool LocalProxy::answer(Connection& connection, const net::MessageHead& head, std::string body) {
    Gate::Verdict verdict;
    {
        const std::lock_guard lock(guard_);
        verdict = gate_->judge(head, monotonic_ms());
    }
    switch (verdict.what) {
        case Gate::Verdict::What::refuse:
            send_all(connection.socket,
                     own_page(verdict.status, "<p>" + verdict.words + "</p>", {{"connection", "close"}}));
            return false;
        case Gate::Verdict::What::open:
            // The page redirects by itself, because browsers do not send strict cookies after an HTTP redirect that
            // another program started.
            return send_all(
                connection.socket,
                own_page(200, "<meta http-equiv=\"refresh\" content=\"0;url=/\"><p><a href=\"/\">Open the page</a></p>",
                         {{"set-cookie", gate_->set_cookie()}}));
        case Gate::Verdict::What::pass:
            return forward(connection, head, std::move(body));
    }
    return false;
}

net::Call LocalProxy::call_for(const net::MessageHead& head, std::string body) {
    net::Call call{.method = head.method, .target = head.target, .body = std::move(body)};
    for (const char* name : passed_on)
        if (const std::string value = header_of(head, name); !value.empty()) call.headers[name] = value;
    call.headers["host"] = "rtrain-head";
    if (head.method != "GET" && head.method != "HEAD") call.headers["origin"] = head_origin();
    const std::lock_guard lock(guard_);
    if (!cookie_.empty()) call.headers["cookie"] = cookie_;
    return call;
}

// Passes an answer on to the browser while it arrives.
class LocalProxy::Carrier {
  public:
    Carrier(int socket, bool with_body, const std::string& head_address)
        : socket_(socket), with_body_(with_body), head_address_(head_address) {}

    bool begun() const { return begun_; }
    void begin(const net::Response& answer) {
        begun_ = true;
        chunked_ = with_body_ && answer.status != 204;
        auto headers = headers_of(answer);
        if (chunked_) headers["transfer-encoding"] = "chunked";
        sound_ = send_all(socket_, head_text(answer.status, headers));
    }
    bool piece(std::string_view bytes) {
        char size[24];
        std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
        sound_ = sound_ && send_all(socket_, size) && send_all(socket_, bytes) && send_all(socket_, "\r\n");
        return sound_;
    }
    bool end() { return sound_ && (!chunked_ || send_all(socket_, "0\r\n\r\n")); }
    bool whole(const net::Response& answer) {
        auto headers = headers_of(answer);
        if (answer.status != 304) headers["content-length"] = std::to_string(answer.body.size());
        return send_all(socket_, head_text(answer.status, headers) + (with_body_ ? answer.body : ""));
    }

  private:
    std::map<std::string, std::string> headers_of(const net::Response& answer) const {
        std::map<std::string, std::string> headers;
        for (const auto& [name, value] : answer.headers)
            if (!kept_back.contains(name)) headers.emplace(name, value);
        headers["x-rtrain-head"] = "https://" + head_address_;
        return headers;
    }

    const int socket_;
    const bool with_body_;
    const std::string& head_address_;
    bool begun_ = false, chunked_ = false, sound_ = true;
};

bool LocalProxy::forward(Connection& connection, const net::MessageHead& head, std::string body) {
    Carrier carrier(connection.socket, head.method != "HEAD", host_);
    net::Call call = call_for(head, std::move(body));
    call.on_head = [&](const net::Response& answer) {
        keep_cookie(answer);
        if (answer.status >= 300) return;  // a body of this status is not a stream, so it arrives as a whole
        connection.streams = true;
        carrier.begin(answer);
    };
    call.on_piece = [&](std::string_view piece) { return carrier.piece(piece) && !ends_; };
    const auto answer = connection.client->call(call);
    connection.streams = false;
    if (answer) return carrier.begun() ? carrier.end() : carrier.whole(*answer);
    if (!carrier.begun())
        send_all(connection.socket,
                 own_page(502, "<p>The head at " + host_ + " does not answer.</p>", {{"connection", "close"}}));
    return false;
}

}  // namespace rtrain::cmd
