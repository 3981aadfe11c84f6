// A run's channel as PEM, for tests that use its certificate where a node's or the head's belongs.
#pragma once

#include <string>

#include "daemon/security/security.hpp"

namespace rtrain::test {

inline std::string pem_of(const std::string& kind, const std::string& base64) {
    std::string text = "-----BEGIN " + kind + "-----\n";
    for (std::size_t at = 0; at < base64.size(); at += 64) text += base64.substr(at, 64) + "\n";
    return text + "-----END " + kind + "-----\n";
}

inline security::KeyPair channel_pair(const std::string& channel) {
    const std::size_t dot = channel.find('.');
    return {.certificate = pem_of("CERTIFICATE", channel.substr(0, dot)),
            .private_key = pem_of("PRIVATE KEY", channel.substr(dot + 1))};
}

}  // namespace rtrain::test
