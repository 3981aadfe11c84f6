// Keys, certificates, tokens. PEM and text in, PEM and text out; OpenSSL stays inside the .cpp files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"
#include "storage/crypto/digest.hpp"

namespace rtrain::security {

struct KeyPair {
    std::string certificate;  // PEM
    std::string private_key;  // PEM
};

Result<KeyPair> make_authority(const std::string& cluster_id);  // 10 years, backdated a day
Result<KeyPair> make_leaf(const KeyPair& authority,
                          const std::string& common_name);  // key made here; 1 year, backdated a day
struct SigningRequest {
    std::string request, private_key;
};  // PEM
Result<SigningRequest> make_request(const std::string& common_name);
// Signs with *our* common name, whatever the request says. Nodes: "node:<name>"; the head: "rtrain-head".
Result<std::string> sign_request(const KeyPair& authority, const std::string& request, const std::string& common_name);
Result<std::string> fingerprint(const std::string& certificate);  // sha256 of the DER, lower-case hex
Result<std::int64_t> expires_wall_ms(const std::string& certificate);
Result<std::string> serial_of(const std::string& certificate);  // upper-case hex

std::string random_hex(std::size_t bytes);  // from the kernel
using crypto::sha256_hex;
bool equal_constant_time(std::string_view a, std::string_view b);

// What `token create` prints. Node tokens carry the CA's fingerprint: "rtn1.<fingerprint>.<id>.<secret>"; people's
// tokens: "rtu1.<id>.<secret>". Only the secret's hash is stored.
struct TokenText {
    bool for_node = false;
    std::string ca_fingerprint;
    std::string id;
    std::string secret;
};
std::string to_text(const TokenText& token);
Result<TokenText> parse_token(std::string_view text);

}  // namespace rtrain::security
