#include "base/crypto/digest.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/hex.hpp"
#include "base/result.hpp"

namespace rtrain::crypto {

struct Sha256::Context {
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
    RTRAIN_CHECK(context_->digest && EVP_DigestInit_ex(context_->digest.get(), EVP_sha256(), nullptr) == 1);
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
    RTRAIN_CHECK(EVP_DigestUpdate(context_->digest.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    RTRAIN_CHECK(EVP_DigestFinal_ex(context_->digest.get(), sum, &size) == 1);
    return storage::hex({reinterpret_cast<const char*>(sum), size});
}

struct Md5::Context {
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Md5::Md5() : context_(std::make_unique<Context>()) {
    RTRAIN_CHECK(context_->digest && EVP_DigestInit_ex(context_->digest.get(), EVP_md5(), nullptr) == 1);
}
Md5::Md5(Md5&&) noexcept = default;
Md5& Md5::operator=(Md5&&) noexcept = default;
Md5::~Md5() = default;

void Md5::add(std::string_view bytes) {
    RTRAIN_CHECK(EVP_DigestUpdate(context_->digest.get(), bytes.data(), bytes.size()) == 1);
}

std::string Md5::bytes() {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    RTRAIN_CHECK(EVP_DigestFinal_ex(context_->digest.get(), sum, &size) == 1);
    return {reinterpret_cast<const char*>(sum), size};
}

std::string sha256_hex(std::string_view bytes) {
    Sha256 sum;
    sum.add(bytes);
    return sum.hex();
}

std::string md5(std::string_view bytes) {
    Md5 sum;
    sum.add(bytes);
    return sum.bytes();
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    RTRAIN_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), sum, &size) != nullptr);
    return {reinterpret_cast<const char*>(sum), size};
}

}  // namespace rtrain::crypto
