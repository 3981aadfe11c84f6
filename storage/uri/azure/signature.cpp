#include "storage/uri/azure/signature.hpp"

#include <algorithm>
#include <ctime>

#include "base/base64.hpp"
#include "base/crypto/digest.hpp"

namespace rtrain::storage::azure {

std::string http_date(std::int64_t unix_s) {
    const auto seconds = static_cast<std::time_t>(unix_s);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    constexpr const char* days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char rest[32];
    std::strftime(rest, sizeof rest, " %Y %H:%M:%S GMT", &parts);
    const std::string day = (parts.tm_mday < 10 ? "0" : "") + std::to_string(parts.tm_mday);
    return std::string(days[parts.tm_wday]) + ", " + day + " " + months[parts.tm_mon] + rest;
}

std::string text_to_sign(const Signing& request) {
    const auto header = [&](const char* name) {
        for (const auto& [known, value] : request.headers)
            if (known == name) return value;
        return std::string();
    };
    std::string text = request.method + "\n";
    for (const char* name : {"content-encoding", "content-language"}) text += header(name) + "\n";
    text += (request.body_bytes == 0 ? "" : std::to_string(request.body_bytes)) + "\n";
    for (const char* name : {"content-md5", "content-type", "date", "if-modified-since", "if-match", "if-none-match",
                             "if-unmodified-since", "range"})
        text += header(name) + "\n";
    objects::Headers own;
    for (const auto& header_line : request.headers)
        if (header_line.first.starts_with("x-ms-")) own.push_back(header_line);
    std::sort(own.begin(), own.end());
    for (const auto& [name, value] : own) text += name + ":" + value + "\n";
    text += "/" + request.account + request.path;
    for (const auto& [name, value] : request.query) text += "\n" + name + ":" + value;
    return text;
}

std::string authorization(const Signing& request, const std::string& key) {
    return "SharedKey " + request.account + ":" + base64_encode(crypto::hmac_sha256(key, text_to_sign(request)));
}

}  // namespace rtrain::storage::azure
