// Signs a request: computes a hash of it with a key that is valid for one day, region and service.

#include "storage/uri/s3/signature.hpp"

#include <algorithm>
#include <ctime>

#include "base/crypto/digest.hpp"
#include "base/hex.hpp"

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

objects::Headers signed_headers(const Signing& request, const Credentials& who, const Names& words) {
    const std::string time = date_text(request.unix_s), day = time.substr(0, 8);
    const std::string prefix = words.header_prefix;
    objects::Headers headers = request.headers;
    headers.emplace_back(prefix + "content-sha256", request.payload_sha256);
    headers.emplace_back(prefix + "date", time);
    if (!who.token.empty()) headers.emplace_back(prefix + "security-token", who.token);

    auto canonical = headers;
    canonical.emplace_back("host", request.host);
    std::sort(canonical.begin(), canonical.end());
    std::string lines, names;
    for (const auto& [name, value] : canonical) {
        lines += name + ":" + without_blanks(value) + "\n";
        names += (names.empty() ? "" : ";") + name;
    }
    const std::string whole = request.method + "\n" + request.path + "\n" + objects::query_text(request.query) + "\n" +
                              lines + "\n" + names + "\n" + request.payload_sha256;
    const std::string scope = day + "/" + request.region + "/" + words.service + "/" + words.scope_end;
    const std::string to_sign =
        std::string(words.algorithm) + "\n" + time + "\n" + scope + "\n" + crypto::sha256_hex(whole);
    using crypto::hmac_sha256;
    const std::string key = hmac_sha256(
        hmac_sha256(hmac_sha256(hmac_sha256(words.secret_prefix + who.secret, day), request.region), words.service),
        words.scope_end);
    headers.emplace_back("authorization", std::string(words.algorithm) + " Credential=" + who.key_id + "/" + scope +
                                              ",SignedHeaders=" + names +
                                              ",Signature=" + hex(crypto::hmac_sha256(key, to_sign)));
    return headers;
}

}  // namespace rtrain::storage::s3
