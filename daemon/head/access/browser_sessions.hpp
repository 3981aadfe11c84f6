// Sessions of browsers: a person signs in with a token, and the browser keeps a cookie with a secret. The head keeps
// the secret's SHA-256, and for how long the session was idle. Read by the server's threads, changed by the loop alone,
// but for the time of the last use. It opens no file and reads no clock: what is to be saved goes to the caller.
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
inline constexpr std::size_t sessions_per_user_most = 16;  // the user's oldest one ends for a new one
inline constexpr std::size_t sessions_most = 4'096;        // of all users; beyond, nobody signs in
inline constexpr std::int64_t session_saved_each_ms = 10LL * 60'000;

struct BrowserSession {
    std::string token_id, token_hash;  // of the token that it was begun with; another secret under this id ends it
    std::string user;
    std::int64_t begun_wall_ms = 0, used_wall_ms = 0;
    bool operator==(const BrowserSession&) const = default;
};

// The value that answers a change comes with, derived from the session's secret: another site cannot read it.
std::string csrf_token_of(const std::string& secret);

class BrowserSessions {
  public:
    using Settings = std::map<std::string, std::string>;
    static constexpr const char* prefix = "browser-session/";  // of its settings

    // Takes what an earlier start of the head has saved. Returns the settings that are to be erased: of sessions that
    // have ended.
    std::vector<std::string> open(const Settings& saved, const TokenBook& tokens, std::int64_t wall_ms);

    // Begins a session of the token's user. `settings` are to be durable before the secret is given out; those without
    // a value belong to sessions that ended for it, and may be erased then. Full: as many sessions as there may be.
    Result<Settings> begin(const std::string& secret, const state::TokenRow& token, const TokenBook& tokens,
                           std::int64_t wall_ms);
    // Ends the session with this id. Returns its setting, without a value.
    Settings end(const std::string& id);

    // Returns the caller who is signed in with this secret, and counts the call as a use of the session. Unauthorised:
    // no session has the secret, or its token opens no more.
    Result<Caller> caller_of(const std::string& secret, const TokenBook& tokens, std::int64_t wall_ms) const;
    bool lives(const std::string& id, std::int64_t wall_ms) const;  // whatever became of its token

    // Counts a sign-in of this user, whose token is valid. Returns false if the user has signed in too often.
    bool may_sign_in(const std::string& user, std::int64_t wall_ms) { return users_.take(user, wall_ms); }
    // Counts a failed sign-in from this party (sign_in_party). Returns false if there were too many.
    bool may_fail_to_sign_in(const std::string& party, std::int64_t wall_ms) { return failures_.take(party, wall_ms); }

    // Adds the last uses that were not saved for `session_saved_each_ms`.
    void add_changes(Settings& settings) const;
    std::size_t count() const;

  private:
    struct Kept {
        BrowserSession session;
        std::int64_t saved_used_wall_ms = 0;
    };
    using Sessions = std::map<std::string, Kept>;  // by id
    void drop(Sessions::iterator which, Settings& settings);
    void drop_ended(const TokenBook& tokens, std::int64_t wall_ms, Settings& settings);
    void make_room(const std::string& user, Settings& settings);

    mutable std::mutex guard_;
    mutable Sessions sessions_;
    SignInRate users_, failures_;  // apart: strangers that fill the table of failures must not touch that of users
};

}  // namespace rtrain::head
