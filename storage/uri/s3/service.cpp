// Decides where a request goes and signs it. Explains the refusals of S3 servers.

#include "storage/uri/s3/service.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <mutex>

#include "base/percent.hpp"
#include "storage/uri/objects/protocol.hpp"
#include "storage/uri/objects/xml.hpp"
#include "storage/uri/s3/lent.hpp"
#include "storage/uri/s3/settings.hpp"

namespace rtrain::storage::s3 {
namespace {

constexpr std::int64_t renewal_s = 300, renewal_pause_s = 10;

// Returns true if the bucket's name can be part of a host name. Dots would not match the server's certificate.
bool fits_into_host(const std::string& bucket) {
    return bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == bucket.npos;
}

struct Target {
    objects::Origin server;
    std::string path;  // encoded
};

// Requests to Amazon name the bucket in the host, requests to other servers name it in the path.
Target target_of(const Settings& settings, const std::string& bucket, const std::string& key) {
    std::string server = settings.endpoint;
    const bool by_host = server.empty() && fits_into_host(bucket);
    if (server.empty())
        server = "https://" + (by_host ? bucket + "." : "") + "s3." + settings.region + ".amazonaws.com" +
                 (settings.region.starts_with("cn-") ? ".cn" : "");
    Target target{.server = objects::origin_of(server), .path = {}};
    target.path = target.server.base + (by_host ? "" : "/" + percent_encoded(bucket, Slash::encoded));
    if (!key.empty() || target.path.empty()) target.path += "/" + percent_encoded(key, Slash::kept);
    return target;
}

// {key}: the access key and the source of the credentials.
constexpr std::array meanings{
    objects::Meaning{"NoSuchBucket", ErrorCode::invalid, "there is no bucket '{bucket}' at {server}",
                     "make the bucket, or correct storage_path"},
    objects::Meaning{"InvalidBucketName", ErrorCode::invalid, "'{bucket}' cannot be a bucket's name",
                     "correct storage_path"},
    objects::Meaning{"NoSuchKey", ErrorCode::not_found, "it does not exist", ""},
    objects::Meaning{"AccessDenied", ErrorCode::unauthorised, "{server} denies it to {key}",
                     "allow that key s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject and "
                     "s3:AbortMultipartUpload below storage_path"},
    objects::Meaning{"InvalidAccessKeyId", ErrorCode::unauthorised, "{server} does not know {key}",
                     "correct AWS_ACCESS_KEY_ID, or AWS_ENDPOINT_URL if another server was meant"},
    objects::Meaning{"SignatureDoesNotMatch", ErrorCode::unauthorised,
                     "the secret that goes with {key} is not the one {server} knows", "correct AWS_SECRET_ACCESS_KEY"},
    objects::Meaning{"ExpiredToken", ErrorCode::unauthorised, "the session of {key} has expired",
                     "renew AWS_SESSION_TOKEN, or use a key that lasts as long as the run"},
    objects::Meaning{"InvalidToken", ErrorCode::unauthorised, "AWS_SESSION_TOKEN does not go with {key}",
                     "renew or unset it"},
    objects::Meaning{"RequestTimeTooSkewed", ErrorCode::unauthorised,
                     "this machine's clock is too far from that of {server}, where it is {date}",
                     "set the clock (NTP)"},
    objects::Meaning{"AuthorizationHeaderMalformed", ErrorCode::invalid,
                     "the bucket is in region '{region}', asked was '{ours}'", "set AWS_REGION={region}"},
    objects::Meaning{"PermanentRedirect", ErrorCode::invalid, "the bucket is in region '{region}', asked was '{ours}'",
                     "set AWS_REGION={region}"},
    objects::Meaning{"TemporaryRedirect", ErrorCode::invalid, "the bucket is in region '{region}', asked was '{ours}'",
                     "set AWS_REGION={region}"},
    objects::Meaning{"QuotaExceeded", ErrorCode::full, "the quota of {key} at {server} is used up",
                     "remove old checkpoints, or raise the quota"},
    objects::Meaning{"XMinioStorageFull", ErrorCode::full, "{server} has no room left", "make room there"},
    objects::Meaning{"InsufficientStorage", ErrorCode::full, "{server} has no room left", "make room there"},
};

class S3Service final : public objects::Service {
  public:
    S3Service(std::string bucket, Variables variables, Settings settings,
              std::shared_ptr<http::Connections> connections)
        : bucket_(std::move(bucket)),
          variables_(std::move(variables)),
          settings_(std::move(settings)),
          connections_(std::move(connections)) {}

