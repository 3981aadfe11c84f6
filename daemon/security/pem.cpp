// Reads and writes PEM, and reads the fields of a certificate. The password callback refuses, so that an encrypted key
// does not prompt on a terminal.
#include <ctime>

#include "daemon/security/openssl.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::security {
namespace {

int no_password(char*, int, int, void*) { return -1; }

Error unreadable(const std::string& what) {
    return {ErrorCode::invalid, what + " is not readable PEM: " + openssl_reason(),
            "look for a truncated or edited file; `-----BEGIN` must be its first line"};
}

template <class Write>
Result<std::string> to_pem(const std::string& what, Write write) {
    Bio out = memory_writer();
    if (!out || write(out.get()) != 1) return openssl_error("writing " + what);
    return written(out);
}

}  // namespace

Result<Certificate> read_certificate(const std::string& pem) {
    Certificate certificate(PEM_read_bio_X509(memory_reader(pem).get(), nullptr, no_password, nullptr));
    if (!certificate) return unreadable("the certificate");
    return certificate;
}

Result<Key> read_key(const std::string& pem) {
    Key key(PEM_read_bio_PrivateKey(memory_reader(pem).get(), nullptr, no_password, nullptr));
    if (!key) return unreadable("the private key");
    return key;
}

Result<Request> read_request(const std::string& pem) {
    Request request(PEM_read_bio_X509_REQ(memory_reader(pem).get(), nullptr, no_password, nullptr));
    if (!request) return unreadable("the signing request");
    return request;
}

Result<std::string> certificate_pem(X509* certificate) {
    return to_pem("a certificate", [&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

Result<std::string> key_pem(EVP_PKEY* key) {
    return to_pem("a private key",
                  [&](BIO* out) { return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

Result<std::string> request_pem(X509_REQ* request) {
    return to_pem("a signing request", [&](BIO* out) { return PEM_write_bio_X509_REQ(out, request); });
}

Result<std::string> fingerprint(const std::string& certificate) {
    Result<Certificate> read = read_certificate(certificate);
    if (!read) return read.error();
    unsigned char* der = nullptr;
    int size = i2d_X509(read->get(), &der);
    if (size < 0) return openssl_error("encoding a certificate");
    std::string hash = sha256_hex({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
    OPENSSL_free(der);
    return hash;
}

Result<std::int64_t> expires_wall_ms(const std::string& certificate) {
    Result<Certificate> read = read_certificate(certificate);
    if (!read) return read.error();
    tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(read->get()), &end) != 1)
        return openssl_error("reading a certificate's end");
    return static_cast<std::int64_t>(timegm(&end)) * 1'000;
}

Result<std::string> serial_of(const std::string& certificate) {
    Result<Certificate> read = read_certificate(certificate);
    if (!read) return read.error();
    return serial_text(read->get());
}

}  // namespace rtrain::security
