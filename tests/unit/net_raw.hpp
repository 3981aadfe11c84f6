// Connections that no client of ours makes: bare TCP, and TLS that checks nothing, so that anything can be said inside.
#pragma once

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/unit/catch.hpp"

namespace net_tests {

inline int connect_tcp(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

class RawTcp {
  public:
    explicit RawTcp(std::uint16_t port) : fd_(connect_tcp(port)) {}
    ~RawTcp() { close(fd_); }
    RawTcp(const RawTcp&) = delete;

  private:
    int fd_;
};

class RawTls {
  public:
    explicit RawTls(std::uint16_t port)
        : fd_(connect_tcp(port)), context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
        signal(SIGPIPE, SIG_IGN);  // OpenSSL answers a broken end with an alert
        SSL_set_fd(ssl_, fd_);
        REQUIRE(SSL_connect(ssl_) == 1);
    }
    ~RawTls() {
        SSL_free(ssl_);
        SSL_CTX_free(context_);
        close(fd_);
    }
    void say(const std::string& bytes) { (void)SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())); }
    std::string hear_all() {
        std::string out;
        char buffer[4096];
        for (int n = 0; (n = SSL_read(ssl_, buffer, sizeof buffer)) > 0;)
            out.append(buffer, static_cast<std::size_t>(n));
        return out;
    }
    // Whether the server has ended the connection, or does so within the time.
    bool is_closed(int within_ms) {
        pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
        return poll(&one, 1, within_ms) > 0;
    }

  private:
    int fd_;
    SSL_CTX* context_;
    SSL* ssl_;
};

}  // namespace net_tests
