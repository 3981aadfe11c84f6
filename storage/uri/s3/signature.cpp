// What is signed, and with what: a hash of the request, by a key that is good for one day, region and service.

#include "storage/uri/s3/signature.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

namespace rtrain::storage::s3 {
namespace {

std::string hex(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
        text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
    }
    return text;
}

class Digest {
  public:
    explicit Digest(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
        RTRAIN_CHECK(context_ && EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1);
    }
    void add(std::string_view bytes) {
        RTRAIN_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
    }
    std::string sum() {
        unsigned char bytes[EVP_MAX_MD_SIZE];
        unsigned int size = 0;
        RTRAIN_CHECK(EVP_DigestFinal_ex(context_.get(), bytes, &size) == 1);
        return {reinterpret_cast<const char*>(bytes), size};
    }

  private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

std::string hmac(std::string_view key, std::string_view text) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    RTRAIN_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes, &size) != nullptr);
    return {reinterpret_cast<const char*>(bytes), size};
}

std::string date_text(std::int64_t unix_s) {  // 20130524T000000Z
    const auto seconds = static_cast<std::time_t>(unix_s);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
    return text;
}

std::string trimmed(const std::string& value) {
    const auto begin = value.find_first_not_of(" \t"), end = value.find_last_not_of(" \t");
    return begin == value.npos ? "" : value.substr(begin, end - begin + 1);
}

}  // namespace

std::string percent_encoded(std::string_view text, bool keep_slashes) {
    std::string out;
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes)) {
            out += c;
        } else {
            out += '%';
            out += "0123456789ABCDEF"[static_cast<unsigned char>(c) >> 4];
            out += "0123456789ABCDEF"[static_cast<unsigned char>(c) & 15];
        }
    }
    return out;
}

std::string percent_decoded(std::string_view text) {
    const auto digit = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '%' && at + 2 < text.size() && digit(text[at + 1]) >= 0 && digit(text[at + 2]) >= 0) {
            out += static_cast<char>(digit(text[at + 1]) * 16 + digit(text[at + 2]));
            at += 2;
        } else {
            out += text[at] == '+' ? ' ' : text[at];
        }
    }
    return out;
}

std::string query_text(const Parameters& query) {
    std::vector<std::string> pairs;
    for (const auto& [name, value] : query)
        pairs.push_back(percent_encoded(name, false) + "=" + percent_encoded(value, false));
    std::sort(pairs.begin(), pairs.end());
    std::string text;
    for (const std::string& pair : pairs) text += (text.empty() ? "" : "&") + pair;
    return text;
}

std::string base64(std::string_view bytes) {
    std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size =
        EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

std::string sha256_hex(std::string_view bytes) {
    Digest digest(EVP_sha256());
    digest.add(bytes);
    return hex(digest.sum());
}

std::string md5_bytes(std::string_view bytes) {
    Digest digest(EVP_md5());
    digest.add(bytes);
    return digest.sum();
}

Result<std::string> sha256_hex(int descriptor, std::int64_t offset, std::int64_t bytes, const std::string& path) {
    Digest digest(EVP_sha256());
    std::vector<char> piece(256 << 10);
    while (bytes > 0) {
        const auto wanted =
            static_cast<std::size_t>(std::min<std::int64_t>(bytes, static_cast<std::int64_t>(piece.size())));
        const ssize_t got = ::pread(descriptor, piece.data(), wanted, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{ErrorCode::io, "reading " + path + ": " + std::strerror(errno), ""};
        if (got == 0)
            return Error{ErrorCode::io, path + " became shorter while it was uploaded",
                         "do not write into a reported checkpoint"};
        digest.add({piece.data(), static_cast<std::size_t>(got)});
        offset += got;
        bytes -= got;
    }
    return hex(digest.sum());
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
        lines += name + ":" + trimmed(value) + "\n";
        names += (names.empty() ? "" : ";") + name;
    }
    const std::string whole = request.method + "\n" + request.path + "\n" + query_text(request.query) + "\n" + lines +
                              "\n" + names + "\n" + request.payload_sha256;
    const std::string scope = day + "/" + request.region + "/s3/aws4_request";
    const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + sha256_hex(whole);
    const std::string key = hmac(hmac(hmac(hmac("AWS4" + who.secret, day), request.region), "s3"), "aws4_request");
    headers.emplace_back("authorization", "AWS4-HMAC-SHA256 Credential=" + who.key_id + "/" + scope +
                                              ",SignedHeaders=" + names + ",Signature=" + hex(hmac(key, to_sign)));
    return headers;
}

}  // namespace rtrain::storage::s3
