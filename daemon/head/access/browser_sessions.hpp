// Browser sessions. A person signs in with a token, and the browser stores a cookie with a secret. The head stores the
// secret's SHA-256 and the time of the last use. The server's threads read sessions; only the loop changes them, except
// for the time of the last use. This code opens no file and reads no clock: it returns the settings to save.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/head/access/sign_in_rate.hpp"
#include "daemon/head/access/tokens.hpp"

namespace rtrain::head {

inline constexpr std::int64_t session_idle_most_ms = 12LL * 3'600'000;
// The most sessions of one user. A further session ends the user's oldest one.
inline constexpr std::size_t sessions_per_user_most = 16;
// the most sessions of all users; beyond it no new session can begin
inline constexpr std::size_t sessions_most = 4'096;
inline constexpr std::int64_t session_saved_each_ms = 10LL * 60'000;

struct BrowserSession {
    // The token with which the session was begun: its id, and the hash of its secret. If the id gets another secret,
    // the session ends.
    std::string token_id, token_hash;
    std::string user;
    std::int64_t begun_wall_ms = 0, used_wall_ms = 0;
    bool operator==(const BrowserSession&) const = default;
};

// Returns the CSRF token that a change must contain. It is derived from the session's secret, so that another site
// cannot read it.
std::string csrf_token_of(const std::string& secret);

class BrowserSessions {
  public:
    using Settings = std::map<std::string, std::string>;
    static constexpr const char* prefix = "browser-session/";  // prefix of the keys of the sessions' settings

    // Loads the settings that an earlier start has saved. Returns the settings of ended sessions, which must be erased.
    std::vector<std::string> open(const Settings& saved, const TokenBook& tokens, std::int64_t wall_ms);

    // Begins a session of the token's user. The returned settings must be durable before the secret is sent. Settings
    // without a value belong to sessions that this one ended; they may be erased then. Returns `full` if there are too
    // many sessions.
    Result<Settings> begin(const std::string& secret, const state::TokenRow& token, const TokenBook& tokens,
                           std::int64_t wall_ms);
    // Ends the session with this id. Returns its setting, without a value.
    Settings end(const std::string& id);

    // Returns the caller of the session with this secret, and counts the call as a use of the session. Returns
    // unauthorised if no session has the secret, or if its token is no longer valid.
    Result<Caller> caller_of(const std::string& secret, const TokenBook& tokens, std::int64_t wall_ms) const;
    // true if the session is open; does not check whether its token is still valid
    bool lives(const std::string& id, std::int64_t wall_ms) const;

    // Counts a sign-in of this user, whose token is valid. Returns false if the user has signed in too often.
    bool may_sign_in(const std::string& user, std::int64_t wall_ms) { return users_.take(user, wall_ms); }
    // Counts a failed sign-in from this party (sign_in_party). Returns false if there were too many.
    bool may_fail_to_sign_in(const std::string& party, std::int64_t wall_ms) { return failures_.take(party, wall_ms); }

    // Adds the times of the last use that have not been saved for `session_saved_each_ms`.
    void add_changes(Settings& settings) const;
    std::size_t count() const;

  private:
    struct Kept {
        BrowserSession session;
        std::int64_t saved_used_wall_ms = 0;
    };
    using Sessions = std::map<std::string, Kept>;  // key: the session's id
    void drop(Sessions::iterator which, Settings& settings);
    void drop_ended(const TokenBook& tokens, std::int64_t wall_ms, Settings& settings);
    void make_room(const std::string& user, Settings& settings);

    mutable std::mutex guard_;
    mutable Sessions sessions_;
    SignInRate users_, failures_;  // two tables, so that failed attempts of strangers cannot fill the table of users
};

}  // namespace rtrain::head
