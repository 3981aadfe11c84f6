// Authentication: authorities, names, fingerprints, client certificates. The tests check at the server that no secret
// was sent.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tests/unit/channel_pair.hpp"
#include "tests/unit/net_world.hpp"

using namespace net_tests;

namespace {

// The leaf of `pki()` with an expired validity. The security library cannot make one.
security::KeyPair expired_leaf() {
    auto read = [](const std::string& pem) { return BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())); };
    BIO* leaf_text = read(pki().head.certificate);
    BIO* key_text = read(pki().authority.private_key);
    X509* leaf = PEM_read_bio_X509(leaf_text, nullptr, nullptr, nullptr);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(key_text, nullptr, nullptr, nullptr);
    REQUIRE((leaf && key));
    X509_gmtime_adj(X509_getm_notBefore(leaf), -7'200);
    X509_gmtime_adj(X509_getm_notAfter(leaf), -3'600);
    REQUIRE(X509_sign(leaf, key, EVP_sha256()) > 0);
    BIO* out = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(out, leaf);
    char* text = nullptr;
    const long size = BIO_get_mem_data(out, &text);
    security::KeyPair pair{.certificate = std::string(text, static_cast<std::size_t>(size)),
                           .private_key = pki().head.private_key};
    BIO_free(out), BIO_free(leaf_text), BIO_free(key_text), X509_free(leaf), EVP_PKEY_free(key);
    return pair;
}

struct Refused {
    Error error;
    int requests;
};

// Makes a call with a secret. The server counts the requests that reach it.
Refused call_refused(TestServer& server, net::Endpoint endpoint) {
    endpoint.bearer = "rtn1.secret";
    auto answer = net::Client(endpoint).call({.method = "POST", .target = "/v1/join", .body = "secret"});
    REQUIRE_FALSE(answer.ok());
    return {answer.error(), server.requests};
}

}  // namespace

TEST_CASE("a head of another cluster is refused before anything is sent") {
    TestServer server(echo);
    net::Endpoint endpoint = server.endpoint();
    endpoint.ca = security::make_authority("other")->certificate;
    Refused refused = call_refused(server, endpoint);
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.error.message.find("cannot be trusted") != std::string::npos);
    CHECK(refused.requests == 0);
}

TEST_CASE("a certificate of the same cluster with another name is refused") {
    net::ServerOptions options;
    options.identity = pki().identity();
    options.identity.certificate_chain = pki().node.certificate + pki().authority.certificate;
    options.identity.private_key = pki().node.private_key;
    TestServer server(echo, options);
    Refused refused = call_refused(server, server.endpoint());
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.error.message.find("\"node:n1\", expected \"rtrain-head\"") != std::string::npos);
    CHECK(refused.requests == 0);
    net::Endpoint named = server.endpoint();
    named.expected_name = "node:n1";
    CHECK(net::Client(named).call({.target = "/"}).ok());
}

TEST_CASE("an expired certificate is refused, with the reason") {
    net::ServerOptions options;
    const security::KeyPair old = expired_leaf();
    options.identity = {.certificate_chain = old.certificate + pki().authority.certificate,
                        .private_key = old.private_key};
    TestServer server(echo, options);
    Refused refused = call_refused(server, server.endpoint());
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.error.message.find("expired") != std::string::npos);
    CHECK(refused.requests == 0);
}

TEST_CASE("joining knows the authority by its fingerprint alone") {
    TestServer server(echo);
    net::Endpoint endpoint = server.endpoint();
    endpoint.ca.clear();
    endpoint.ca_fingerprint = pki().fingerprint;
    auto answer = net::Client(endpoint).call({.target = "/"});
    if (!answer) FAIL(answer.error().message);
    CHECK(server.requests == 1);
    endpoint.ca_fingerprint = std::string(64, '0');
    Refused refused = call_refused(server, endpoint);
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.error.message.find(pki().fingerprint) != std::string::npos);
    CHECK(refused.requests == 1);
}

