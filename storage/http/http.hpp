// HTTP by libcurl, which is loaded when the first request is made: programs that never do neither need it nor pay
// for it. Calls block. For object stores and for traces: what talks to the head uses daemon/net/client.
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

#include "scheduler/model/result.hpp"

namespace rtrain::storage::http {

struct Body {  // of memory, or of a part of an open file; can be sent again
    std::string_view memory;
    int descriptor = -1;
    std::int64_t offset = 0, bytes = 0;
};
using Sink = std::function<bool(std::string_view piece)>;  // false: stop

struct Request {
    std::string method, url;
    std::vector<std::pair<std::string, std::string>> headers;
    Body body;
    Sink sink;              // takes the body of an answer of 2xx; without one it is in the reply
    std::string ca_bundle;  // a file; empty: the system's
    int connect_s = 10;
    int stall_s = 30;  // an exchange in which nothing moves for so long has failed
};

struct Reply {
    int status = 0;                              // 0: there was none
    std::map<std::string, std::string> headers;  // lower-case names
    std::string body;
    std::string trouble;     // why there was none, or why it was cut off, in words
    bool stopped = false;    // by the sink
    bool untrusted = false;  // the server's certificate: trying again is of no use
};

// All requests of the process fail from then on. `ending`: such a time is set; nothing should be begun again.
void end_requests_at(std::optional<std::chrono::steady_clock::time_point> when);
bool ending();

// Keeps connections: a handshake costs more than a small object. For many threads.
class Connections {
  public:
    // `what`: what is done by it, for people. not_found: libcurl is not on this machine.
    static Result<std::unique_ptr<Connections>> open(const std::string& what = "object storage");
    virtual ~Connections() = default;
    virtual Reply send(const Request&) = 0;
};

}  // namespace rtrain::storage::http
