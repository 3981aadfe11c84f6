// AWS Signature Version 4 for S3: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html Used
// inside of storage/uri only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rtrain::storage::s3 {

struct Credentials {
    std::string key_id, secret, token;  // `token`: for temporary credentials; else empty
    std::string source;                 // where the credentials were found, as text
    std::int64_t expires_unix_s = 0;    // 0: they never expire, as far as is known
    bool operator==(const Credentials&) const = default;
};
using Parameters = std::map<std::string, std::string>;  // names and values of a query, not encoded

struct Signing {
    std::string method, host, path;  // `path`: encoded, with its leading '/'
    Parameters query;
    // further headers beside Host and the date; names in lower case
    std::vector<std::pair<std::string, std::string>> headers;
    std::string payload_sha256, region;
    std::int64_t unix_s = 0;
};
// Returns all headers to send but Host: the given ones, the date, the payload's hash, the token, and `authorization`.
std::vector<std::pair<std::string, std::string>> signed_headers(const Signing&, const Credentials&);

std::string query_text(const Parameters& query);  // encoded, in the order that is signed
// Returns the hash of a part of an open file.
Result<std::string> sha256_hex(int descriptor, std::int64_t offset, std::int64_t bytes, const std::string& path);

}  // namespace rtrain::storage::s3
