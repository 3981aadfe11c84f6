// Sends requests to the head. Only this file and the proxy of `rtrain dashboard` use HTTP in cmd/.
#include "cmd/client/api.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.hpp"
#include "base/percent.hpp"
#include "cmd/line/settings.hpp"
#include "daemon/net/client.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::cmd {

using nlohmann::json;

struct Api::Body {
    Body(Invocation& invocation, net::Endpoint endpoint, std::string shown_address, std::string fingerprint)
        : call(invocation),
          client(std::move(endpoint)),
          address(std::move(shown_address)),
          ca_fingerprint(std::move(fingerprint)) {}
    Invocation& call;
    net::Client client;
    std::string address, ca_fingerprint;

    Result<net::Response> call_when_free(const net::Call& request);
    Result<net::Response> send(const net::Call& request);
    Result<json> send_json(const net::Call& request);
    Error refused(const net::Response& response, const net::Call& request);
};

namespace {

// Converts pieces of a stream to events. An event is a block of lines that ends with an empty line.
class EventReader {
  public:
    explicit EventReader(const std::function<bool(const StreamEvent&)>& on_event) : on_event_(on_event) {}

    bool piece(std::string_view text) {
        rest_ += text;
        std::size_t start = 0;
        for (std::size_t end; (end = rest_.find('\n', start)) != rest_.npos; start = end + 1) {
            std::string_view line(rest_.data() + start, end - start);
            if (line.ends_with('\r')) line.remove_suffix(1);
            if (!this->line(line)) return false;
        }
        rest_.erase(0, start);
        return true;
    }

  private:
    bool line(std::string_view line) {
        if (line.empty()) {
            const bool something = !event_.data.empty() || !event_.name.empty();
            const StreamEvent event = std::exchange(event_, {});
            return !something || on_event_(event);
        }
        const auto colon = line.find(':');
        std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
        if (value.starts_with(' ')) value.remove_prefix(1);
        const std::string_view field = line.substr(0, colon);
        if (field == "data") event_.data += (event_.data.empty() ? "" : "\n") + std::string(value);
        if (field == "event") event_.name = value;
        if (field == "id") event_.id = value;
        return true;
    }

    const std::function<bool(const StreamEvent&)>& on_event_;
    std::string rest_;
    StreamEvent event_;
};

void abort_call(void* client) { static_cast<net::Client*>(client)->abort(); }

}  // namespace

