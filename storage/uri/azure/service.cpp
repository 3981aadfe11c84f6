// Decides where a request goes and what authorises it. Explains the refusals of Azure Blob Storage.

#include "storage/uri/azure/service.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <mutex>

#include "base/percent.hpp"
#include "storage/uri/azure/settings.hpp"
#include "storage/uri/azure/signature.hpp"
#include "storage/uri/azure/tokens.hpp"
#include "storage/uri/objects/xml.hpp"

namespace rtrain::storage::azure {
namespace {

constexpr const char* version_of_interface = "2021-12-02";

// {account}: the credential and its source.
constexpr std::array refusals{
    objects::Meaning{"ContainerNotFound", ErrorCode::invalid,
                     "there is no container '{container}' in the account '{name}' at {server}",
                     "make the container, or correct storage_path"},
    objects::Meaning{"InvalidResourceName", ErrorCode::invalid, "a name in it is not one of Azure's",
                     "correct storage_path"},
    objects::Meaning{"BlobNotFound", ErrorCode::not_found, "it does not exist", ""},
    objects::Meaning{"NoSuchKey", ErrorCode::not_found, "it does not exist", ""},
    objects::Meaning{"AuthenticationFailed", ErrorCode::unauthorised,
                     "{server}, where it is {date}, does not accept {account}",
                     "correct that credential; if this machine's clock differs, set it (NTP)"},
    objects::Meaning{"InvalidAuthenticationInfo", ErrorCode::unauthorised, "{server} does not accept {account}",
                     "correct that credential"},
    objects::Meaning{"NoAuthenticationInformation", ErrorCode::unauthorised, "{server} does not accept {account}",
                     "correct that credential"},
    objects::Meaning{"AuthenticationRequired", ErrorCode::unauthorised, "{server} does not accept {account}",
                     "correct that credential"},
    objects::Meaning{"AuthorizationPermissionMismatch", ErrorCode::unauthorised, "{server} denies it to {account}",
                     "give that identity the role Storage Blob Data Contributor, or a SAS the permissions racwdl"},
    objects::Meaning{"AuthorizationFailure", ErrorCode::unauthorised, "{server} denies it to {account}",
                     "give that identity the role Storage Blob Data Contributor; does the account's firewall admit "
                     "this machine?"},
    objects::Meaning{"AccessDenied", ErrorCode::unauthorised, "{server} denies it to {account}",
                     "give that identity the role Storage Blob Data Contributor"},
    objects::Meaning{"KeyBasedAuthenticationNotPermitted", ErrorCode::unauthorised,
                     "the account '{name}' accepts no shared keys", "use a managed identity or a user delegation SAS"},
    objects::Meaning{"AccountIsDisabled", ErrorCode::unauthorised, "the account '{name}' is disabled",
                     "ask who operates it"},
    objects::Meaning{"LeaseIdMissing", ErrorCode::conflict, "somebody holds a lease on it", "break the lease"},
    objects::Meaning{"BlobImmutableDueToPolicy", ErrorCode::conflict, "a policy makes it immutable",
                     "use a container without such a policy"},
    objects::Meaning{"InvalidBlockList", ErrorCode::conflict, "somebody else writes it at the same time", "try again"},
};

class AzureService final : public objects::Service {
  public:
    AzureService(std::string scheme, std::string named, Container container, Variables variables, Settings settings,
                 std::shared_ptr<http::Connections> connections)
        : scheme_(std::move(scheme)),
          named_(std::move(named)),
          container_(std::move(container)),
          variables_(std::move(variables)),
          settings_(std::move(settings)),
          connections_(std::move(connections)),
          tokens_([this] { return fetch_token(this->settings(), *connections_); }) {}

    Status check_credentials() { return has_tokens() ? tokens_.check() : Status(Done{}); }

    std::string shown(const std::string& key) const override {
        return scheme_ + named_ + (key.empty() ? "" : "/" + key);
    }
    std::string server() override { return objects::origin_of(settings().endpoint).origin; }
    int tries_most() override { return settings().attempts; }
    Result<http::Request> prepared(const objects::ObjectRequest& request, const std::string& body_hash) override;
    bool is_about_credentials(const objects::Answer& answer) const override {
        return answer.status == 401 || answer.code() == "AuthenticationFailed";
    }
    bool renew_credentials() override;
    std::span<const objects::Meaning> meanings() const override { return refusals; }
    objects::Words words(const objects::Answer& answer) override;
    std::string next_if_unanswered() const override {
        return "can this machine reach it, and is the account's name right?";
    }

