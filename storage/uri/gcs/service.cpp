// Decides where a request goes and what authorises it. Explains the refusals of Google Cloud Storage.

#include "storage/uri/gcs/service.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <mutex>

#include "base/percent.hpp"
#include "storage/uri/gcs/settings.hpp"
#include "storage/uri/gcs/tokens.hpp"
#include "storage/uri/objects/protocol.hpp"

namespace rtrain::storage::gcs {
namespace {

// {account}: the account and the source of the credentials.
constexpr std::array refusals{
    objects::Meaning{"NoSuchBucket", ErrorCode::invalid, "there is no bucket '{bucket}' at {server}",
                     "make the bucket, or correct storage_path"},
    objects::Meaning{"InvalidBucketName", ErrorCode::invalid, "'{bucket}' cannot be a bucket's name",
                     "correct storage_path"},
    objects::Meaning{"NoSuchKey", ErrorCode::not_found, "it does not exist", ""},
    objects::Meaning{"AccessDenied", ErrorCode::unauthorised, "{server} denies it to {account}",
                     "give that account roles/storage.objectUser on the bucket '{bucket}'"},
    objects::Meaning{"AuthenticationRequired", ErrorCode::unauthorised, "{server} does not accept {account}",
                     "renew that credential, or correct STORAGE_EMULATOR_HOST if another server was meant"},
    objects::Meaning{"InvalidSecurity", ErrorCode::unauthorised, "{server} does not know {account}",
                     "correct GS_ACCESS_KEY_ID"},
    objects::Meaning{"InvalidAccessKeyId", ErrorCode::unauthorised, "{server} does not know {account}",
                     "correct GS_ACCESS_KEY_ID"},
    objects::Meaning{"SignatureDoesNotMatch", ErrorCode::unauthorised,
                     "the secret that goes with {account} is not the one {server} knows",
                     "correct GS_SECRET_ACCESS_KEY"},
    objects::Meaning{"ExpiredToken", ErrorCode::unauthorised, "the token of {account} has expired",
                     "use the key of a service account, whose tokens are renewed"},
    objects::Meaning{"RequestTimeTooSkewed", ErrorCode::unauthorised,
                     "this machine's clock is too far from that of {server}, where it is {date}",
                     "set the clock (NTP)"},
    objects::Meaning{"UserProjectMissing", ErrorCode::invalid,
                     "the bucket '{bucket}' makes the requester pay, which this version does not do",
                     "use a bucket whose owner pays"},
    objects::Meaning{"SlowDown", ErrorCode::unreachable, "{server} refuses so many requests in a short time",
                     "nothing: it is tried again"},
};

class GcsService final : public objects::Service {
  public:
    GcsService(std::string bucket, Variables variables, Settings settings,
               std::shared_ptr<http::Connections> connections)
        : bucket_(std::move(bucket)),
          variables_(std::move(variables)),
          settings_(std::move(settings)),
          connections_(std::move(connections)),
          tokens_([this] { return fetch_token(this->settings(), *connections_); }) {}

    Status check_credentials() { return has_fetched_tokens() ? tokens_.check() : Status(Done{}); }

    std::string shown(const std::string& key) const override {
        return "gs://" + bucket_ + (key.empty() ? "" : "/" + key);
    }
    std::string server() override { return objects::origin_of(settings().endpoint).origin; }
    int tries_most() override { return settings().attempts; }
    Result<http::Request> prepared(const objects::ObjectRequest& request, const std::string& body_hash) override;
    bool is_about_credentials(const objects::Answer& answer) const override {
        return answer.status == 401 || answer.code() == "ExpiredToken" || answer.code() == "InvalidSecurity";
    }
    bool renew_credentials() override;
    std::span<const objects::Meaning> meanings() const override { return refusals; }
    objects::Words words(const objects::Answer& answer) override;
    std::string next_if_unanswered() const override {
        return "can this machine reach it, and does STORAGE_EMULATOR_HOST (if it is set) name it?";
    }

