// Keys, certificates, tokens. Input and output are PEM and text; OpenSSL is used in the .cpp files only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto/digest.hpp"
#include "base/result.hpp"

namespace rtrain::security {

struct KeyPair {
    std::string certificate;  // PEM
    std::string private_key;  // PEM
};

Result<KeyPair> make_authority(const std::string& cluster_id);  // valid for 10 years, from one day ago
Result<KeyPair> make_leaf(const KeyPair& authority,
                          const std::string& common_name);  // makes the key here; valid for 1 year, from one day ago
struct SigningRequest {
    std::string request, private_key;
};  // PEM
Result<SigningRequest> make_request(const std::string& common_name);
// Signs the request with the given common name, whatever the request contains. Nodes: "node:<name>"; the head:
// "rtrain-head".
Result<std::string> sign_request(const KeyPair& authority, const std::string& request, const std::string& common_name);
Result<std::string> fingerprint(const std::string& certificate);  // SHA-256 of the DER as lower-case hex
Result<std::int64_t> expires_wall_ms(const std::string& certificate);
Result<std::string> serial_of(const std::string& certificate);  // upper-case hex

// Returns a self-signed certificate and its key, by which the processes of one run recognise each other: base64 of the
// certificate's DER, ".", base64 of the key's DER. Equal seeds (32 bytes) give equal texts. No authority signs it, so
// no head and no agent accepts it.
Result<std::string> make_channel(const std::string& seed);
inline constexpr const char* channel_name = "rtrain-run";  // the common name of every run's certificate

std::string random_hex(std::size_t bytes);  // from the kernel's random source
using crypto::sha256_hex;
bool equal_constant_time(std::string_view a, std::string_view b);

// The output of `token create`. Node tokens contain the CA's fingerprint: "rtn1.<fingerprint>.<id>.<secret>". User
// tokens: "rtu1.<id>.<secret>". Only a hash of the secret is stored.
struct TokenText {
    bool for_node = false;
    std::string ca_fingerprint;
    std::string id;
    std::string secret;
};
std::string to_text(const TokenText& token);
Result<TokenText> parse_token(std::string_view text);

}  // namespace rtrain::security
