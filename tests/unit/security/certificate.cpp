// Certificates as a cluster uses them: an authority, the head's leaf, a node's request.
#include <chrono>
#include <fstream>

#include "daemon/security/openssl.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/channel_pair.hpp"
#include "tests/unit/source_directory.hpp"

using namespace rtrain;
using namespace rtrain::security;
using test::channel_pair;

namespace {

constexpr std::int64_t day_ms = 86'400'000;

std::int64_t wall_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// Returns "ok" or OpenSSL's reason when a TLS peer that pins `authority` verifies `leaf`.
std::string verdict(const std::string& authority, const std::string& leaf, int purpose,
                    unsigned long flags = X509_V_FLAG_X509_STRICT) {
    Certificate root = read_certificate(authority).value();
    Certificate end = read_certificate(leaf).value();
    std::unique_ptr<X509_STORE, Release<X509_STORE_free>> store(X509_STORE_new());
    X509_STORE_add_cert(store.get(), root.get());
    std::unique_ptr<X509_STORE_CTX, Release<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), end.get(), nullptr);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context.get()), flags);
    int verified = X509_verify_cert(context.get());
    return verified == 1 ? "ok" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

std::string common_name(const std::string& pem) {
    Certificate certificate = read_certificate(pem).value();
    char name[300] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof name);
    return name;
}

bool is_for_host(const std::string& pem, const std::string& host) {
    Certificate certificate = read_certificate(pem).value();
    return X509_check_host(certificate.get(), host.data(), host.size(), 0, nullptr) == 1;
}

}  // namespace

TEST_CASE("the head's leaf is trusted by whoever pins the cluster's authority, at both ends of TLS") {
    KeyPair authority = *make_authority("c0ffee00");
    KeyPair head = *make_leaf(authority, "rtrain-head");
    CHECK(verdict(authority.certificate, head.certificate, X509_PURPOSE_SSL_SERVER) == "ok");
    CHECK(verdict(authority.certificate, head.certificate, X509_PURPOSE_SSL_CLIENT) == "ok");
    CHECK(common_name(head.certificate) == "rtrain-head");
    CHECK(is_for_host(head.certificate, "rtrain-head"));
    CHECK_FALSE(is_for_host(head.certificate, "localhost"));
    CHECK(read_key(head.private_key).ok());
}

TEST_CASE("a run's certificate is trusted by who pins that very certificate, and by nobody else") {
    const KeyPair run = channel_pair(*make_channel(std::string(32, 'a')));
    const KeyPair foreign = channel_pair(*make_channel(std::string(32, 'b')));
    const KeyPair authority = *make_authority("c0ffee00");
    for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
        CHECK(verdict(run.certificate, run.certificate, purpose, 0) == "ok");
        CHECK(verdict(run.certificate, foreign.certificate, purpose, 0) != "ok");
        CHECK(verdict(authority.certificate, run.certificate, purpose, 0) != "ok");
    }
    CHECK(common_name(run.certificate) == channel_name);
    Certificate certificate = read_certificate(run.certificate).value();
    Key key = read_key(run.private_key).value();
    CHECK(X509_check_private_key(certificate.get(), key.get()) == 1);
    CHECK(X509_check_ca(certificate.get()) == 0);
    CHECK(*expires_wall_ms(run.certificate) > wall_ms() + 1'000 * 365 * day_ms);
    std::ifstream file(test::source_directory() + "/tests/data/run-channels.txt");  // the tests of Python read it, too
    for (const char seed : {'a', 'b'}) {
        std::string line;
        std::getline(file, line);
        CHECK(*make_channel(std::string(32, seed)) == line);
    }
}

TEST_CASE("a leaf of another cluster with the same id is not trusted") {
    KeyPair ours = *make_authority("c0ffee00"), theirs = *make_authority("c0ffee00");
    KeyPair head = *make_leaf(theirs, "rtrain-head");
    CHECK(verdict(ours.certificate, head.certificate, X509_PURPOSE_SSL_SERVER) != "ok");
    CHECK(*fingerprint(ours.certificate) != *fingerprint(theirs.certificate));
}

