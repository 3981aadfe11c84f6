// TLS settings of both sides, the check of a server's certificate, and refusals as text. A client trusts the cluster's
// authority only and checks a fixed name, independent of the address.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "daemon/net/client.hpp"
#include "daemon/net/loop/asio.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::net {

using TlsContext = std::shared_ptr<asio::ssl::context>;

Result<TlsContext> server_context(const TlsIdentity& identity, bool require_client_certificate);

// The check during the handshake, before any application byte is sent. `refusal` contains why the peer was not trusted.
struct ClientTls {
    ClientTls() : context(asio::ssl::context::tls_client) {}
    asio::ssl::context context;
    std::string ca;  // PEM; empty: the authority with this fingerprint, from the peer's own chain
    std::string fingerprint;
    std::string expected_name;
    std::string refusal;
};
Result<std::shared_ptr<ClientTls>> client_tls(const Endpoint& endpoint);

std::string verified_common_name(SSL* ssl);  // from the verified client certificate; else empty
std::string verified_serial(SSL* ssl);       // from the same certificate
// why a client certificate was refused; empty: the failure had another cause
std::string refused_certificate(SSL* ssl);

}  // namespace rtrain::net
