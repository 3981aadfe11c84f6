// Authenticated encryption (AES-256-GCM) and its keys (scrypt, HKDF-SHA-256) by OpenSSL, whose headers stay in the .cpp
// file. Byte strings hold raw bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rtrain::crypto {

inline constexpr std::size_t key_bytes = 32, nonce_bytes = 12, tag_bytes = 16;

std::string random_bytes(std::size_t count);

// Returns the key that scrypt (RFC 7914, r = 8, p = 1) makes of a passphrase. It needs 2^(log2_n + 10) bytes of memory.
// Returns nullopt if that memory is missing.
std::optional<std::string> passphrase_key(std::string_view passphrase, std::string_view salt, unsigned log2_n);

// Returns another key of the same strength for one purpose (HKDF-SHA-256, RFC 5869).
std::string derived_key(std::string_view key, std::string_view salt, std::string_view purpose);

// A key seals each nonce once only. `beside` is authenticated and is not part of the sealed text.
struct Seal {
    std::string_view key, nonce, beside;
};
std::string sealed(const Seal& seal, std::string_view text);  // the ciphertext, then the tag
std::optional<std::string> unsealed(const Seal& seal,
                                    std::string_view sealed_text);  // nullopt: changed, or another key

}  // namespace rtrain::crypto
