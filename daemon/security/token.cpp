// Tokens as text, and the three functions that all secrets depend on: random bytes, a hash, and an equality whose time
// does not depend on the values.
#include <openssl/crypto.h>
#include <sys/random.h>

#include <cerrno>
#include <string_view>

#include "base/hex.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::security {
namespace {

constexpr std::size_t field_limit = 128;
constexpr std::size_t fingerprint_length = 64;

bool all_of(std::string_view text, std::string_view allowed) {
    return text.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_field(std::string_view text) {
    return !text.empty() && text.size() <= field_limit &&
           all_of(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
}

bool is_fingerprint(std::string_view text) { return text.size() == fingerprint_length && storage::is_hex(text); }

std::string_view without_margin(std::string_view text) {  // Removes white space that a paste may add.
    std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0;;) {
        std::size_t end = text.find('.', begin);
        parts.emplace_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

Error not_a_token(const std::string& why) {  // The message never contains the text, because it may hold a secret.
    return {ErrorCode::invalid, "this is not a token of rtrain: " + why,
            "copy the whole line that `rtrain token create` printed"};
}

}  // namespace

std::string random_hex(std::size_t bytes) {
    std::vector<unsigned char> buffer(bytes);
    for (std::size_t filled = 0; filled < bytes;) {
        ssize_t got = getrandom(buffer.data() + filled, bytes - filled, 0);
        RTRAIN_CHECK(got > 0 || errno == EINTR, "getrandom failed with errno " + std::to_string(errno));
        if (got > 0) filled += static_cast<std::size_t>(got);
    }
    return storage::hex({reinterpret_cast<const char*>(buffer.data()), bytes});
}

bool equal_constant_time(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string to_text(const TokenText& token) {
    if (token.for_node) return "rtn1." + token.ca_fingerprint + "." + token.id + "." + token.secret;
    return "rtu1." + token.id + "." + token.secret;
}

Result<TokenText> parse_token(std::string_view text) {
    std::vector<std::string> parts = split(without_margin(text));
    bool for_node = parts[0] == "rtn1";
    if (!for_node && parts[0] != "rtu1")
        return not_a_token("it begins neither with rtn1. (nodes) nor with rtu1. (people)");
    std::size_t expected = for_node ? 4 : 3;
    if (parts.size() != expected)
        return not_a_token("it has " + std::to_string(parts.size()) + " parts between dots instead of " +
                           std::to_string(expected));
    if (for_node && !is_fingerprint(parts[1])) return not_a_token("its fingerprint is not 64 lower-case hex digits");
    if (!is_field(parts[expected - 2]) || !is_field(parts[expected - 1]))
        return not_a_token("its id or its secret is empty, too long, or has a strange character");
    return TokenText{.for_node = for_node,
                     .ca_fingerprint = for_node ? parts[1] : "",
                     .id = parts[expected - 2],
                     .secret = parts[expected - 1]};
}

}  // namespace rtrain::security
