// Bearer tokens that expire: one is kept, and renewed some minutes before its end. Used inside of storage/uri only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/result.hpp"
#include "storage/http/http.hpp"

namespace rtrain::storage::objects {

struct Token {
    std::string text;
    std::int64_t expires_unix_s = 0;
};

// Safe for many threads. One thread fetches a token while the others wait for it.
class Tokens {
  public:
    using Fetch = std::function<Result<Token>()>;
    explicit Tokens(Fetch fetch) : fetch_(std::move(fetch)) {}
    // Returns the token that is kept while it is valid for 5 min more, else a new one. If none can be had, the kept one
    // is returned until it expires, and a new one is requested every 10 s at most.
    Result<std::string> current();
    // Fails if the token server refuses one, so that wrong credentials are found before a run starts. An unreachable
    // server is no failure.
    Status check();
    bool renew();  // requests a new token now; returns true if it differs from the earlier one

  private:
    Fetch fetch_;
    std::mutex mutex_;
    Token kept_;
    std::int64_t tried_unix_s_ = 0;
};

// Reads the answer of a token server: {"access_token": "...", "expires_in": 3599}, or "expires_on" with a Unix time.
// The number may be a text.
Result<Token> read_token(const http::Reply& reply, const std::string& server, const std::string& whose);
std::string form_text(const std::map<std::string, std::string>& fields);  // application/x-www-form-urlencoded
bool is_sendable(const std::string& token);  // visible ASCII characters alone, as in a header

}  // namespace rtrain::storage::objects
