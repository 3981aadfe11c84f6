// AWS Signature Version 4 for S3: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, and
// the V4 signing process of Google Cloud Storage: https://cloud.google.com/storage/docs/authentication/signatures
// Used inside of storage/uri only.
#pragma once

#include <cstdint>
#include <string>

#include "storage/uri/objects/client.hpp"

namespace rtrain::storage::s3 {

struct Credentials {
    std::string key_id, secret, token;  // `token`: for temporary credentials; else empty
    std::string source;                 // where the credentials were found, as text
    std::int64_t expires_unix_s = 0;    // 0: they never expire, as far as is known
    bool operator==(const Credentials&) const = default;
};

// The words of a signature. Google Cloud Storage has the same algorithm with other words.
struct Names {
    const char *algorithm, *secret_prefix, *service, *scope_end;
    const char* header_prefix;  // begins the headers date, content-sha256 and security-token
};
inline constexpr Names amazon{"AWS4-HMAC-SHA256", "AWS4", "s3", "aws4_request", "x-amz-"};
inline constexpr Names google{"GOOG4-HMAC-SHA256", "GOOG4", "storage", "goog4_request", "x-goog-"};

struct Signing {
    std::string method, host, path;  // `path`: encoded, with its leading '/'
    objects::Parameters query;
    objects::Headers headers;  // further headers beside Host and the date
    std::string payload_sha256, region;
    std::int64_t unix_s = 0;
};
// Returns all headers to send but Host: the given ones, the date, the payload's hash, the token, and `authorization`.
objects::Headers signed_headers(const Signing&, const Credentials&, const Names& names = amazon);

}  // namespace rtrain::storage::s3
