// One bucket: requests that are signed, repeated where that may help, and whose refusals are put into words.
// Inside of storage/uri only.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "storage/http/http.hpp"
#include "storage/uri/s3/settings.hpp"

namespace rtrain::storage::s3 {

struct ObjectRequest {
    std::string method = "GET";
    std::string key;    // of the object; empty: the bucket itself
    std::string doing;  // "reading", "writing": for messages
    Parameters query;
    std::vector<std::pair<std::string, std::string>> headers;  // lower-case names
    http::Body body;
    std::string body_sha256;      // of a body in a file; one in memory is hashed here
    http::Sink sink;              // of the answer's body
    std::function<void()> begin;  // before each try: the sink starts anew
    int tries_most = 0;           // 0: as the settings have it
};
struct Answer {
    int status = 0;
    std::map<std::string, std::string> headers;
    std::string body;
    int tries = 1;  // more than one: an earlier one may have been carried out, and its answer lost
    bool good() const { return status >= 200 && status < 300; }
    std::string header(const std::string& name) const;
};

class Client {
  public:
    static Result<std::unique_ptr<Client>> open(const std::string& bucket, const Variables&);
    // Returns any answer but those that another try may change; an Error: none came, or none but those.
    Result<Answer> send(const ObjectRequest&);
    Result<Answer> expect_good(const ObjectRequest&);    // a refusal is an Error too
    Error refused(const ObjectRequest&, const Answer&);  // what, where, why, what to do next
    std::string shown(const std::string& key) const { return "s3://" + bucket_ + (key.empty() ? "" : "/" + key); }
    std::string server();  // "http://127.0.0.1:7480"

  private:
    Client(std::string bucket, Variables variables, Settings settings, std::unique_ptr<http::Connections> connections);
    http::Reply send_once(const ObjectRequest&, const Settings&);
    Settings settings();
    bool reload_settings();  // true: the credentials are others than before
    Error unanswered(const ObjectRequest&, const http::Reply&, int tries);

    std::string bucket_;
    Variables variables_;
    std::mutex mutex_;
    std::int64_t renewed_unix_s_ = 0;  // when lent credentials were last asked for again
    Settings settings_;
    std::unique_ptr<http::Connections> connections_;
};

}  // namespace rtrain::storage::s3