  private:
    Settings settings() {
        const std::lock_guard lock(mutex_);
        return settings_;
    }
    bool has_tokens() {
        const Kind kind = settings().kind;
        return kind != Kind::shared_key && kind != Kind::sas;
    }

    std::string scheme_, named_;
    Container container_;
    Variables variables_;
    std::mutex mutex_;
    Settings settings_;
    std::shared_ptr<http::Connections> connections_;
    objects::Tokens tokens_;
};

bool AzureService::renew_credentials() {
    if (has_tokens()) return tokens_.renew();
    auto read = read_settings(variables_, container_);
    const std::lock_guard lock(mutex_);
    if (!read || read->kind != settings_.kind || (read->key == settings_.key && read->sas == settings_.sas))
        return false;
    settings_ = std::move(*read);
    return true;
}

Result<http::Request> AzureService::prepared(const objects::ObjectRequest& request, const std::string& body_hash) {
    const Settings now = settings();
    const objects::Origin server = objects::origin_of(now.endpoint);
    std::string path = server.base + "/" + percent_encoded(container_.name, Slash::encoded);
    if (!request.key.empty()) path += "/" + percent_encoded(request.key, Slash::kept);
    std::string query = objects::query_text(request.query);
    if (now.kind == Kind::sas) query += (query.empty() ? "" : "&") + now.sas;
    http::Request prepared;
    prepared.url = server.origin + path + (query.empty() ? "" : "?" + query);
    prepared.ca_bundle = now.ca_bundle;
    prepared.headers = request.headers;
    if (!body_hash.empty()) prepared.headers.emplace_back("content-md5", body_hash);
    prepared.headers.emplace_back("x-ms-version", version_of_interface);
    prepared.headers.emplace_back("x-ms-date", http_date(static_cast<std::int64_t>(std::time(nullptr))));
    if (now.kind == Kind::shared_key) {
        const std::int64_t bytes =
            request.body.descriptor < 0 ? static_cast<std::int64_t>(request.body.memory.size()) : request.body.bytes;
        prepared.headers.emplace_back("authorization", authorization({.method = request.method,
                                                                      .account = now.account,
                                                                      .path = path,
                                                                      .query = request.query,
                                                                      .headers = prepared.headers,
                                                                      .body_bytes = bytes},
                                                                     now.key));
    } else if (now.kind != Kind::sas) {
        auto token = tokens_.current();
        if (!token) return token.error();
        prepared.headers.emplace_back("authorization", "Bearer " + *token);
    }
    return prepared;
}

objects::Words AzureService::words(const objects::Answer& answer) {
    const Settings now = settings();
    std::string account = "the identity";
    if (now.kind == Kind::shared_key) account = "the key of the account '" + now.account + "'";
    if (now.kind == Kind::sas) account = "the shared access signature";
    if (now.kind == Kind::managed_identity) account = "this machine's identity";
    return {{"account", account + " (from " + now.source + ")"},
            {"name", now.account},
            {"container", container_.name},
            {"server", server()},
            {"date", answer.header("date")}};
}

}  // namespace

Result<std::unique_ptr<objects::Client>> open_client(const std::string& scheme, const std::string& container,
                                                     const Variables& variables) {
    auto opened = http::Connections::open();
    if (!opened) return opened.error();
    const std::shared_ptr<http::Connections> connections = std::move(*opened);
    auto parts = container_of(container);
    if (!parts) return parts.error();
    auto settings = read_settings(variables, *parts);
    if (!settings) return settings.error();
    auto service =
        std::make_unique<AzureService>(scheme, container, *parts, variables, std::move(*settings), connections);
    if (Status fine = service->check_credentials(); !fine) return fine.error();
    return std::make_unique<objects::Client>(connections, std::move(service));
}

}  // namespace rtrain::storage::azure
