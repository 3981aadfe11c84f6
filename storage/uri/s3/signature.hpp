// AWS Signature Version 4 as S3 wants it: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
// Inside of storage/uri only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain::storage::s3 {

struct Credentials {
    std::string key_id, secret, token;  // token: of temporary credentials, else empty
    std::string source;                 // where they were found, in words
    std::int64_t expires_unix_s = 0;    // 0: never, as far as is known
    bool operator==(const Credentials&) const = default;
};
using Parameters = std::map<std::string, std::string>;  // of a query: names and values, not encoded

struct Signing {
    std::string method, host, path;  // path: encoded, with its leading '/'
    Parameters query;
    std::vector<std::pair<std::string, std::string>> headers;  // those beside host and date: lower-case names
    std::string payload_sha256, region;
    std::int64_t unix_s = 0;
};
// All headers to send but host: those given, the date, the payload's hash, the token, and `authorization`.
std::vector<std::pair<std::string, std::string>> signed_headers(const Signing&, const Credentials&);

std::string query_text(const Parameters& query);  // encoded, in the order that is signed
// Returns the hash of a part of an open file.
Result<std::string> sha256_hex(int descriptor, std::int64_t offset, std::int64_t bytes, const std::string& path);

}  // namespace rtrain::storage::s3
