// Who may talk to whom: TLS settings of both sides, the check of a server's certificate, and the reasons of refusals in
// words. A client trusts the cluster's authority alone and checks a fixed name, whatever address was dialled.
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

// Verified while the handshake runs, before a byte of ours is sent. `refusal` says why the peer was not trusted.
struct ClientTls {
    ClientTls() : context(asio::ssl::context::tls_client) {}
    asio::ssl::context context;
    std::string ca;  // PEM; empty: the authority with this fingerprint, out of the peer's own chain
    std::string fingerprint;
    std::string expected_name;
    std::string refusal;
};
Result<std::shared_ptr<ClientTls>> client_tls(const Endpoint& endpoint);

std::string verified_common_name(SSL* ssl);  // of a client certificate that was verified; else empty
std::string verified_serial(SSL* ssl);       // of the same
std::string refused_certificate(SSL* ssl);   // why a client's certificate was not accepted; empty: it was none of that

}  // namespace rtrain::net
