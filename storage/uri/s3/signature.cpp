// Signs a request: computes a hash of it with a key that is valid for one day, region and service.

#include "storage/uri/s3/signature.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/crypto/digest.hpp"
#include "base/hex.hpp"
#include "base/percent.hpp"

namespace rtrain::storage::s3 {
namespace {

std::string date_text(std::int64_t unix_s) {  // 20130524T000000Z
    const auto seconds = static_cast<std::time_t>(unix_s);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
    return text;
}

std::string without_blanks(const std::string& value) {
    const auto begin = value.find_first_not_of(" \t"), end = value.find_last_not_of(" \t");
    return begin == value.npos ? "" : value.substr(begin, end - begin + 1);
}

}  // namespace

std::string query_text(const Parameters& query) {
    std::vector<std::string> pairs;
    for (const auto& [name, value] : query)
        pairs.push_back(percent_encoded(name, Slash::encoded) + "=" + percent_encoded(value, Slash::encoded));
    std::sort(pairs.begin(), pairs.end());
    std::string text;
    for (const std::string& pair : pairs) text += (text.empty() ? "" : "&") + pair;
    return text;
}

Result<std::string> sha256_hex(int descriptor, std::int64_t offset, std::int64_t bytes, const std::string& path) {
    crypto::Sha256 digest;
    std::vector<char> piece(256 << 10);
    while (bytes > 0) {
        const auto size =
            static_cast<std::size_t>(std::min<std::int64_t>(bytes, static_cast<std::int64_t>(piece.size())));
        const ssize_t got = ::pread(descriptor, piece.data(), size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{ErrorCode::io, "reading " + path + ": " + std::strerror(errno), ""};
        if (got == 0)
            return Error{ErrorCode::io, path + " became shorter while it was uploaded",
                         "do not write into a reported checkpoint"};
        digest.add({piece.data(), static_cast<std::size_t>(got)});
        offset += got;
        bytes -= got;
    }
    return digest.hex();
}

std::vector<std::pair<std::string, std::string>> signed_headers(const Signing& request, const Credentials& who) {
    const std::string time = date_text(request.unix_s), day = time.substr(0, 8);
    std::vector<std::pair<std::string, std::string>> headers = request.headers;
    headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
    headers.emplace_back("x-amz-date", time);
    if (!who.token.empty()) headers.emplace_back("x-amz-security-token", who.token);

    auto canonical = headers;
    canonical.emplace_back("host", request.host);
    std::sort(canonical.begin(), canonical.end());
    std::string lines, names;
    for (const auto& [name, value] : canonical) {
        lines += name + ":" + without_blanks(value) + "\n";
        names += (names.empty() ? "" : ";") + name;
    }
    const std::string whole = request.method + "\n" + request.path + "\n" + query_text(request.query) + "\n" + lines +
                              "\n" + names + "\n" + request.payload_sha256;
    const std::string scope = day + "/" + request.region + "/s3/aws4_request";
    const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + crypto::sha256_hex(whole);
    using crypto::hmac_sha256;
    const std::string key = hmac_sha256(
        hmac_sha256(hmac_sha256(hmac_sha256("AWS4" + who.secret, day), request.region), "s3"), "aws4_request");
    headers.emplace_back("authorization", "AWS4-HMAC-SHA256 Credential=" + who.key_id + "/" + scope +
                                              ",SignedHeaders=" + names +
                                              ",Signature=" + hex(crypto::hmac_sha256(key, to_sign)));
    return headers;
}

}  // namespace rtrain::storage::s3
