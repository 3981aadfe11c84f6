// HTTP by libcurl, which is loaded at the first request: programs without requests do not need it. Calls block. Used
// for object stores and traces. Clients of the head use daemon/net/client.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rtrain::storage::http {

struct Body {  // The body of a request: bytes in memory, or a part of an open file. It can be sent again.
    std::string_view memory;
    int descriptor = -1;
    std::int64_t offset = 0, bytes = 0;
};
// receives the next piece of the body; returns false to stop the transfer
using Sink = std::function<bool(std::string_view piece)>;

struct Request {
    std::string method, url;
    std::vector<std::pair<std::string, std::string>> headers;
    Body body;
    Sink sink;              // receives the body of a 2xx answer; without a sink the body is in the reply
    std::string ca_bundle;  // path of a file with CA certificates; empty: the system's certificates
    int connect_s = 10;
    int stall_s = 30;  // seconds without any transferred byte after which an exchange has failed
};

struct Reply {
    int status = 0;                              // HTTP status; 0: there was no answer
    std::map<std::string, std::string> headers;  // headers of the answer; the names are in lower case
    std::string body;
    std::string trouble;     // a text that says why there is no whole answer; empty: there is one
    bool stopped = false;    // true: the sink stopped the transfer
    bool untrusted = false;  // true: the server's certificate was refused, so a retry is useless
};

// Makes all requests of the process fail from the time `when` on. `ending` returns true if such a time is set; its
// callers then do not retry.
void end_requests_at(std::optional<std::chrono::steady_clock::time_point> when);
bool ending();

// Keeps connections open, because a handshake costs more than a small object. Safe for many threads.
class Connections {
  public:
    // `what`: the purpose of the connections, for messages. Returns not_found if libcurl is not installed.
    static Result<std::unique_ptr<Connections>> open(const std::string& what = "object storage");
    virtual ~Connections() = default;
    virtual Reply send(const Request&) = 0;
};

}  // namespace rtrain::storage::http
