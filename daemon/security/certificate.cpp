// Makes keys and certificates: ECDSA over P-256, signed with SHA-256. There is one authority per cluster; leaf
// certificates serve both ends of mutual TLS. The common name is repeated as DNS alternative name, because TLS
// libraries read only that.
#include <openssl/ec.h>
#include <openssl/rand.h>

#include "daemon/security/openssl.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::security {
namespace {

constexpr int authority_days = 3'650;
constexpr int leaf_days = 365;
constexpr std::size_t name_limit = 253;
constexpr const char* curve = "prime256v1";

Result<Key> make_key() {
    Key key(EVP_EC_gen(curve));
    if (!key) return openssl_error("making a P-256 key");
    return key;
}

// Names are set as UTF-8 without the limit of 64 bytes in ASN1_STRING_TABLE, because host names may be longer.
Status set_common_name(X509_NAME* name, const std::string& common_name) {
    auto bytes = reinterpret_cast<const unsigned char*>(common_name.data());
    if (X509_NAME_add_entry_by_NID(name, NID_commonName, V_ASN1_UTF8STRING, bytes, static_cast<int>(common_name.size()),
                                   -1, 0) != 1)
        return openssl_error("naming a certificate " + common_name);
    return Done{};
}

Status check_common_name(const std::string& name) {
    bool fits = !name.empty() && name.size() <= name_limit;
    for (unsigned char c : name) fits = fits && c > ' ' && c < 0x7f && c != ',' && c != '"' && c != '\\';
    if (fits) return Done{};
    return Error{ErrorCode::invalid,
                 "a certificate cannot be made for this name: it must have 1 to 253 printable ASCII "
                 "characters without spaces, commas, quotes or backslashes",
                 "choose another node name with --name"};
}

Status add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    bool added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    if (!added) return openssl_error("adding the extension " + std::string(OBJ_nid2sn(nid)));
    return Done{};
}

Status set_random_serial(X509* certificate) {
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1) return openssl_error("drawing a serial number");
    // Makes the number positive and of constant length.
    bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
    std::unique_ptr<BIGNUM, Release<BN_free>> number(BN_bin2bn(bytes, sizeof bytes, nullptr));
    if (!number || !BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)))
        return openssl_error("setting a serial number");
    return Done{};
}

Status set_validity(X509* certificate, int days) {
    if (!X509_time_adj_ex(X509_getm_notBefore(certificate), -1, 0, nullptr) ||
        !X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, nullptr))
        return openssl_error("setting a certificate's dates");
    return Done{};
}

struct Extension {
    int nid;
    std::string value;
};

// Makes everything but the signature. An authority is its own issuer.
Result<Certificate> draft(EVP_PKEY* key, X509* issuer, const std::string& common_name, int days) {
    Certificate certificate(X509_new());
    if (!certificate || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
        X509_set_pubkey(certificate.get(), key) != 1)
        return openssl_error("making a certificate");
    if (Status set = set_random_serial(certificate.get()); !set) return set.error();
    if (Status set = set_validity(certificate.get(), days); !set) return set.error();
    X509_NAME* name = X509_get_subject_name(certificate.get());
    if (Status set = set_common_name(name, common_name); !set) return set.error();
    X509_NAME* issuer_name = issuer ? X509_get_subject_name(issuer) : name;
    if (X509_set_issuer_name(certificate.get(), issuer_name) != 1)
        return openssl_error("naming a certificate's issuer");
    return certificate;
}

Result<std::string> finish(Certificate certificate, X509* issuer, EVP_PKEY* signer,
                           const std::vector<Extension>& extensions) {
    for (const Extension& extension : extensions) {
        Status added =
            add_extension(certificate.get(), issuer ? issuer : certificate.get(), extension.nid, extension.value);
        if (!added) return added.error();
    }
    if (X509_sign(certificate.get(), signer, EVP_sha256()) == 0) return openssl_error("signing a certificate");
    return certificate_pem(certificate.get());
}

bool is_p256(EVP_PKEY* key) {
    char group[64] = {};
    std::size_t size = 0;
    return key && EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
           std::string(group) == curve;
}

