// Decides where a request goes and how often it is tried, and puts a refusal into words for a person.

#include "storage/uri/s3/client.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <random>
#include <thread>

#include "base/crypto/digest.hpp"
#include "base/percent.hpp"
#include "storage/uri/s3/lent.hpp"
#include "storage/uri/s3/xml.hpp"

namespace rtrain::storage::s3 {
namespace {

constexpr int longest_wait_ms = 5'000;
constexpr std::int64_t renewal_s = 300, renewal_pause_s = 10;
constexpr std::chrono::seconds no_try_after(25);  // A server that hangs takes 30 s, so one try is enough.

struct Target {
    std::string scheme_and_host, host, path;  // `host`: as in the Host header; `path`: encoded
};

// Returns true if the bucket's name can be part of a host name. Dots would not match the server's certificate.
bool fits_into_host(const std::string& bucket) {
    return bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == bucket.npos;
}

// Requests to Amazon name the bucket in the host, requests to other servers name it in the path.
Target target_of(const Settings& settings, const std::string& bucket, const std::string& key) {
    std::string server = settings.endpoint, base;
    const bool by_host = server.empty() && fits_into_host(bucket);
    if (server.empty())
        server = "https://" + (by_host ? bucket + "." : "") + "s3." + settings.region + ".amazonaws.com" +
                 (settings.region.starts_with("cn-") ? ".cn" : "");
    const auto host_at = server.find("://") + 3;
    if (const auto slash = server.find('/', host_at); slash != server.npos) {
        base = server.substr(slash);
        server.resize(slash);
    }
    std::string host = server.substr(host_at);
    const std::string usual = server.starts_with("https://") ? ":443" : ":80";
    if (host.ends_with(usual)) host.resize(host.size() - usual.size());
    std::string path = base + (by_host ? "" : "/" + percent_encoded(bucket, Slash::encoded));
    if (!key.empty() || path.empty()) path += "/" + percent_encoded(key, Slash::kept);
    return {server, host, path};
}

std::string code_in(const std::string& body) { return element(body, "Code"); }

bool another_try_may_help(const http::Reply& reply) {
    if (reply.status == 0 || !reply.trouble.empty()) return !reply.untrusted && !reply.stopped;
    if (reply.status == 429 || (reply.status >= 500 && reply.status != 501 && reply.status != 507)) return true;
    if (reply.status != 400 && reply.status != 409) return false;
    const std::string code = code_in(reply.body);
    return code == "RequestTimeout" || code == "OperationAborted" || code == "ConditionalRequestConflict";
}

bool about_credentials(const std::string& code) {
    return code == "ExpiredToken" || code == "InvalidAccessKeyId" || code == "InvalidToken" ||
           code == "TokenRefreshRequired";
}

// Waits 0.2 s, doubled with each try, less a random part, so that many clients do not return at once.
void wait_before(int tries) {
    static thread_local std::minstd_rand chance(std::random_device{}());
    const int most = std::min(longest_wait_ms, 200 << std::min(tries - 1, 5));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(most / 2 + static_cast<int>(chance() % static_cast<unsigned>(most / 2 + 1))));
}

struct Meaning {
    const char* code;
    ErrorCode kind;
    const char* why;  // may contain {key} (source of the credentials), {region}, {ours}, {date}, {bucket}, {server}
    const char* next;
};
constexpr std::array meanings{
    Meaning{"NoSuchBucket", ErrorCode::invalid, "there is no bucket '{bucket}' at {server}",
            "make the bucket, or correct storage_path"},
    Meaning{"InvalidBucketName", ErrorCode::invalid, "'{bucket}' cannot be a bucket's name", "correct storage_path"},
    Meaning{"NoSuchKey", ErrorCode::not_found, "it does not exist", ""},
    Meaning{"AccessDenied", ErrorCode::unauthorised, "{server} denies it to {key}",
            "allow that key s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject and "
            "s3:AbortMultipartUpload below storage_path"},
    Meaning{"InvalidAccessKeyId", ErrorCode::unauthorised, "{server} does not know {key}",
            "correct AWS_ACCESS_KEY_ID, or AWS_ENDPOINT_URL if another server was meant"},
    Meaning{"SignatureDoesNotMatch", ErrorCode::unauthorised,
            "the secret that goes with {key} is not the one {server} knows", "correct AWS_SECRET_ACCESS_KEY"},
    Meaning{"ExpiredToken", ErrorCode::unauthorised, "the session of {key} has expired",
            "renew AWS_SESSION_TOKEN, or use a key that lasts as long as the run"},
    Meaning{"InvalidToken", ErrorCode::unauthorised, "AWS_SESSION_TOKEN does not go with {key}", "renew or unset it"},
    Meaning{"RequestTimeTooSkewed", ErrorCode::unauthorised,
            "this machine's clock is too far from that of {server}, where it is {date}", "set the clock (NTP)"},
    Meaning{"AuthorizationHeaderMalformed", ErrorCode::invalid,
            "the bucket is in region '{region}', asked was '{ours}'", "set AWS_REGION={region}"},
    Meaning{"PermanentRedirect", ErrorCode::invalid, "the bucket is in region '{region}', asked was '{ours}'",
            "set AWS_REGION={region}"},
    Meaning{"TemporaryRedirect", ErrorCode::invalid, "the bucket is in region '{region}', asked was '{ours}'",
            "set AWS_REGION={region}"},
    Meaning{"QuotaExceeded", ErrorCode::full, "the quota of {key} at {server} is used up",
            "remove old checkpoints, or raise the quota"},
    Meaning{"XMinioStorageFull", ErrorCode::full, "{server} has no room left", "make room there"},
    Meaning{"InsufficientStorage", ErrorCode::full, "{server} has no room left", "make room there"},
};

const char* code_of_status(int status) {  // for an answer without a body, such as one to HEAD
    if (status == 301) return "PermanentRedirect";
    if (status == 307) return "TemporaryRedirect";
    if (status == 403) return "AccessDenied";
    if (status == 404) return "NoSuchKey";
    return status == 507 ? "InsufficientStorage" : "";
}

ErrorCode kind_of_status(int status) {
    if (status == 401 || status == 403) return ErrorCode::unauthorised;
    if (status == 404) return ErrorCode::not_found;
    if (status == 409 || status == 412) return ErrorCode::conflict;
    return status >= 500 && status != 501 ? ErrorCode::unreachable : ErrorCode::invalid;
}

std::string filled_in(std::string text, const std::map<std::string, std::string>& words) {
    for (const auto& [name, value] : words)
        for (auto at = text.find("{" + name + "}"); at != text.npos;
             at = text.find("{" + name + "}", at + value.size()))
            text.replace(at, name.size() + 2, value);
    return text;
}

}  // namespace