Api::Api(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Api::~Api() = default;
Api::Api(Api&&) noexcept = default;
const std::string& Api::address() const { return body_->address; }
const std::string& Api::ca_fingerprint() const { return body_->ca_fingerprint; }

namespace {

Result<Place> place_of(Invocation& call) {
    Result<Settings> settings = Settings::load(call.arguments);
    if (!settings) return settings.error();
    return Place{.address = settings->value("address"),
                 .token = settings->value("token"),
                 .ca = settings->value("ca"),
                 .ca_fingerprint = settings->value("ca_fingerprint")};
}

Result<net::Endpoint> endpoint_of(const Place& place, std::int64_t connect_timeout_ms) {
    if (place.address.empty())
        return Error{.code = ErrorCode::unreachable,
                     .message = "no cluster is known: there is no context, no RTRAIN_ADDRESS and no --address",
                     .next =
                         "rtrain up (a cluster on this machine), or rtrain context add NAME --address HOST:PORT "
                         "--token T --ca-fingerprint HEX (what `rtrain token create` prints)"};
    if (place.ca.empty() && place.ca_fingerprint.empty())
        return Error{.code = ErrorCode::unauthorised,
                     .message = "the CA of the cluster at " + place.address +
                                " is not known, so it cannot be told from an impostor",
                     .next = "give --ca FILE (on the head: <data>/ca.crt), or RTRAIN_CA, or use a context"};
    Result<HostPort> where = parse_host_port(place.address, 7433);
    if (!where) return where.error();
    net::Endpoint endpoint;
    endpoint.host = where->host;
    endpoint.port = where->port;
    endpoint.ca = place.ca;
    endpoint.ca_fingerprint = place.ca.empty() ? place.ca_fingerprint : "";
    endpoint.bearer = place.token;
    endpoint.connect_timeout_ms = connect_timeout_ms;
    return endpoint;
}

constexpr std::int64_t usual_connect_timeout_ms = 5'000;

}  // namespace

Result<Api> Api::open(Invocation& call) {
    const Result<Place> place = place_of(call);
    if (!place) return place.error();
    return open(call, *place, usual_connect_timeout_ms);
}

Result<net::Endpoint> Api::endpoint(Invocation& call) {
    const Result<Place> place = place_of(call);
    if (!place) return place.error();
    return endpoint_of(*place, usual_connect_timeout_ms);
}

Result<Api> Api::open(Invocation& call, const Place& place, std::int64_t connect_timeout_ms) {
    Result<net::Endpoint> endpoint = endpoint_of(place, connect_timeout_ms);
    if (!endpoint) return endpoint.error();
    const std::string address = host_port_text(endpoint->host, endpoint->port);
    std::string fingerprint = place.ca_fingerprint;
    if (const auto computed = place.ca.empty() ? Result<std::string>(fingerprint) : security::fingerprint(place.ca))
        fingerprint = *computed;
    return Api(std::make_unique<Body>(call, std::move(*endpoint), address, std::move(fingerprint)));
}

Error Api::Body::refused(const net::Response& response, const net::Call& request) {
    const json body = parse_json(response.body);
    Error error{.code = code_from("", response.status),
                .message = "the head at " + address + " answered " + request.method + " " + request.target +
                           " with HTTP " + std::to_string(response.status),
                .next = "rtrain doctor"};
    if (!body.is_object()) return error;
    error.code = code_from(body.value("code", ""), response.status);
    error.message = body.value("message", error.message);
    error.next = body.value("next", "");
    for (const json& p : body.value("problems", json::array())) {
        call.problems.push_back({.path = p.value("path", ""),
                                 .line = p.value("line", 0),
                                 .column = p.value("column", 0),
                                 .message = p.value("message", ""),
                                 .suggestion = p.value("suggestion", "")});
        call.out.talk(p.value("path", "") + ": " + p.value("message", ""));
    }
    if (error.code == ErrorCode::unauthorised && error.next.empty())
        error.next = "rtrain context list, or rtrain token create on the head";
    return error;
}

namespace {

// Returns the delay of the header Retry-After, in ms; nullopt if there is none.
std::optional<std::int64_t> wait_of(const net::Response& response) {
    constexpr std::size_t digits_most = 5;
    const auto header = response.headers.find("retry-after");
    if (header == response.headers.end() || header->second.empty() || header->second.size() > digits_most ||
        header->second.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
    return std::max<std::int64_t>(1, std::stoll(header->second)) * 1'000;
}

}  // namespace

// Repeats the request while the head refuses it with 429 and Retry-After, for a minute at most. A refused request has
// changed nothing.
Result<net::Response> Api::Body::call_when_free(const net::Call& request) {
    constexpr std::int64_t waits_most_ms = 60'000;
    for (std::int64_t waited_ms = 0;;) {
        Result<net::Response> response = client.call(request);
        if (!response || response->status != 429) return response;
        const auto wait_ms = wait_of(*response);
        if (!wait_ms || waited_ms + *wait_ms > waits_most_ms) return response;
        const json body = parse_json(response->body);
        if (waited_ms == 0)
            call.out.talk("the head refused for now: " +
                          (body.is_object() ? body.value("message", std::string("HTTP 429")) : "HTTP 429") +
                          "; asked again in " + std::to_string(*wait_ms / 1'000) + " s, for " +
                          std::to_string(waits_most_ms / 1'000) + " s at most");
        if (wait_or_interrupt(*wait_ms)) return response;
        waited_ms += *wait_ms;
    }
}

Result<net::Response> Api::Body::send(const net::Call& request) {
    Result<net::Response> response = call_when_free(request);
    if (!response) {
        Error error = response.error();
        if (error.next.empty() && error.code == ErrorCode::unreachable)
            error.next = "rtrain head start, or name the head with --address or --context";
        return error;
    }
    if (response->status >= 400) return refused(*response, request);
    return response;
}

Result<json> Api::Body::send_json(const net::Call& request) {
    Result<net::Response> response = send(request);
    if (!response) return response.error();
    json value = parse_json(response->body.empty() ? "{}" : response->body);
    if (value.is_discarded())
        return Error{
            .code = ErrorCode::internal,
            .message = "the head at " + address + " answered " + request.target + " with something that is not JSON",
            .next = "rtrain version here and rtrain status: do the versions match?"};
    return value;
}

Result<json> Api::get(const std::string& target) {
    net::Call request;
    request.target = target;
    return body_->send_json(request);
}

Result<json> Api::list(const std::string& target) {
    json all = {{"items", json::array()}};
    std::string cursor;
    for (;;) {
        const std::string more =
            cursor.empty() ? "" : (target.find('?') == target.npos ? "?" : "&") + ("cursor=" + url_part(cursor));
        Result<json> page = get(target + more);
        if (!page) return page;
        for (json& item : (*page)["items"]) all["items"].push_back(std::move(item));
        const json next = page->value("next_cursor", json());
        if (next.is_null() || next == "") return all;
        const std::string following = next.is_string() ? next.get<std::string>() : json_text(next);
        if (following == cursor) return all;
        cursor = following;
    }
}

Result<json> Api::post(const std::string& target, const json& body) { return send_body("POST", target, body); }
Result<json> Api::put(const std::string& target, const json& body) { return send_body("PUT", target, body); }

Result<json> Api::send_body(const char* method, const std::string& target, const json& body) {
    net::Call request;
    request.method = method;
    request.target = target;
    std::optional<std::string> text = exact_json_text(body);
    if (!text)
        return Error{ErrorCode::usage, "the request to " + target + " holds text that is not UTF-8",
                     "write names and arguments in UTF-8"};
    request.body = std::move(*text);
    request.headers["content-type"] = "application/json";
    return body_->send_json(request);
}

Result<json> Api::remove(const std::string& target) {
    net::Call request;
    request.method = "DELETE";
    request.target = target;
    return body_->send_json(request);
}

Result<bool> Api::exists(const std::string& target) {
    net::Call request;
    request.method = "HEAD";
    request.target = target;
    Result<net::Response> response = body_->call_when_free(request);
    if (!response) return response.error();
    if (response->status == 404) return false;
    if (response->status >= 400) return body_->refused(*response, request);
    return true;
}

Result<std::string> Api::bytes(const std::string& target) {
    net::Call request;
    request.target = target;
    Result<net::Response> response = body_->send(request);
    if (!response) return response.error();
    return std::move(response->body);
}

Status Api::save(const std::string& target, const std::string& to_file) {
    net::Call request;
    request.target = target;
    request.save_to = to_file;
    Result<net::Response> response = body_->send(request);
    if (!response) return response.error();
    return Done{};
}

Status Api::put_file(const std::string& target, const std::string& file, const ByteProgress& progress) {
    net::Call request;
    request.method = "PUT";
    request.target = target;
    request.body_file = file;
    request.on_progress = progress;
    Result<net::Response> response = body_->send(request);
    if (!response) return response.error();
    return Done{};
}

Status Api::follow(const std::string& target, const std::function<bool(const StreamEvent&)>& on_event) {
    EventReader reader(on_event);
    bool ended_by_us = false;
    net::Call request;
    request.target = target;
    request.headers["accept"] = "text/event-stream";
    request.on_piece = [&](std::string_view piece) {
        const bool go_on = !interrupted() && reader.piece(piece);
        ended_by_us = ended_by_us || !go_on;
        return go_on;
    };
    watch_interrupts(abort_call, &body_->client);
    Result<net::Response> response = body_->send(request);
    watch_interrupts(nullptr, nullptr);
    if (response || ended_by_us || interrupted()) return Done{};
    return response.error();
}

std::string url_part(std::string_view text) { return storage::percent_encoded(text, storage::Slash::encoded); }

}  // namespace rtrain::cmd
