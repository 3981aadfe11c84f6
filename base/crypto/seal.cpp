#include "base/crypto/seal.hpp"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <cstdint>
#include <memory>

#include "base/result.hpp"

namespace rtrain::crypto {
namespace {

using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
int length_of(std::string_view text) { return static_cast<int>(text.size()); }

OSSL_PARAM octets(const char* name, std::string_view text) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
}

bool derive(const char* method, const OSSL_PARAM* parameters, std::string& key) {
    const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, method, nullptr), EVP_KDF_free);
    RTRAIN_CHECK(kdf != nullptr);
    const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                            EVP_KDF_CTX_free);
    RTRAIN_CHECK(context != nullptr);
    const bool is_done = EVP_KDF_derive(context.get(), bytes_of(key), key.size(), parameters) == 1;
    ERR_clear_error();
    return is_done;
}

}  // namespace

std::string random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    RTRAIN_CHECK(RAND_bytes(bytes_of(bytes), static_cast<int>(count)) == 1);
    return bytes;
}

std::optional<std::string> passphrase_key(std::string_view passphrase, std::string_view salt, unsigned log2_n) {
    std::uint64_t n = std::uint64_t{1} << log2_n, most = (n << 10) + (std::uint64_t{32} << 20);
    std::uint32_t r = 8, p = 1;
    const OSSL_PARAM parameters[] = {octets(OSSL_KDF_PARAM_PASSWORD, passphrase),
                                     octets(OSSL_KDF_PARAM_SALT, salt),
                                     OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_N, &n),
                                     OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_R, &r),
                                     OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_P, &p),
                                     OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_MAXMEM, &most),
                                     OSSL_PARAM_construct_end()};
    std::string key(key_bytes, '\0');
    if (!derive("SCRYPT", parameters, key)) return std::nullopt;
    return key;
}

std::string derived_key(std::string_view key, std::string_view salt, std::string_view purpose) {
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                     octets(OSSL_KDF_PARAM_KEY, key), octets(OSSL_KDF_PARAM_SALT, salt),
                                     octets(OSSL_KDF_PARAM_INFO, purpose), OSSL_PARAM_construct_end()};
    std::string out(key_bytes, '\0');
    RTRAIN_CHECK(derive("HKDF", parameters, out));
    return out;
}

std::string sealed(const Seal& seal, std::string_view text) {
    RTRAIN_CHECK(seal.key.size() == key_bytes && seal.nonce.size() == nonce_bytes);
    const CipherContext context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    std::string out(text.size() + tag_bytes, '\0');
    int written = 0, rest = 0;
    RTRAIN_CHECK(context && EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(seal.key),
                                               bytes_of(seal.nonce)) == 1);
    RTRAIN_CHECK(EVP_EncryptUpdate(context.get(), nullptr, &written, bytes_of(seal.beside), length_of(seal.beside)) ==
                 1);
    RTRAIN_CHECK(EVP_EncryptUpdate(context.get(), bytes_of(out), &written, bytes_of(text), length_of(text)) == 1);
    RTRAIN_CHECK(EVP_EncryptFinal_ex(context.get(), bytes_of(out) + written, &rest) == 1);
    RTRAIN_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag_bytes),
                                     bytes_of(out) + text.size()) == 1);
    return out;
}

std::optional<std::string> unsealed(const Seal& seal, std::string_view sealed_text) {
    RTRAIN_CHECK(seal.key.size() == key_bytes && seal.nonce.size() == nonce_bytes);
    if (sealed_text.size() < tag_bytes) return std::nullopt;
    const std::string_view text = sealed_text.substr(0, sealed_text.size() - tag_bytes);
    std::string tag(sealed_text.substr(text.size()));
    const CipherContext context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    std::string out(text.size(), '\0');
    int written = 0, rest = 0;
    RTRAIN_CHECK(context && EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(seal.key),
                                               bytes_of(seal.nonce)) == 1);
    RTRAIN_CHECK(EVP_DecryptUpdate(context.get(), nullptr, &written, bytes_of(seal.beside), length_of(seal.beside)) ==
                 1);
    RTRAIN_CHECK(EVP_DecryptUpdate(context.get(), bytes_of(out), &written, bytes_of(text), length_of(text)) == 1);
    RTRAIN_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(tag_bytes), bytes_of(tag)) ==
                 1);
    const bool genuine = EVP_DecryptFinal_ex(context.get(), bytes_of(out) + written, &rest) == 1;
    ERR_clear_error();
    if (!genuine) return std::nullopt;
    return out;
}

}  // namespace rtrain::crypto