std::string Answer::header(const std::string& name) const {
    const auto entry = headers.find(name);
    return entry == headers.end() ? "" : entry->second;
}

Client::Client(std::string bucket, Variables variables, Settings settings,
               std::unique_ptr<http::Connections> connections)
    : bucket_(std::move(bucket)),
      variables_(std::move(variables)),
      settings_(std::move(settings)),
      connections_(std::move(connections)) {}

Result<std::unique_ptr<Client>> Client::open(const std::string& bucket, const Variables& variables) {
    auto connections = http::Connections::open();
    if (!connections) return connections.error();
    auto settings = read_settings(variables, [&] { return lent_credentials(variables, **connections); });
    if (!settings) return settings.error();
    return std::unique_ptr<Client>(new Client(bucket, variables, std::move(*settings), std::move(*connections)));
}

// Lent credentials are renewed some minutes before they expire.
Settings Client::settings() {
    const auto now = static_cast<std::int64_t>(std::time(nullptr));
    std::unique_lock lock(mutex_);
    const std::int64_t ends = settings_.credentials.expires_unix_s;
    if (ends == 0 || now < ends - renewal_s || now < renewed_unix_s_ + renewal_pause_s) return settings_;
    renewed_unix_s_ = now;
    lock.unlock();
    reload_settings();
    lock.lock();
    return settings_;
}

bool Client::reload_settings() {
    auto read = read_settings(variables_, [this] { return lent_credentials(variables_, *connections_); });
    const std::lock_guard lock(mutex_);
    if (!read || read->credentials == settings_.credentials) return false;
    settings_ = std::move(*read);
    return true;
}

