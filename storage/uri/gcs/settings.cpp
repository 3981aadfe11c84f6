// Finds the credentials of Google Cloud Storage. A place that is named but unusable is an error: no other account takes
// its turn. No message contains a key or a token.

#include "storage/uri/gcs/settings.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/json_text.hpp"
#include "storage/uri/gcs/gcs.hpp"

namespace rtrain::storage::gcs {
namespace {

constexpr const char* google_tokens = "https://oauth2.googleapis.com/token";
constexpr std::size_t longest_file = 1 << 20;

std::string text_of(const nlohmann::json& object, const char* name) {
    const auto entry = object.find(name);
    return entry != object.end() && entry->is_string() ? entry->get<std::string>() : "";
}

std::string gcloud_file(const Variables& variables) {
    std::string folder = variables("CLOUDSDK_CONFIG");
    if (folder.empty()) {
        std::string home = variables("HOME");
        char space[4096];
        passwd entry{};
        passwd* account = nullptr;
        if (home.empty() && ::getpwuid_r(::getuid(), &entry, space, sizeof space, &account) == 0 && account != nullptr)
            home = account->pw_dir;
        folder = home + "/.config/gcloud";
    }
    return folder + "/application_default_credentials.json";
}

// Returns nullopt if there is no such file.
Result<std::optional<std::string>> content_of(const std::string& path) {
    errno = 0;
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (!text && (errno == ENOENT || errno == ENOTDIR)) return std::optional<std::string>();
    if (!text || text.str().size() > longest_file)
        return Error{ErrorCode::unauthorised,
                     "the credentials file " + path + " cannot be read" +
                         (errno != 0 ? ": " + std::string(std::strerror(errno)) : ""),
                     "correct GOOGLE_APPLICATION_CREDENTIALS, or the rights of that file"};
    return std::optional(text.str());
}

// Returns the credentials that variables or files name; nullopt: there are none.
Result<std::optional<Settings>> named_credentials(const Variables& variables, std::string& why_no_file) {
    const std::string key_id = variables("GS_ACCESS_KEY_ID"), secret = variables("GS_SECRET_ACCESS_KEY");
    if (!key_id.empty() && !secret.empty()) {
        Settings settings;
        settings.kind = Kind::hmac;
        settings.source = "GS_ACCESS_KEY_ID in the environment";
        settings.hmac = {.key_id = key_id, .secret = secret, .token = {}, .source = settings.source};
        return std::optional(settings);
    }
    if (!key_id.empty() || !secret.empty())
        return Error{
            ErrorCode::unauthorised,
            std::string("no Google Cloud Storage credentials: of GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, ") +
                (key_id.empty() ? "the first" : "the second") + " is not set",
            "set both, or neither"};
    if (const std::string token = variables("GOOGLE_OAUTH_ACCESS_TOKEN"); !token.empty()) {
        Settings settings;
        settings.kind = Kind::token;
        settings.source = "GOOGLE_OAUTH_ACCESS_TOKEN in the environment";
        settings.token = token;
        return std::optional(settings);
    }
    const auto account = [](const std::string& text, const std::string& source) -> Result<std::optional<Settings>> {
        auto read = read_account(text, source);
        if (!read) return read.error();
        return std::optional(std::move(*read));
    };
    if (const std::string text = variables("GOOGLE_SERVICE_ACCOUNT_KEY"); !text.empty())
        return account(text, "GOOGLE_SERVICE_ACCOUNT_KEY in the environment");
    if (const std::string path = variables("GOOGLE_APPLICATION_CREDENTIALS"); !path.empty()) {
        const auto text = content_of(path);
        if (!text) return text.error();
        if (!*text)
            return Error{ErrorCode::unauthorised,
                         "no Google Cloud Storage credentials: GOOGLE_APPLICATION_CREDENTIALS names " + path +
                             ", which is not there",
                         "correct GOOGLE_APPLICATION_CREDENTIALS"};
        return account(**text, path);
    }
    const std::string path = gcloud_file(variables);
    const auto text = content_of(path);
    if (!text) return text.error();
    if (*text) return account(**text, path);
    why_no_file = path + " is not there";
    return std::optional<Settings>();
}

Result<std::string> endpoint_of(const Variables& variables) {
    std::string url = variables("STORAGE_EMULATOR_HOST");
    if (url.empty()) return std::string("https://storage.googleapis.com");
    if (url.find("://") == url.npos) url = "http://" + url;
    while (url.ends_with('/')) url.pop_back();
    const bool is_http = url.starts_with("http://") || url.starts_with("https://");
    if (!is_http || url.find_first_of("@?# \t\r\n") != url.npos)
        return Error{ErrorCode::invalid, "STORAGE_EMULATOR_HOST is '" + url + "'",
                     "give it as http://host:port or https://host:port"};
    return url;
}

}  // namespace

Result<Settings> read_account(const std::string& text, const std::string& source) {
    const auto unusable = [&](const std::string& why) {
        return Error{ErrorCode::unauthorised, "the Google credentials of " + source + " cannot be used: " + why,
                     "take the key of a service account (gcloud iam service-accounts keys create)"};
    };
    const nlohmann::json json = parse_json(text);
    if (!json.is_object()) return unusable("they are no JSON object");
    Settings settings;
    settings.source = source;
    Account& account = settings.account;
    account.token_server = text_of(json, "token_uri");
    if (account.token_server.empty()) account.token_server = google_tokens;
    if (!account.token_server.starts_with("https://") && !account.token_server.starts_with("http://"))
        return unusable("token_uri is no URL");
    const std::string type = text_of(json, "type");
    if (type == "service_account") {
        settings.kind = Kind::service_account;
        account.email = text_of(json, "client_email");
        account.key_id = text_of(json, "private_key_id");
        account.private_key = text_of(json, "private_key");
        if (account.email.empty() || account.private_key.empty())
            return unusable("client_email or private_key is missing");
        return settings;
    }
    if (type != "authorized_user")
        return unusable("type is '" + type + "'; this version takes service_account and authorized_user");
    settings.kind = Kind::authorized_user;
    account.client_id = text_of(json, "client_id");
    account.client_secret = text_of(json, "client_secret");
    account.refresh_token = text_of(json, "refresh_token");
    if (account.client_id.empty() || account.refresh_token.empty())
        return unusable("client_id or refresh_token is missing");
    return settings;
}

Result<Settings> read_settings(const Variables& variables) {
    auto endpoint = endpoint_of(variables);
    if (!endpoint) return endpoint.error();
    std::string why_no_file;
    auto named = named_credentials(variables, why_no_file);
    if (!named) return named.error();
    Settings settings = named->value_or(Settings{});
    if (!*named) {
        const bool is_emulator = !variables("STORAGE_EMULATOR_HOST").empty();
        settings.kind = is_emulator ? Kind::anonymous : Kind::metadata;
        settings.source = is_emulator ? "nowhere: an emulator needs none" : "the metadata server";
        settings.why_no_file = why_no_file;
        if (const std::string off = variables("NO_GCE_CHECK"); off != "true") {
            const std::string host = variables("GCE_METADATA_HOST");
            settings.metadata_server = "http://" + (host.empty() ? "169.254.169.254" : host);
        }
    }
    settings.endpoint = *endpoint;
    settings.ca_bundle = variables("SSL_CERT_FILE");
    settings.attempts = objects::tries_of(variables);
    return settings;
}

}  // namespace rtrain::storage::gcs

namespace rtrain::storage {

std::string own_gcs_endpoint() {
    const auto endpoint = gcs::endpoint_of(objects::process_variable);
    return endpoint ? *endpoint : "";
}

Result<std::string> foreign_token_server(const std::string& service_account_key) {
    const auto settings = gcs::read_account(service_account_key, "GOOGLE_SERVICE_ACCOUNT_KEY");
    if (!settings) return settings.error();
    const std::string& url = settings->account.token_server;
    for (const char* own :
         {"https://oauth2.googleapis.com/", "https://accounts.google.com/", "https://www.googleapis.com/"})
        if (url.starts_with(own)) return std::string();
    return objects::origin_of(url).origin;
}

}  // namespace rtrain::storage
