#include "storage/uri/objects/tokens.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/percent.hpp"

namespace rtrain::storage::objects {
namespace {

constexpr std::int64_t renewed_before_s = 300, pause_s = 10, skew_most_s = 300;
constexpr std::size_t longest_reason = 300;

std::int64_t now_unix_s() { return static_cast<std::int64_t>(std::time(nullptr)); }

std::string text_in(const nlohmann::json& object, const char* name) {
    const auto entry = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || entry == object.end()) return "";
    if (entry->is_string()) return entry->get<std::string>();
    return entry->is_number_integer() ? std::to_string(entry->get<std::int64_t>()) : "";
}

// Returns the seconds by which this machine's clock differs from that of the server; 0 if the answer has no date.
std::int64_t skew_s(const http::Reply& reply) {
    const auto date = reply.headers.find("date");
    std::tm parts{};
    if (date == reply.headers.end() || ::strptime(date->second.c_str(), "%a, %d %b %Y %H:%M:%S", &parts) == nullptr)
        return 0;
    return now_unix_s() - static_cast<std::int64_t>(::timegm(&parts));
}

}  // namespace

Result<std::string> Tokens::current() {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = now_unix_s();
    const bool is_valid = !kept_.text.empty() && now < kept_.expires_unix_s;
    if (is_valid && (now < kept_.expires_unix_s - renewed_before_s || now < tried_unix_s_ + pause_s)) return kept_.text;
    tried_unix_s_ = now;
    auto fetched = fetch_();
    if (fetched) kept_ = std::move(*fetched);
    if (!fetched && !is_valid) return fetched.error();
    return kept_.text;
}

Status Tokens::check() {
    const auto token = current();
    if (token || token.error().code == ErrorCode::unreachable) return Done{};
    return Error{ErrorCode::unauthorised, token.error().message, token.error().next};
}

bool Tokens::renew() {
    const std::lock_guard lock(mutex_);
    tried_unix_s_ = now_unix_s();
    auto fetched = fetch_();
    if (!fetched || fetched->text == kept_.text) return false;
    kept_ = std::move(*fetched);
    return true;
}

Result<Token> read_token(const http::Reply& reply, const std::string& server, const std::string& whose) {
    if (reply.status == 0 || !reply.trouble.empty())
        return Error{ErrorCode::unreachable, "no answer from the token server " + server + ": " + reply.trouble,
                     "can this machine reach it?"};
    const nlohmann::json json = parse_json(reply.body);
    if (reply.status != 200) {
        std::string why = text_in(json, "error");
        if (const std::string more = text_in(json, "error_description"); !more.empty()) why += ": " + more;
        const std::int64_t skew = skew_s(reply);
        const bool busy = reply.status >= 500 || reply.status == 429 || reply.status == 408;
        return Error{busy ? ErrorCode::unreachable : ErrorCode::unauthorised,
                     "the token server " + server + " refuses " + whose + " (status " + std::to_string(reply.status) +
                         ")" + (why.empty() ? "" : ": " + why.substr(0, longest_reason)),
                     std::abs(skew) > skew_most_s ? "this machine's clock is " + std::to_string(skew) +
                                                        " s from that of the server: set the clock (NTP)"
                                                  : "is that credential still valid there?"};
    }
    Token token{.text = text_in(json, "access_token"), .expires_unix_s = 0};
    std::int64_t lasts_s = std::strtoll(text_in(json, "expires_in").c_str(), nullptr, 10);
    if (const std::string end = text_in(json, "expires_on"); lasts_s <= 0 && !end.empty())
        lasts_s = std::strtoll(end.c_str(), nullptr, 10) - now_unix_s();
    if (!is_sendable(token.text) || lasts_s <= 0)
        return Error{ErrorCode::unauthorised, "the answer of the token server " + server + " is no token",
                     "is a proxy between this machine and that server?"};
    token.expires_unix_s = now_unix_s() + lasts_s;
    return token;
}

std::string form_text(const std::map<std::string, std::string>& fields) {
    std::string text;
    for (const auto& [name, value] : fields)
        text += (text.empty() ? "" : "&") + percent_encoded(name, Slash::encoded) + "=" +
                percent_encoded(value, Slash::encoded);
    return text;
}

bool is_sendable(const std::string& token) {
    return !token.empty() && std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace rtrain::storage::objects