TEST_CASE("an impostor that presents the right authority but has no leaf of it is refused") {
    const security::KeyPair other = *security::make_authority("evil");
    const security::KeyPair leaf = *security::make_leaf(other, "rtrain-head");
    net::ServerOptions options;
    options.identity = {.certificate_chain = leaf.certificate + pki().authority.certificate,
                        .private_key = leaf.private_key};
    TestServer server(echo, options);
    net::Endpoint endpoint = server.endpoint();
    endpoint.ca.clear();
    endpoint.ca_fingerprint = pki().fingerprint;
    Refused refused = call_refused(server, endpoint);
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.requests == 0);
}

TEST_CASE("without an authority or a fingerprint nothing is dialled") {
    TestServer server(echo);
    net::Endpoint endpoint = server.endpoint();
    endpoint.ca.clear();
    CHECK(call_refused(server, endpoint).error.code == ErrorCode::usage);
    endpoint.ca = "no certificate";
    CHECK(call_refused(server, endpoint).error.code == ErrorCode::invalid);
}

TEST_CASE(
    "a client certificate of the cluster gives its name; one of a stranger fails the handshake, and is told once") {
    Seen<std::string> names, notes;
    net::ServerOptions options;
    options.on_refused = [&](const std::string& note) { notes.set(note); };
    TestServer server(
        [&](net::Request request, auto responder) {
            names.set(request.peer.certificate_name);
            responder->send({});
        },
        options);
    net::Endpoint endpoint = server.endpoint();
    endpoint.certificate = pki().node.certificate;
    endpoint.private_key = pki().node.private_key;
    REQUIRE(net::Client(endpoint).call({.target = "/"}).ok());
    CHECK(names.all() == std::vector<std::string>{"node:n1"});

    const security::KeyPair other = *security::make_authority("other");
    const security::KeyPair stranger = *security::make_leaf(other, "node:n1");
    endpoint.certificate = stranger.certificate;
    endpoint.private_key = stranger.private_key;
    for (int i = 0; i < 3; ++i) CHECK(call_refused(server, endpoint).requests == 1);
    REQUIRE(notes.wait(1));
    CHECK(notes.all().front().find("client certificate is not accepted") != std::string::npos);
    server.home.on_loop([] {});
    CHECK(notes.count() == 1);
}

TEST_CASE("the certificate of a run is refused as a client's, and as the head's") {
    const security::KeyPair run = test::channel_pair(*security::make_channel(std::string(32, 'a')));
    TestServer server(echo);
    net::Endpoint endpoint = server.endpoint();
    endpoint.certificate = run.certificate;
    endpoint.private_key = run.private_key;
    CHECK(call_refused(server, endpoint).requests == 0);

    net::ServerOptions options;
    options.identity = {.certificate_chain = run.certificate + pki().authority.certificate,
                        .private_key = run.private_key};
    TestServer impostor(echo, options);
    const Refused refused = call_refused(impostor, impostor.endpoint());
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.requests == 0);
}

TEST_CASE("where a client certificate is required, none is refused as unauthorised") {
    net::ServerOptions options;
    options.require_client_certificate = true;
    TestServer server(echo, options);
    Refused refused = call_refused(server, server.endpoint());
    CHECK(refused.error.code == ErrorCode::unauthorised);
    CHECK(refused.requests == 0);
}

TEST_CASE("a renewed certificate serves new connections, and running ones stay") {
    TestServer server(echo);
    net::Client running(server.endpoint());
    REQUIRE(running.call({.target = "/"}).ok());
    const security::KeyPair authority = *security::make_authority("c2");
    const security::KeyPair leaf = *security::make_leaf(authority, "rtrain-head");
    server.home.on_loop([&] {
        server.server->replace_identity(
            {.certificate_chain = leaf.certificate + authority.certificate, .private_key = leaf.private_key});
    });
    CHECK(running.call({.target = "/"}).ok());
    CHECK_FALSE(net::Client(server.endpoint()).call({.target = "/"}).ok());
    net::Endpoint renewed = server.endpoint();
    renewed.ca = authority.certificate;
    CHECK(net::Client(renewed).call({.target = "/"}).ok());
}
