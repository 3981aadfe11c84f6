// Makes the certificate and key of one run's channel. Everything in them follows from the seed: an Ed25519 key is 32
// bytes, and its signatures are deterministic. So the head stores no channel, and makes the same one after a restart.
#include "base/base64.hpp"
#include "daemon/security/openssl.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::security {
namespace {

constexpr std::size_t seed_bytes = 32;
constexpr int serial_bytes = 16;
// A peer compares the whole certificate, so its dates add nothing. These hold for every run and every node's clock.
constexpr const char *valid_from = "20000101000000Z",
                     *valid_until = "99991231235959Z";  // valid_until: RFC 5280, 4.1.2.5

Status add_constant_extension(X509* certificate, int nid, const char* value) {
    std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, nid, value));
    if (extension && X509_add_ext(certificate, extension.get(), -1) == 1) return Done{};
    return openssl_error("adding an extension to a run's certificate");
}

Status fill(X509* certificate, EVP_PKEY* key, const std::string& seed) {
    const std::string digest = crypto::hmac_sha256(seed, "serial");
    std::unique_ptr<BIGNUM, Release<BN_free>> number(
        BN_bin2bn(reinterpret_cast<const unsigned char*>(digest.data()), serial_bytes, nullptr));
    X509_NAME* name = X509_get_subject_name(certificate);
    const auto* common_name = reinterpret_cast<const unsigned char*>(channel_name);
    const bool filled =
        number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) &&
        X509_set_version(certificate, X509_VERSION_3) == 1 && X509_set_pubkey(certificate, key) == 1 &&
        X509_NAME_add_entry_by_NID(name, NID_commonName, V_ASN1_UTF8STRING, common_name, -1, -1, 0) == 1 &&
        X509_set_issuer_name(certificate, name) == 1 &&
        ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), valid_from) == 1 &&
        ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), valid_until) == 1;
    if (!filled) return openssl_error("making a run's certificate");
    struct Extension {
        int nid;
        const char* value;
    };
    for (const auto& [nid, value] :
         {Extension{NID_basic_constraints, "critical,CA:FALSE"}, Extension{NID_key_usage, "critical,digitalSignature"},
          Extension{NID_ext_key_usage, "serverAuth,clientAuth"}})
        if (Status added = add_constant_extension(certificate, nid, value); !added) return added;
    if (X509_sign(certificate, key, nullptr) == 0) return openssl_error("signing a run's certificate");
    return Done{};
}

template <auto Encode, class T>
std::string der(T* object) {
    unsigned char* bytes = nullptr;
    const int size = Encode(object, &bytes);
    if (size <= 0) return "";
    std::string out(reinterpret_cast<char*>(bytes), static_cast<std::size_t>(size));
    OPENSSL_clear_free(bytes, out.size());
    return out;
}

}  // namespace

Result<std::string> make_channel(const std::string& seed) {
    RTRAIN_CHECK(seed.size() == seed_bytes, "a channel's seed has 32 bytes");
    Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(seed.data()),
                                         seed.size()));
    Certificate certificate(X509_new());
    if (!key || !certificate) return openssl_error("making a run's key");
    if (Status filled = fill(certificate.get(), key.get(), seed); !filled) return filled.error();
    const std::string shown = der<i2d_X509>(certificate.get()), secret = der<i2d_PrivateKey>(key.get());
    if (shown.empty() || secret.empty()) return openssl_error("encoding a run's certificate");
    return storage::base64_encode(shown) + "." + storage::base64_encode(secret);
}

}  // namespace rtrain::security