std::string Client::server() { return target_of(settings(), bucket_, "").scheme_and_host; }

http::Reply Client::send_once(const ObjectRequest& request, const Settings& now) {
    const Target target = target_of(now, bucket_, request.key);
    const std::string query = query_text(request.query);
    http::Request http_request{.method = request.method,
                               .url = target.scheme_and_host + target.path + (query.empty() ? "" : "?" + query)};
    const std::string hash =
        request.body_sha256.empty() ? crypto::sha256_hex(request.body.memory) : request.body_sha256;
    http_request.headers = signed_headers({.method = request.method,
                                           .host = target.host,
                                           .path = target.path,
                                           .query = request.query,
                                           .headers = request.headers,
                                           .payload_sha256 = hash,
                                           .region = now.region,
                                           .unix_s = static_cast<std::int64_t>(std::time(nullptr))},
                                          now.credentials);
    http_request.body = request.body;
    if (request.body.descriptor < 0) http_request.body.bytes = static_cast<std::int64_t>(request.body.memory.size());
    http_request.sink = request.sink;
    http_request.ca_bundle = now.ca_bundle;
    if (request.begin) request.begin();
    return connections_->send(http_request);
}

Result<Answer> Client::send(const ObjectRequest& request) {
    using Clock = std::chrono::steady_clock;
    const auto last_try = Clock::now() + no_try_after;
    const int tries_most = request.tries_most > 0 ? request.tries_most : settings().attempts;
    bool reloaded = false;
    for (int tries = 1;; ++tries) {
        const Settings now = settings();
        http::Reply reply = send_once(request, now);
        if (another_try_may_help(reply) && tries < tries_most && Clock::now() < last_try && !http::ending()) {
            wait_before(tries);
            continue;
        }
        if (reply.status == 0 || !reply.trouble.empty()) return unanswered(request, reply, tries);
        if (!reloaded && reply.status >= 400 && about_credentials(code_in(reply.body)) && reload_settings()) {
            reloaded = true;
            continue;
        }
        return Answer{
            .status = reply.status, .headers = std::move(reply.headers), .body = std::move(reply.body), .tries = tries};
    }
}

Result<Answer> Client::expect_good(const ObjectRequest& request) {
    auto answer = send(request);
    if (!answer || answer->good()) return answer;
    return refused(request, *answer);
}

Error Client::unanswered(const ObjectRequest& request, const http::Reply& reply, int tries) {
    const std::string times = tries == 1 ? "" : " (tried " + std::to_string(tries) + " times)";
    return {ErrorCode::unreachable,
            request.doing + " " + shown(request.key) + ": no answer from " + server() + ": " + reply.trouble + times,
            reply.untrusted ? "set AWS_CA_BUNDLE to the certificate authority of that server"
                            : "is the object store up, and does AWS_ENDPOINT_URL name it?"};
}

Error Client::refused(const ObjectRequest& request, const Answer& answer) {
    const Settings now = settings();
    std::string code = code_in(answer.body), region = element(answer.body, "Region");
    if (code.empty()) code = code_of_status(answer.status);
    if (region.empty()) region = answer.header("x-amz-bucket-region");
    if (region.empty()) region = "?";
    const std::string& id = now.credentials.key_id;
    const std::map<std::string, std::string> words{
        {"key", "the access key ..." + id.substr(id.size() - std::min<std::size_t>(4, id.size())) + " (from " +
                    now.credentials.source + ")"},
        {"bucket", bucket_},
        {"server", server()},
        {"ours", now.region},
        {"region", region},
        {"date", answer.header("date")}};
    const std::string what = request.doing + " " + shown(request.key) + ": ";
    for (const Meaning& meaning : meanings)
        if (code == meaning.code)
            return {meaning.kind, what + filled_in(meaning.why, words), filled_in(meaning.next, words)};
    std::string why = server() + " answered " + std::to_string(answer.status);
    if (!code.empty()) why += " " + code;
    if (const std::string message = element(answer.body, "Message"); !message.empty()) why += ": " + message;
    return {kind_of_status(answer.status), what + why, ""};
}

}  // namespace rtrain::storage::s3
