// Owners for OpenSSL's objects, and the text of its errors. Included by .cpp files only, here and in daemon/net.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/result.hpp"

namespace rtrain::security {

template <auto Free>
struct Release {
    template <class T>
    void operator()(T* object) const {
        Free(object);
    }
};
using Bio = std::unique_ptr<BIO, Release<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509_free>>;
using Request = std::unique_ptr<X509_REQ, Release<X509_REQ_free>>;

// Returns the oldest pending error of OpenSSL and empties the queue.
inline std::string openssl_reason() {
    unsigned long code = ERR_get_error();
    ERR_clear_error();
    if (code == 0) return "no reason given";
    const char* reason = ERR_reason_error_string(code);
    return reason ? reason : "OpenSSL error " + std::to_string(code);
}
inline Error openssl_error(const std::string& doing) {
    return {ErrorCode::internal, doing + ": " + openssl_reason(), ""};
}

inline Bio memory_reader(const std::string& text) {
    return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
inline Bio memory_writer() { return Bio(BIO_new(BIO_s_mem())); }
inline std::string written(const Bio& bio) {
    char* data = nullptr;
    long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<std::size_t>(size)};
}

// Returns the serial number as upper-case hex, as in the list of revoked certificates.
inline std::string serial_text(const X509* certificate) {
    const std::unique_ptr<BIGNUM, Release<BN_free>> number(
        ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
    char* text = number ? BN_bn2hex(number.get()) : nullptr;
    const std::string out = text ? text : "";
    OPENSSL_free(text);
    return out;
}

Result<Certificate> read_certificate(const std::string& pem);
Result<Key> read_key(const std::string& pem);
Result<Request> read_request(const std::string& pem);
Result<std::string> certificate_pem(X509* certificate);
Result<std::string> key_pem(EVP_PKEY* key);
Result<std::string> request_pem(X509_REQ* request);

}  // namespace rtrain::security