    std::string shown(const std::string& key) const override {
        return "s3://" + bucket_ + (key.empty() ? "" : "/" + key);
    }
    std::string server() override { return target_of(settings(), bucket_, "").server.origin; }
    int tries_most() override { return settings().attempts; }
    Result<std::string> hash_of_body(const objects::ObjectRequest& request) override {
        return objects::sha256_of_body(request);
    }
    Result<http::Request> prepared(const objects::ObjectRequest& request, const std::string& body_hash) override;
    bool is_about_credentials(const objects::Answer& answer) const override {
        const std::string code = answer.code();
        return code == "ExpiredToken" || code == "InvalidAccessKeyId" || code == "InvalidToken" ||
               code == "TokenRefreshRequired";
    }
    bool renew_credentials() override;
    std::span<const objects::Meaning> meanings() const override { return s3::meanings; }
    objects::Words words(const objects::Answer& answer) override;
    std::string next_if_untrusted() const override {
        return "set AWS_CA_BUNDLE to the certificate authority of that server";
    }
    std::string next_if_unanswered() const override {
        return "is the object store up, and does AWS_ENDPOINT_URL name it?";
    }

  private:
    Settings settings();

    std::string bucket_;
    Variables variables_;
    std::mutex mutex_;
    std::int64_t renewed_unix_s_ = 0;  // time of the last request for new lent credentials
    Settings settings_;
    std::shared_ptr<http::Connections> connections_;
};

// Lent credentials are renewed some minutes before they expire.
Settings S3Service::settings() {
    const auto now = static_cast<std::int64_t>(std::time(nullptr));
    std::unique_lock lock(mutex_);
    const std::int64_t ends = settings_.credentials.expires_unix_s;
    if (ends == 0 || now < ends - renewal_s || now < renewed_unix_s_ + renewal_pause_s) return settings_;
    renewed_unix_s_ = now;
    lock.unlock();
    renew_credentials();
    lock.lock();
    return settings_;
}

bool S3Service::renew_credentials() {
    auto read = read_settings(variables_, [this] { return lent_credentials(variables_, *connections_); });
    const std::lock_guard lock(mutex_);
    if (!read || read->credentials == settings_.credentials) return false;
    settings_ = std::move(*read);
    return true;
}

Result<http::Request> S3Service::prepared(const objects::ObjectRequest& request, const std::string& body_hash) {
    const Settings now = settings();
    const Target target = target_of(now, bucket_, request.key);
    const std::string query = objects::query_text(request.query);
    http::Request prepared;
    prepared.url = target.server.origin + target.path + (query.empty() ? "" : "?" + query);
    prepared.headers = signed_headers({.method = request.method,
                                       .host = target.server.host,
                                       .path = target.path,
                                       .query = request.query,
                                       .headers = request.headers,
                                       .payload_sha256 = body_hash,
                                       .region = now.region,
                                       .unix_s = static_cast<std::int64_t>(std::time(nullptr))},
                                      now.credentials);
    prepared.ca_bundle = now.ca_bundle;
    return prepared;
}

objects::Words S3Service::words(const objects::Answer& answer) {
    const Settings now = settings();
    std::string region = objects::element(answer.body, "Region");
    if (region.empty()) region = answer.header("x-amz-bucket-region");
    if (region.empty()) region = "?";
    const std::string& id = now.credentials.key_id;
    return {{"key", "the access key ..." + id.substr(id.size() - std::min<std::size_t>(4, id.size())) + " (from " +
                        now.credentials.source + ")"},
            {"bucket", bucket_},
            {"server", server()},
            {"ours", now.region},
            {"region", region},
            {"date", answer.header("date")}};
}

}  // namespace

Result<std::unique_ptr<objects::Client>> open_client(const std::string& bucket, const Variables& variables) {
    auto opened = http::Connections::open();
    if (!opened) return opened.error();
    const std::shared_ptr<http::Connections> connections = std::move(*opened);
    auto settings = read_settings(variables, [&] { return lent_credentials(variables, *connections); });
    if (!settings) return settings.error();
    return std::make_unique<objects::Client>(
        connections, std::make_unique<S3Service>(bucket, variables, std::move(*settings), connections));
}

}  // namespace rtrain::storage::s3
