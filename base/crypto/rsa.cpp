#include "base/crypto/rsa.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

namespace rtrain::crypto {
namespace {

int no_passphrase(char*, int, int, void*) { return 0; }  // OpenSSL would read one from the terminal.

}  // namespace

Result<std::string> rs256(std::string_view pem, std::string_view bytes) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                         &BIO_free);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        text ? PEM_read_bio_PrivateKey(text.get(), nullptr, &no_passphrase, nullptr) : nullptr, &EVP_PKEY_free);
    if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA)
        return Error{ErrorCode::invalid, "the private key is no unencrypted RSA key in PEM", ""};
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    std::size_t size = 0;
    if (!context || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
        EVP_DigestSign(context.get(), nullptr, &size, data, bytes.size()) != 1)
        return Error{ErrorCode::internal, "OpenSSL cannot sign with the private key", ""};
    std::string signature(size, '\0');
    if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data, bytes.size()) !=
        1)
        return Error{ErrorCode::internal, "OpenSSL cannot sign with the private key", ""};
    signature.resize(size);
    return signature;
}

}  // namespace rtrain::crypto
