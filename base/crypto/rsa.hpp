// Signatures by RSA keys, by OpenSSL, whose headers stay in the .cpp file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rtrain::crypto {

// Returns the signature RSASSA-PKCS1-v1_5 with SHA-256 (RS256 of RFC 7518). `pem`: an unencrypted private key. Fails
// without any part of the key in the message.
Result<std::string> rs256(std::string_view pem, std::string_view bytes);

}  // namespace rtrain::crypto
