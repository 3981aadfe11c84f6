// See tls.hpp.
#include "daemon/net/tls.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <strings.h>

#include <vector>

#include "base/hex.hpp"
#include "daemon/security/openssl.hpp"

namespace rtrain::net {
namespace {

using security::Bio;
using security::Certificate;
using security::Release;
using Store = std::unique_ptr<X509_STORE, Release<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Release<X509_STORE_CTX_free>>;

// Sessions are not resumed: with one long-lived connection per peer it saves nothing, and a ticket on an idle
// connection would look like a message.
void harden(asio::ssl::context& context) {
    SSL_CTX* raw = context.native_handle();
    SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
    SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_num_tickets(raw, 0);
    SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);
}

std::vector<Certificate> read_certificates(const std::string& pem) {
    std::vector<Certificate> out;
    Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    while (bio) {
        Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
        if (!certificate) break;
        out.push_back(std::move(certificate));
    }
    ERR_clear_error();
    return out;
}

Status use_identity(asio::ssl::context& context, const std::string& chain, const std::string& key) {
    error_code error;
    context.use_certificate_chain(asio::buffer(chain), error);
    if (!error) context.use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
    if (!error && SSL_CTX_check_private_key(context.native_handle()) != 1)
        error = error_code(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category());
    ERR_clear_error();
    if (!error) return Done{};
    return Error{ErrorCode::invalid, "the certificate and private key for TLS cannot be used: " + error.message(),
                 "check that both are PEM texts that belong together"};
}

std::string fingerprint_of(X509* certificate) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (X509_digest(certificate, EVP_sha256(), digest, &size) != 1) return {};
    return storage::hex({reinterpret_cast<const char*>(digest), size});
}

std::string text_of(const ASN1_STRING* text) {
    if (!text) return {};
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
            static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string common_name(X509* certificate) {
    X509_NAME* name = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
    if (at < 0) return {};
    return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

std::vector<std::string> names_of(X509* certificate) {
    std::vector<std::string> out;
    auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
        const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS) out.push_back(text_of(name->d.dNSName));
    }
    GENERAL_NAMES_free(names);
    if (out.empty()) out.push_back(common_name(certificate));
    return out;
}

bool carries_name(X509* certificate, const std::string& expected) {
    for (const std::string& name : names_of(certificate))
        if (name.size() == expected.size() && strcasecmp(name.c_str(), expected.c_str()) == 0) return true;
    return false;
}

// Returns the authority with the fingerprint from the token, out of the certificates that the peer presented.
X509* find_authority(STACK_OF(X509) * chain, const std::string& fingerprint) {
    for (int i = 0; i < sk_X509_num(chain); ++i) {
        X509* certificate = sk_X509_value(chain, i);
        if (X509_check_ca(certificate) == 1 &&
            strcasecmp(fingerprint_of(certificate).c_str(), fingerprint.c_str()) == 0)
            return certificate;
    }
    return nullptr;
}

std::string wrong_fingerprint(STACK_OF(X509) * chain, const std::string& fingerprint) {
    std::string seen;
    for (int i = 0; i < sk_X509_num(chain); ++i)
        if (X509_check_ca(sk_X509_value(chain, i)) == 1) seen = fingerprint_of(sk_X509_value(chain, i));
    return "the authority it presents has the fingerprint " + (seen.empty() ? "(none)" : seen) + ", expected " +
           fingerprint;
}

