// See plain_http.hpp.
#include "daemon/agent/cloud/plain_http.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "base/descriptor.hpp"

namespace rtrain::agent {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t answer_most = 256 << 10;

bool ready(int descriptor, short events, Clock::time_point until) {
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
        const int changed = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
        if (changed < 0 && errno == EINTR) continue;
        return changed > 0;
    }
}

storage::Descriptor connected(const HttpQuestion& question, Clock::time_point until) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(question.port);
    if (::inet_pton(AF_INET, question.host.c_str(), &to.sin_addr) != 1) return storage::Descriptor();
    storage::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.open()) return storage::Descriptor();
    const int begun = ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    if (begun != 0 && (errno != EINPROGRESS || !ready(socket.number(), POLLOUT, until))) return storage::Descriptor();
    int error = 0;
    socklen_t size = sizeof error;
    const bool well = ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    return well ? std::move(socket) : storage::Descriptor();
}

bool send_all(int socket, std::string_view text, Clock::time_point until) {
    while (!text.empty()) {
        const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (sent < 0 && !ready(socket, POLLOUT, until)) return false;
    }
    return true;
}

// Reads until the end of the connection, which the request asks the server to close.
std::optional<std::string> read_all(int socket, Clock::time_point until) {
    std::string bytes;
    for (char piece[4096];;) {
        const ssize_t got = ::recv(socket, piece, sizeof piece, 0);
        if (got == 0) return bytes;
        if (got > 0) bytes.append(piece, static_cast<std::size_t>(got));
        if (bytes.size() > answer_most) return std::nullopt;
        if (got < 0 && errno != EAGAIN && errno != EINTR) return std::nullopt;
        if (got < 0 && !ready(socket, POLLIN, until)) return std::nullopt;
    }
}

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::optional<std::string> without_chunks(std::string_view body) {
    std::string whole;
    for (;;) {
        const auto line = body.find("\r\n");
        std::size_t size = 0;
        if (line == body.npos) return std::nullopt;
        if (std::from_chars(body.data(), body.data() + line, size, 16).ec != std::errc()) return std::nullopt;
        if (size == 0) return whole;
        body.remove_prefix(line + 2);
        if (body.size() < size + 2) return std::nullopt;
        whole.append(body.substr(0, size));
        body.remove_prefix(size + 2);
    }
}

}  // namespace

std::optional<HttpAnswer> read_http_answer(const std::string& bytes) {
    constexpr std::string_view version = "HTTP/1.";
    const auto end = bytes.find("\r\n\r\n");
    if (!bytes.starts_with(version) || end == bytes.npos || end < version.size() + 5) return std::nullopt;
    HttpAnswer answer{.status = 0, .body = bytes.substr(end + 4)};
    const char* number = bytes.data() + version.size() + 2;
    if (std::from_chars(number, number + 3, answer.status).ptr != number + 3) return std::nullopt;
    const std::string head = lower(bytes.substr(0, end + 2));
    if (head.find("\r\ntransfer-encoding: chunked\r\n") != head.npos) {
        auto whole = without_chunks(answer.body);
        if (!whole) return std::nullopt;
        answer.body = std::move(*whole);
        return answer;
    }
    constexpr std::string_view length = "\r\ncontent-length:";
    if (const auto at = head.find(length); at != head.npos) {
        const std::size_t from = head.find_first_not_of(' ', at + length.size());
        std::size_t bytes_of_body = 0;
        std::from_chars(head.data() + from, head.data() + head.size(), bytes_of_body);
        if (answer.body.size() < bytes_of_body) return std::nullopt;  // cut off
        answer.body.resize(bytes_of_body);
    }
    return answer;
}

std::optional<HttpAnswer> fetch_plain_http(const HttpQuestion& question) {
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(question.patience_ms);
    const storage::Descriptor socket = connected(question, until);
    if (!socket.open()) return std::nullopt;
    std::string text = question.method + " " + question.target + " HTTP/1.1\r\nHost: " + question.host +
                       "\r\nConnection: close\r\nContent-Length: 0\r\n";
    for (const auto& [name, value] : question.headers) text += name + ": " + value + "\r\n";
    if (!send_all(socket.number(), text + "\r\n", until)) return std::nullopt;
    const auto bytes = read_all(socket.number(), until);
    return bytes ? read_http_answer(*bytes) : std::nullopt;
}

}  // namespace rtrain::agent
