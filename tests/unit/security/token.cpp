// Tokens as text, and the cryptographic functions below them.
#include <set>

#include "daemon/security/security.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::security;

namespace {
const std::string ca(64, 'a');
}

TEST_CASE("a node's token carries the authority's fingerprint there and back") {
    TokenText token{.for_node = true, .ca_fingerprint = ca, .id = "t1", .secret = random_hex(24)};
    Result<TokenText> read = parse_token(to_text(token));
    REQUIRE(read.ok());
    CHECK(read->for_node);
    CHECK(read->ca_fingerprint == ca);
    CHECK(read->id == "t1");
    CHECK(read->secret == token.secret);
}

TEST_CASE("a person's token survives being pasted with a newline") {
    TokenText token{.for_node = false, .ca_fingerprint = "", .id = "ana", .secret = "5ec2e7"};
    CHECK(to_text(token) == "rtu1.ana.5ec2e7");
    Result<TokenText> read = parse_token("  " + to_text(token) + "\r\n");
    REQUIRE(read.ok());
    CHECK_FALSE(read->for_node);
    CHECK(read->secret == "5ec2e7");
}

TEST_CASE("what is not a token is refused with a reason that does not repeat it") {
    const std::vector<std::string> wrong = {
        "",
        "secret-word",
        "rtu1",
        "rtu1.a",
        "rtu1.a.",
        "rtu1..secret-word",
        "rtu1.a.b.secret-word",
        "rtn1." + ca + ".secret-word",
        "rtn1." + ca.substr(1) + ".a.secret-word",
        "rtn1." + std::string(64, 'A') + ".a.secret-word",
        "rtu2.a.secret-word",
        "rtu1.a.secret word",
        "rtu1.a." + std::string(129, 'x'),
    };
    for (const std::string& text : wrong) {
        CAPTURE(text);
        Result<TokenText> read = parse_token(text);
        REQUIRE_FALSE(read.ok());
        CHECK(read.error().code == ErrorCode::invalid);
        CHECK(read.error().message.find("secret-word") == std::string::npos);
        CHECK_FALSE(read.error().next.empty());
    }
}

TEST_CASE("sha256 is the standard's, in lower-case hex") {
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("random text has the asked length and does not repeat") {
    std::set<std::string> seen;
    for (int i = 0; i < 1'000; ++i) seen.insert(random_hex(16));
    CHECK(seen.size() == 1'000);
    CHECK(seen.begin()->size() == 32);
    CHECK(random_hex(0).empty());
}

TEST_CASE("secrets are compared whole") {
    CHECK(equal_constant_time("abc", "abc"));
    CHECK_FALSE(equal_constant_time("abc", "abd"));
    CHECK_FALSE(equal_constant_time("abc", "abcd"));
    CHECK(equal_constant_time("", ""));
}
