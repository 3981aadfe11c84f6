// Requests to one bucket: signs them, repeats them where that may help, and puts refusals into words. Used inside of
// storage/uri only.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "storage/http/http.hpp"
#include "storage/uri/s3/settings.hpp"

namespace rtrain::storage::s3 {

struct ObjectRequest {
    std::string method = "GET";
    std::string key;    // key of the object; empty: the bucket itself
    std::string doing;  // "reading", "writing": used in messages
    Parameters query;
    std::vector<std::pair<std::string, std::string>> headers;  // lower-case names
    http::Body body;
    std::string body_sha256;      // hash of a body in a file; a body in memory is hashed here
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
};

class Client {
  public:
    static Result<std::unique_ptr<Client>> open(const std::string& bucket, const Variables&);
    // Returns any answer that another try would not change. Returns an Error if none arrived.
    Result<Answer> send(const ObjectRequest&);
    Result<Answer> expect_good(const ObjectRequest&);    // returns an Error for a refusal too
    Error refused(const ObjectRequest&, const Answer&);  // names the operation, the place, the cause and the next step
    std::string shown(const std::string& key) const { return "s3://" + bucket_ + (key.empty() ? "" : "/" + key); }
    std::string server();  // "http://127.0.0.1:7480"

  private:
    Client(std::string bucket, Variables variables, Settings settings, std::unique_ptr<http::Connections> connections);
    http::Reply send_once(const ObjectRequest&, const Settings&);
    Settings settings();
    bool reload_settings();  // returns true if the credentials differ from the earlier ones
    Error unanswered(const ObjectRequest&, const http::Reply&, int tries);

    std::string bucket_;
    Variables variables_;
    std::mutex mutex_;
    std::int64_t renewed_unix_s_ = 0;  // time of the last request for new lent credentials
    Settings settings_;
    std::unique_ptr<http::Connections> connections_;
};

}  // namespace rtrain::storage::s3
