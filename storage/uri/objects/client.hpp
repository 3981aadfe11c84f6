// Requests to one bucket: repeats them where that may help, and puts refusals into words. A `Service` decides where
// they go and signs them. Used inside of storage/uri only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/http/http.hpp"

namespace rtrain::storage::objects {

using Variables = std::function<std::string(const std::string& name)>;  // empty: not set
using Parameters = std::map<std::string, std::string>;                  // names and values of a query, not encoded
using Headers = std::vector<std::pair<std::string, std::string>>;       // lower-case names

struct ObjectRequest {
    std::string method = "GET";
    std::string key;    // key of the object; empty: the bucket itself
    std::string doing;  // "reading", "writing": used in messages
    Parameters query;
    Headers headers;
    http::Body body;
    std::string body_path;        // path of the body's file, for messages; empty: the body is in memory
    http::Sink sink;              // receives the answer's body
    std::function<void()> begin;  // called before each try, so that the sink starts anew
    int tries_most = 0;           // 0: as in the settings
};
struct Answer {
    int status = 0;
    std::map<std::string, std::string> headers;
    std::string body;
    int tries = 1;  // With more than one try, an earlier one may have been carried out although its answer was lost.
    bool good() const { return status >= 200 && status < 300; }
    std::string header(const std::string& name) const;
    std::string code() const;  // the server's name for the refusal, "NoSuchKey"; empty: it gives none
};

// The meaning of a refusal's code. `why` and `next` contain names of `Words` in braces: "{server}".
struct Meaning {
    const char* code;
    ErrorCode kind;
    const char* why;
    const char* next;
};
using Words = std::map<std::string, std::string>;

// One bucket of one kind of server: where its requests go, how they are signed, and the meaning of refusals. Safe for
// many threads.
class Service {
  public:
    virtual ~Service() = default;
    virtual std::string shown(const std::string& key) const = 0;  // "s3://bucket/key"
    virtual std::string server() = 0;                             // "http://127.0.0.1:7480"
    virtual int tries_most() = 0;
    // Returns the hash of the request's body, as `prepared` takes it: the MD5 of a PUT's, in base64.
    virtual Result<std::string> hash_of_body(const ObjectRequest&);
    // Returns the signed request, without its body. The Error `unreachable` says that another try may help.
    virtual Result<http::Request> prepared(const ObjectRequest&, const std::string& body_hash) = 0;
    virtual bool is_about_credentials(const Answer&) const = 0;
    virtual bool renew_credentials() = 0;  // returns true if they differ from the earlier ones
    virtual std::span<const Meaning> meanings() const = 0;
    virtual Words words(const Answer&) = 0;
    // Returns the next step for a server whose certificate is refused, and for one that does not answer.
    virtual std::string next_if_untrusted() const;
    virtual std::string next_if_unanswered() const = 0;
};

class Client {
  public:
    Client(std::shared_ptr<http::Connections> connections, std::unique_ptr<Service> service);
    // Returns any answer that another try would not change. Returns an Error if none arrived.
    Result<Answer> send(const ObjectRequest&);
    Result<Answer> expect_good(const ObjectRequest&);    // returns an Error for a refusal too
    Error refused(const ObjectRequest&, const Answer&);  // names the operation, the place, the cause and the next step
    std::string shown(const std::string& key) const { return service_->shown(key); }
    std::string server() { return service_->server(); }

  private:
    Result<http::Reply> send_once(const ObjectRequest&, const std::string& body_hash);
    Error unanswered(const ObjectRequest&, const http::Reply&, int tries);

    std::shared_ptr<http::Connections> connections_;
    std::unique_ptr<Service> service_;
};

std::string process_variable(const std::string& name);
// Returns the value of RTRAIN_STORAGE_MAX_ATTEMPTS; 6 if it is not a number above 0.
int tries_of(const Variables&);
// Waits 0.2 s, doubled with each try up to 5 s, less a random part, so that many clients do not return at once.
void wait_before(int tries);

// Where a request goes. `origin`: "https://host:port"; `host`: as in the Host header; `base`: the path of the
// endpoint's URL, without a slash at its end.
struct Origin {
    std::string origin, host, base;
};
Origin origin_of(const std::string& endpoint);

std::string query_text(const Parameters& query);  // encoded, in the order that is signed

}  // namespace rtrain::storage::objects