// Checks that the requester has the private key, and that the key is of the required kind.
Status check_request(X509_REQ* request) {
    EVP_PKEY* key = X509_REQ_get0_pubkey(request);
    if (is_p256(key) && X509_REQ_verify(request, key) == 1) return Done{};
    ERR_clear_error();
    return Error{ErrorCode::invalid,
                 "the signing request is refused: its key is not ECDSA P-256, or its own signature is wrong",
                 "let `rtrain node join` make the request"};
}

Result<std::string> issue_leaf(X509* issuer, EVP_PKEY* signer, EVP_PKEY* key, const std::string& common_name) {
    Result<Certificate> certificate = draft(key, issuer, common_name, leaf_days);
    if (!certificate) return certificate.error();
    if (ASN1_TIME_compare(X509_get0_notAfter(certificate->get()), X509_get0_notAfter(issuer)) > 0)
        X509_set1_notAfter(certificate->get(), X509_get0_notAfter(issuer));  // A leaf never outlives its authority.
    return finish(std::move(*certificate), issuer, signer,
                  {{NID_basic_constraints, "critical,CA:FALSE"},
                   {NID_key_usage, "critical,digitalSignature"},
                   {NID_ext_key_usage, "serverAuth,clientAuth"},
                   {NID_subject_key_identifier, "hash"},
                   {NID_authority_key_identifier, "keyid"},
                   {NID_subject_alt_name, "DNS:" + common_name}});
}

}  // namespace

Result<KeyPair> make_authority(const std::string& cluster_id) {
    std::string common_name = "rtrain-cluster-" + cluster_id;
    if (Status fits = check_common_name(common_name); !fits) return fits.error();
    Result<Key> key = make_key();
    if (!key) return key.error();
    Result<Certificate> certificate = draft(key->get(), nullptr, common_name, authority_days);
    if (!certificate) return certificate.error();
    Result<std::string> pem = finish(std::move(*certificate), nullptr, key->get(),
                                     {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                      {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                      {NID_subject_key_identifier, "hash"}});
    if (!pem) return pem.error();
    Result<std::string> private_key = key_pem(key->get());
    if (!private_key) return private_key.error();
    return KeyPair{.certificate = *pem, .private_key = *private_key};
}

Result<SigningRequest> make_request(const std::string& common_name) {
    if (Status fits = check_common_name(common_name); !fits) return fits.error();
    Result<Key> key = make_key();
    if (!key) return key.error();
    Request request(X509_REQ_new());
    if (!request || X509_REQ_set_pubkey(request.get(), key->get()) != 1)
        return openssl_error("making a signing request");
    Status named = set_common_name(X509_REQ_get_subject_name(request.get()), common_name);
    if (!named) return named.error();
    if (X509_REQ_sign(request.get(), key->get(), EVP_sha256()) == 0) return openssl_error("signing a request");
    Result<std::string> pem = request_pem(request.get());
    if (!pem) return pem.error();
    Result<std::string> private_key = key_pem(key->get());
    if (!private_key) return private_key.error();
    return SigningRequest{.request = *pem, .private_key = *private_key};
}

Result<std::string> sign_request(const KeyPair& authority, const std::string& request, const std::string& common_name) {
    if (Status fits = check_common_name(common_name); !fits) return fits.error();
    Result<Certificate> issuer = read_certificate(authority.certificate);
    if (!issuer) return issuer.error();
    Result<Key> signer = read_key(authority.private_key);
    if (!signer) return signer.error();
    if (X509_check_private_key(issuer->get(), signer->get()) != 1) {
        ERR_clear_error();
        return Error{ErrorCode::damaged, "the authority's key does not belong to its certificate",
                     "bring both files of the cluster's authority back from one backup"};
    }
    Result<Request> asked = read_request(request);
    if (!asked) return asked.error();
    if (Status checked = check_request(asked->get()); !checked) return checked.error();
    return issue_leaf(issuer->get(), signer->get(), X509_REQ_get0_pubkey(asked->get()), common_name);
}

Result<KeyPair> make_leaf(const KeyPair& authority, const std::string& common_name) {
    Result<SigningRequest> request = make_request(common_name);
    if (!request) return request.error();
    Result<std::string> certificate = sign_request(authority, request->request, common_name);
    if (!certificate) return certificate.error();
    return KeyPair{.certificate = *certificate, .private_key = request->private_key};
}

}  // namespace rtrain::security