std::string check_chain(X509* leaf, STACK_OF(X509) * chain, X509_STORE* trusted) {
    StoreContext context(X509_STORE_CTX_new());
    if (!context || X509_STORE_CTX_init(context.get(), trusted, leaf, chain) != 1) return "it cannot be checked";
    X509_STORE_CTX_set_default(context.get(), "ssl_server");
    if (X509_verify_cert(context.get()) == 1) return {};
    return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

// Returns why the peer is not trusted; empty if it is.
std::string refusal_of(X509_STORE_CTX* peer, const ClientTls& tls) {
    X509* leaf = X509_STORE_CTX_get0_cert(peer);
    STACK_OF(X509)* chain = X509_STORE_CTX_get0_untrusted(peer);
    Store trusted(X509_STORE_new());
    if (!leaf || !trusted) return "it presents no certificate";
    if (tls.ca.empty()) {
        X509* authority = find_authority(chain, tls.fingerprint);
        if (!authority) return wrong_fingerprint(chain, tls.fingerprint);
        X509_STORE_add_cert(trusted.get(), authority);
    } else {
        for (const Certificate& authority : read_certificates(tls.ca))
            X509_STORE_add_cert(trusted.get(), authority.get());
    }
    std::string why = check_chain(leaf, chain, trusted.get());
    if (!why.empty()) return "its certificate (" + common_name(leaf) + ") is not valid here: " + why;
    if (carries_name(leaf, tls.expected_name)) return {};
    return "its certificate is for \"" + names_of(leaf).front() + "\", expected \"" + tls.expected_name + "\"";
}

int verify_server(X509_STORE_CTX* peer, void* argument) {
    auto& tls = *static_cast<ClientTls*>(argument);
    tls.refusal = refusal_of(peer, tls);
    ERR_clear_error();
    if (tls.refusal.empty()) return 1;
    X509_STORE_CTX_set_error(peer, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

}  // namespace

Result<TlsContext> server_context(const TlsIdentity& identity, bool require_client_certificate) {
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    harden(*context);
    if (Status used = use_identity(*context, identity.certificate_chain, identity.private_key); !used)
        return used.error();
    if (identity.ca.empty()) return context;
    std::vector<Certificate> authorities = read_certificates(identity.ca);
    if (authorities.empty())
        return Error{ErrorCode::invalid, "the authority for clients' certificates is no PEM certificate", ""};
    for (const Certificate& authority : authorities) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context->native_handle()), authority.get());
        SSL_CTX_add_client_CA(context->native_handle(), authority.get());
    }
    context->set_verify_mode(require_client_certificate
                                 ? asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert
                                 : asio::ssl::verify_peer);
    return context;
}

Result<std::shared_ptr<ClientTls>> client_tls(const Endpoint& endpoint) {
    if (endpoint.ca.empty() && endpoint.ca_fingerprint.empty())
        return Error{ErrorCode::usage, "no authority is trusted: neither its certificate nor its fingerprint is known",
                     "give the cluster's ca.pem, or a join token"};
    if (!endpoint.ca.empty() && read_certificates(endpoint.ca).empty())
        return Error{ErrorCode::invalid, "the cluster's authority is no PEM certificate", "copy ca.pem from the head"};
    auto tls = std::make_shared<ClientTls>();
    harden(tls->context);
    if (!endpoint.certificate.empty())
        if (Status used = use_identity(tls->context, endpoint.certificate, endpoint.private_key); !used)
            return used.error();
    tls->ca = endpoint.ca;
    tls->fingerprint = endpoint.ca_fingerprint;
    tls->expected_name = endpoint.expected_name;
    tls->context.set_verify_mode(asio::ssl::verify_peer);
    SSL_CTX_set_cert_verify_callback(tls->context.native_handle(), verify_server, tls.get());
    return tls;
}

std::string verified_common_name(SSL* ssl) {
    Certificate certificate(SSL_get1_peer_certificate(ssl));
    if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) return {};
    return common_name(certificate.get());
}

std::string verified_serial(SSL* ssl) {
    Certificate certificate(SSL_get1_peer_certificate(ssl));
    if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) return {};
    return security::serial_text(certificate.get());
}

std::string refused_certificate(SSL* ssl) {
    long result = SSL_get_verify_result(ssl);
    return result == X509_V_OK ? std::string{} : X509_verify_cert_error_string(result);
}

}  // namespace rtrain::net
