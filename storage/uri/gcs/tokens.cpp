#include "storage/uri/gcs/tokens.hpp"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/crypto/rsa.hpp"
#include "base/json_text.hpp"

namespace rtrain::storage::gcs {
namespace {

constexpr const char* scope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr std::int64_t lasts_s = 3'600;
constexpr int metadata_patience_s = 2, server_patience_s = 10;

std::string base64_url(std::string_view bytes) {  // RFC 4648, section 5, without padding
    std::string text = base64_encode(bytes);
    std::replace(text.begin(), text.end(), '+', '-');
    std::replace(text.begin(), text.end(), '/', '_');
    while (text.ends_with('=')) text.pop_back();
    return text;
}

Result<objects::Token> fetch_by_form(const Settings& settings, http::Connections& connections,
                                     const std::map<std::string, std::string>& fields, const std::string& whose) {
    const std::string form = objects::form_text(fields);
    const http::Reply reply =
        connections.send({.method = "POST",
                          .url = settings.account.token_server,
                          .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                          .body = {.memory = form, .bytes = static_cast<std::int64_t>(form.size())},
                          .ca_bundle = settings.ca_bundle,
                          .stall_s = server_patience_s});
    return objects::read_token(reply, settings.account.token_server, whose);
}

Result<objects::Token> fetch_from_metadata(const Settings& settings, http::Connections& connections) {
    const auto absent = [&](const std::string& why) {
        return Error{
            ErrorCode::not_found,
            "no Google Cloud Storage credentials: none of GS_ACCESS_KEY_ID with GS_SECRET_ACCESS_KEY, "
            "GOOGLE_OAUTH_ACCESS_TOKEN, GOOGLE_SERVICE_ACCOUNT_KEY and GOOGLE_APPLICATION_CREDENTIALS is set, " +
                settings.why_no_file + ", and no metadata server lends a token (" + why + ")",
            "for a job, name GOOGLE_SERVICE_ACCOUNT_KEY, or both GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, in "
            "its secrets and set them where you submit; for this command or an agent, set one of them in its "
            "environment"};
    };
    if (settings.metadata_server.empty()) return absent("NO_GCE_CHECK is true");
    const http::Reply reply = connections.send(
        {.method = "GET",
         .url = settings.metadata_server + "/computeMetadata/v1/instance/service-accounts/default/token",
         .headers = {{"metadata-flavor", "Google"}},
         .body = {},
         .connect_s = metadata_patience_s,
         .stall_s = metadata_patience_s});
    const auto flavor = reply.headers.find("metadata-flavor");
    if (reply.status == 0 || !reply.trouble.empty()) return absent(settings.metadata_server + ": " + reply.trouble);
    if (flavor == reply.headers.end() || flavor->second != "Google")
        return absent("the server at " + settings.metadata_server + " is not Google's");
    if (reply.status == 404) return absent("this machine has no service account");
    return objects::read_token(reply, settings.metadata_server, "this machine's service account");
}

}  // namespace

Result<std::string> assertion_of(const Account& account, std::int64_t unix_s) {
    nlohmann::json header{{"alg", "RS256"}, {"typ", "JWT"}};
    if (!account.key_id.empty()) header["kid"] = account.key_id;
    const nlohmann::json claims{{"iss", account.email},
                                {"scope", scope},
                                {"aud", account.token_server},
                                {"iat", unix_s},
                                {"exp", unix_s + lasts_s}};
    const std::string text = base64_url(json_text(header)) + "." + base64_url(json_text(claims));
    auto signature = crypto::rs256(account.private_key, text);
    if (!signature)
        return Error{
            ErrorCode::unauthorised,
            "the key of the service account " + account.email + " cannot be used: " + signature.error().message,
            "take a new key (gcloud iam service-accounts keys create)"};
    return text + "." + base64_url(*signature);
}

Result<objects::Token> fetch_token(const Settings& settings, http::Connections& connections) {
    const Account& account = settings.account;
    if (settings.kind == Kind::metadata) return fetch_from_metadata(settings, connections);
    if (settings.kind == Kind::authorized_user)
        return fetch_by_form(settings, connections,
                             {{"grant_type", "refresh_token"},
                              {"client_id", account.client_id},
                              {"client_secret", account.client_secret},
                              {"refresh_token", account.refresh_token}},
                             "the user's refresh token (from " + settings.source + ")");
    const auto assertion = assertion_of(account, static_cast<std::int64_t>(std::time(nullptr)));
    if (!assertion) return assertion.error();
    return fetch_by_form(settings, connections,
                         {{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {"assertion", *assertion}},
                         "the service account " + account.email + " (from " + settings.source + ")");
}

}  // namespace rtrain::storage::gcs
