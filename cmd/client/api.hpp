// Calls of the head's HTTP API (docs/http-api.md). Each returns JSON, or an Error with the head's message.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cmd/line/invocation.hpp"

namespace rtrain::net {
class Client;
struct Endpoint;
}  // namespace rtrain::net

namespace rtrain::cmd {

struct Place;
struct StreamEvent {
    std::string id, name, data;
};  // one server-sent event
using ByteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Api {
  public:
    static Result<Api> open(Invocation& call);  // connects to the cluster that flags, environment and context select
    static Result<Api> open(Invocation& call, const Place& place, std::int64_t connect_timeout_ms);
    // returns the address and credentials of the same head, for the proxy of `rtrain dashboard`
    static Result<net::Endpoint> endpoint(Invocation& call);
    ~Api();
    Api(Api&&) noexcept;

    Result<nlohmann::json> get(const std::string& target);
    Result<nlohmann::json> list(const std::string& target);  // reads all pages of a list; returns {"items": [...]}
    Result<nlohmann::json> post(const std::string& target, const nlohmann::json& body);
    Result<nlohmann::json> put(const std::string& target, const nlohmann::json& body);
    Result<nlohmann::json> remove(const std::string& target);
    // true if the head answers a HEAD request for the target with success
    Result<bool> exists(const std::string& target);
    Result<std::string> bytes(const std::string& target);  // returns the body of a GET request that is not JSON
    Status save(const std::string& target, const std::string& to_file);
    Status put_file(const std::string& target, const std::string& file, const ByteProgress& progress);
    // Passes events to `on_event` until the stream ends, `on_event` returns false, or Ctrl-C is pressed.
    // `interrupted()` is true after Ctrl-C.
    Status follow(const std::string& target, const std::function<bool(const StreamEvent&)>& on_event);
    const std::string& address() const;
    // SHA-256 of the cluster's CA certificate in hex, the form that `context add` takes
    const std::string& ca_fingerprint() const;

  private:
    struct Body;
    Result<nlohmann::json> send_body(const char* method, const std::string& target, const nlohmann::json& body);
    explicit Api(std::unique_ptr<Body> body);
    std::unique_ptr<Body> body_;
};

std::string url_part(std::string_view text);  // percent-encodes the text for use in a URL

}  // namespace rtrain::cmd
