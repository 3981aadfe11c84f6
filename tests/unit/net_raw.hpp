// Connections that rtrain's clients never make: bare TCP, and TLS that checks nothing, so that a test can send any
// bytes.
#pragma once

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/unit/catch.hpp"

namespace net_tests {

// little: the kernel buffers little for a peer that does not read.
enum class Buffers { usual, little };

inline int connect_tcp(std::uint16_t port, Buffers buffers = Buffers::usual) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int window = 64 << 10;
    if (buffers == Buffers::little) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
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
    // Connects. With a certificate and its key (PEM) this side authenticates itself.
    explicit RawTls(std::uint16_t port, const std::string& certificate = "", const std::string& key = "",
                    Buffers buffers = Buffers::usual)
        : fd_(connect_tcp(port, buffers)), context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
        signal(SIGPIPE, SIG_IGN);  // OpenSSL sends an alert to a closed connection.
        if (!certificate.empty()) show(certificate, key);
        SSL_set_fd(ssl_, fd_);
        REQUIRE(SSL_connect(ssl_) == 1);
    }
    ~RawTls() {
        SSL_free(ssl_);
        SSL_CTX_free(context_);
        close(fd_);
    }
    void say(const std::string& bytes) { (void)SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())); }
    std::string read_some() {  // Returns the bytes that arrive first.
        char buffer[4096];
        const int n = SSL_read(ssl_, buffer, sizeof buffer);
        return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
    }
    std::string read_all() {
        std::string out;
        char buffer[4096];
        for (int n = 0; (n = SSL_read(ssl_, buffer, sizeof buffer)) > 0;)
            out.append(buffer, static_cast<std::size_t>(n));
        return out;
    }
    // Returns whether the server has ended the connection, or ends it within the time.
    bool is_closed(int within_ms) {
        pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
        return poll(&one, 1, within_ms) > 0;
    }

  private:
    void show(const std::string& certificate, const std::string& key) {
        BIO* text = BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size()));
        X509* own = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
        BIO* secret_text = BIO_new_mem_buf(key.data(), static_cast<int>(key.size()));
        EVP_PKEY* secret = PEM_read_bio_PrivateKey(secret_text, nullptr, nullptr, nullptr);
        CHECK(SSL_use_certificate(ssl_, own) == 1);
        CHECK(SSL_use_PrivateKey(ssl_, secret) == 1);
        X509_free(own);
        EVP_PKEY_free(secret);
        BIO_free(text);
        BIO_free(secret_text);
    }

    int fd_;
    SSL_CTX* context_;
    SSL* ssl_;
};

}  // namespace net_tests
