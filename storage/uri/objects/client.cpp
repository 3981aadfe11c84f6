// Decides how often a request is tried, and puts a refusal into words for a person.

#include "storage/uri/objects/client.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/percent.hpp"
#include "storage/uri/objects/protocol.hpp"
#include "storage/uri/objects/xml.hpp"

namespace rtrain::storage::objects {
namespace {

constexpr int longest_wait_ms = 5'000, usual_tries = 6;
constexpr std::chrono::seconds no_try_after(25);  // A server that hangs takes 30 s, so one try is enough.

bool another_try_may_help(const http::Reply& reply, const Answer& answer) {
    if (reply.status == 0 || !reply.trouble.empty()) return !reply.untrusted && !reply.stopped;
    if (reply.status == 408 || reply.status == 429) return true;
    if (reply.status >= 500 && reply.status != 501 && reply.status != 507) return true;
    if (reply.status != 400 && reply.status != 409) return false;
    const std::string code = answer.code();
    return code == "RequestTimeout" || code == "OperationAborted" || code == "ConditionalRequestConflict";
}

const char* code_of_status(int status) {  // for an answer without a body, such as one to HEAD
    if (status == 301) return "PermanentRedirect";
    if (status == 307) return "TemporaryRedirect";
    if (status == 401) return "AuthenticationRequired";
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

std::string filled_in(std::string text, const Words& words) {
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

std::string Answer::code() const {
    const std::string named = header("x-ms-error-code");
    return named.empty() ? element(body, "Code") : named;
}

Result<std::string> Service::hash_of_body(const ObjectRequest& request) {
    return request.method == "PUT" ? md5_of_body(request) : std::string();
}

std::string Service::next_if_untrusted() const {
    return "set SSL_CERT_FILE to the certificate authority of that server";
}

Client::Client(std::shared_ptr<http::Connections> connections, std::unique_ptr<Service> service)
    : connections_(std::move(connections)), service_(std::move(service)) {}

Result<http::Reply> Client::send_once(const ObjectRequest& request, const std::string& body_hash) {
    auto http_request = service_->prepared(request, body_hash);
    if (!http_request) return http_request.error();
    http_request->method = request.method;
    http_request->body = request.body;
    if (request.body.descriptor < 0) http_request->body.bytes = static_cast<std::int64_t>(request.body.memory.size());
    http_request->sink = request.sink;
    if (request.begin) request.begin();
    return connections_->send(*http_request);
}

Result<Answer> Client::send(const ObjectRequest& request) {
    using Clock = std::chrono::steady_clock;
    const auto last_try = Clock::now() + no_try_after;
    const int tries_most = request.tries_most > 0 ? request.tries_most : service_->tries_most();
    const auto hash = service_->hash_of_body(request);
    if (!hash) return hash.error();
    bool renewed = false;
    for (int tries = 1;; ++tries) {
        auto reply = send_once(request, *hash);
        const bool may_repeat = tries < tries_most && Clock::now() < last_try && !http::ending();
        if (!reply) {
            if (reply.error().code == ErrorCode::unreachable && may_repeat) {
                wait_before(tries);
                continue;
            }
            return Error{reply.error().code, request.doing + " " + shown(request.key) + ": " + reply.error().message,
                         reply.error().next};
        }
        Answer answer{.status = reply->status,
                      .headers = std::move(reply->headers),
                      .body = std::move(reply->body),
                      .tries = tries};
        if (may_repeat && another_try_may_help(*reply, answer)) {
            wait_before(tries);
            continue;
        }
        if (reply->status == 0 || !reply->trouble.empty()) return unanswered(request, *reply, tries);
        if (!renewed && answer.status >= 400 && service_->is_about_credentials(answer) &&
            service_->renew_credentials()) {
            renewed = true;
            continue;
        }
        return answer;
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
            reply.untrusted ? service_->next_if_untrusted() : service_->next_if_unanswered()};
}

Error Client::refused(const ObjectRequest& request, const Answer& answer) {
    std::string code = answer.code();
    if (code.empty()) code = code_of_status(answer.status);
    const Words words = service_->words(answer);
    const std::string place = request.doing + " " + shown(request.key) + ": ";
    for (const Meaning& meaning : service_->meanings())
        if (code == meaning.code)
            return {meaning.kind, place + filled_in(meaning.why, words), filled_in(meaning.next, words)};
    std::string why = server() + " answered " + std::to_string(answer.status);
    if (!code.empty()) why += " " + code;
    if (const std::string message = element(answer.body, "Message"); !message.empty()) why += ": " + message;
    return {kind_of_status(answer.status), place + why, ""};
}

std::string process_variable(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? value : "";
}

int tries_of(const Variables& variables) {
    const int given = std::atoi(variables("RTRAIN_STORAGE_MAX_ATTEMPTS").c_str());
    return given > 0 ? given : usual_tries;
}

void wait_before(int tries) {
    static thread_local std::minstd_rand chance(std::random_device{}());
    const int most = std::min(longest_wait_ms, 200 << std::min(tries - 1, 5));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(most / 2 + static_cast<int>(chance() % static_cast<unsigned>(most / 2 + 1))));
}

Origin origin_of(const std::string& endpoint) {
    Origin parts{.origin = endpoint, .host = {}, .base = {}};
    const auto host_at = endpoint.find("://") + 3;
    if (const auto slash = endpoint.find('/', host_at); slash != endpoint.npos) {
        parts.base = endpoint.substr(slash);
        parts.origin.resize(slash);
    }
    while (parts.base.ends_with('/')) parts.base.pop_back();
    parts.host = parts.origin.substr(host_at);
    const std::string usual = endpoint.starts_with("https://") ? ":443" : ":80";
    if (parts.host.ends_with(usual)) parts.host.resize(parts.host.size() - usual.size());
    return parts;
}

std::string query_text(const Parameters& query) {
    std::vector<std::string> pairs;
    for (const auto& [name, value] : query)
        pairs.push_back(percent_encoded(name, Slash::encoded) + "=" + percent_encoded(value, Slash::encoded));
    std::sort(pairs.begin(), pairs.end());
    std::string text;
    for (const std::string& pair : pairs) text += (text.empty() ? "" : "&") + pair;
    return text;
}

}  // namespace rtrain::storage::objects