  private:
    Settings settings() {
        const std::lock_guard lock(mutex_);
        return settings_;
    }
    bool has_fetched_tokens() {
        const Kind kind = settings().kind;
        return kind == Kind::service_account || kind == Kind::authorized_user || kind == Kind::metadata;
    }

    std::string bucket_;
    Variables variables_;
    std::mutex mutex_;
    Settings settings_;
    std::shared_ptr<http::Connections> connections_;
    objects::Tokens tokens_;
};

bool GcsService::renew_credentials() {
    if (has_fetched_tokens()) return tokens_.renew();
    auto read = read_settings(variables_);
    const std::lock_guard lock(mutex_);
    if (!read || read->kind != settings_.kind) return false;
    if (read->hmac == settings_.hmac && read->token == settings_.token) return false;
    settings_ = std::move(*read);
    return true;
}

Result<http::Request> GcsService::prepared(const objects::ObjectRequest& request, const std::string& body_hash) {
    const Settings now = settings();
    const objects::Origin server = objects::origin_of(now.endpoint);
    std::string path = server.base + "/" + percent_encoded(bucket_, Slash::encoded);
    if (!request.key.empty()) path += "/" + percent_encoded(request.key, Slash::kept);
    const std::string query = objects::query_text(request.query);
    http::Request prepared;
    prepared.url = server.origin + path + (query.empty() ? "" : "?" + query);
    prepared.ca_bundle = now.ca_bundle;
    prepared.headers = request.headers;
    if (!body_hash.empty()) prepared.headers.emplace_back("content-md5", body_hash);
    if (now.kind == Kind::hmac) {
        prepared.headers = s3::signed_headers({.method = request.method,
                                               .host = server.host,
                                               .path = path,
                                               .query = request.query,
                                               .headers = prepared.headers,
                                               .payload_sha256 = "UNSIGNED-PAYLOAD",
                                               .region = "auto",
                                               .unix_s = static_cast<std::int64_t>(std::time(nullptr))},
                                              now.hmac, s3::google);
        return prepared;
    }
    if (now.kind == Kind::anonymous) return prepared;
    std::string token = now.token;
    if (now.kind != Kind::token) {
        auto current = tokens_.current();
        if (!current) return current.error();
        token = std::move(*current);
    }
    prepared.headers.emplace_back("authorization", "Bearer " + token);
    return prepared;
}

objects::Words GcsService::words(const objects::Answer& answer) {
    const Settings now = settings();
    const std::string& id = now.hmac.key_id;
    std::string account = "the token";
    if (now.kind == Kind::hmac)
        account = "the access key ..." + id.substr(id.size() - std::min<std::size_t>(4, id.size()));
    if (now.kind == Kind::service_account) account = "the service account " + now.account.email;
    if (now.kind == Kind::authorized_user) account = "the user's credentials";
    if (now.kind == Kind::metadata) account = "this machine's service account";
    if (now.kind == Kind::anonymous) account = "a request without credentials";
    return {{"account", account + " (from " + now.source + ")"},
            {"bucket", bucket_},
            {"server", server()},
            {"date", answer.header("date")}};
}

}  // namespace

Result<std::unique_ptr<objects::Client>> open_client(const std::string& bucket, const Variables& variables) {
    auto opened = http::Connections::open();
    if (!opened) return opened.error();
    const std::shared_ptr<http::Connections> connections = std::move(*opened);
    auto settings = read_settings(variables);
    if (!settings) return settings.error();
    if (settings->kind == Kind::token && !objects::is_sendable(settings->token))
        return Error{ErrorCode::invalid, "GOOGLE_OAUTH_ACCESS_TOKEN has a space or a control character", ""};
    auto service = std::make_unique<GcsService>(bucket, variables, std::move(*settings), connections);
    if (Status fine = service->check_credentials(); !fine) return fine.error();
    return std::make_unique<objects::Client>(connections, std::move(service));
}

}  // namespace rtrain::storage::gcs