TEST_CASE("a leaf cannot be used as an authority") {
    KeyPair authority = *make_authority("c0ffee00");
    KeyPair node = *make_leaf(authority, "node:n1");
    KeyPair forged = *make_leaf(node, "rtrain-head");
    CHECK(verdict(node.certificate, forged.certificate, X509_PURPOSE_SSL_SERVER) != "ok");
}

TEST_CASE("a node's request is signed with the head's choice of name, not the request's") {
    KeyPair authority = *make_authority("c0ffee00");
    SigningRequest request = *make_request("rtrain-head");
    std::string certificate = *sign_request(authority, request.request, "node:gpu-1");
    CHECK(common_name(certificate) == "node:gpu-1");
    CHECK_FALSE(is_for_host(certificate, "rtrain-head"));
    CHECK(verdict(authority.certificate, certificate, X509_PURPOSE_SSL_CLIENT) == "ok");
    Key key = read_key(request.private_key).value();
    CHECK(X509_check_private_key(read_certificate(certificate)->get(), key.get()) == 1);
}

TEST_CASE("a host name longer than 64 characters gets a certificate; an impossible one is refused") {
    KeyPair authority = *make_authority("c0ffee00");
    std::string name = "node:" + std::string(200, 'n');
    CHECK(common_name(make_leaf(authority, name)->certificate) == name);
    CHECK(make_leaf(authority, "").error().code == ErrorCode::invalid);
    CHECK(make_leaf(authority, "node:a,DNS:rtrain-head").error().code == ErrorCode::invalid);
    CHECK(make_leaf(authority, "node:a\nb").error().code == ErrorCode::invalid);
    CHECK(make_leaf(authority, std::string(254, 'n')).error().code == ErrorCode::invalid);
}

TEST_CASE("a request with a wrong signature or a foreign kind of key is refused") {
    KeyPair authority = *make_authority("c0ffee00");
    SECTION("one byte changed") {
        Request request = read_request(make_request("node:n1")->request).value();
        unsigned char* der = nullptr;
        int size = i2d_X509_REQ(request.get(), &der);
        der[size - 1] ^= 1;
        const unsigned char* at = der;
        Request changed(d2i_X509_REQ(nullptr, &at, size));
        OPENSSL_free(der);
        REQUIRE(changed);
        CHECK(sign_request(authority, *request_pem(changed.get()), "node:n1").error().code == ErrorCode::invalid);
    }
    SECTION("RSA") {
        Key key(EVP_RSA_gen(2048));
        Request request(X509_REQ_new());
        X509_REQ_set_pubkey(request.get(), key.get());
        X509_REQ_sign(request.get(), key.get(), EVP_sha256());
        CHECK(sign_request(authority, *request_pem(request.get()), "node:n1").error().code == ErrorCode::invalid);
    }
    SECTION("not PEM at all") { CHECK(sign_request(authority, "hello", "node:n1").error().code == ErrorCode::invalid); }
}

TEST_CASE("an authority whose key belongs to another certificate signs nothing") {
    KeyPair authority = *make_authority("c0ffee00");
    authority.private_key = make_authority("c0ffee00")->private_key;
    CHECK(make_leaf(authority, "node:n1").error().code == ErrorCode::damaged);
}

TEST_CASE("an authority lasts ten years and a leaf one, both valid since yesterday") {
    KeyPair authority = *make_authority("c0ffee00");
    KeyPair node = *make_leaf(authority, "node:n1");
    std::int64_t now = wall_ms();
    CHECK(std::abs(*expires_wall_ms(authority.certificate) - now - 3'650 * day_ms) < 60'000);
    CHECK(std::abs(*expires_wall_ms(node.certificate) - now - 365 * day_ms) < 60'000);
    Certificate read = read_certificate(node.certificate).value();
    std::time_t yesterday = now / 1'000 - 80'000;
    CHECK(X509_cmp_time(X509_get0_notBefore(read.get()), &yesterday) == -1);
    CHECK(expires_wall_ms("").error().code == ErrorCode::invalid);
}
