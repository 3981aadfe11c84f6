// Authenticates callers: bearer tokens of people, certificates of agents, tokens of running attempts. The server's
// threads read it (streamed uploads are authenticated before their body is read); only the loop changes it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/net/server.hpp"
#include "scheduler/model/ids.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

// joiner: a join token, valid for /v1/join alone. metrics: Prometheus' token, valid for /metrics alone.
enum class Role { viewer, user, admin, node, joiner, metrics };
std::optional<Role> role_of(std::string_view text);
const char* to_text(Role role);

struct Caller {
    Role role = Role::viewer;
    std::string user;           // a person, or the person for whom a worker acts
    std::string node;           // an agent's node
    std::string token_id;       // a person's token
    std::string run{};          // "run-17" for a run's own token
    std::string certificate{};  // an agent's certificate: its serial number
    std::string session{};      // a person in a browser: the session's id
};

bool is_admin(const Caller& caller);

struct FreshToken {
    state::TokenRow row;
    std::string text;  // shown once
};
struct TokenWish {
    Role role = Role::user;
    std::string user;
    std::int64_t now_wall_ms = 0, expires_wall_ms = 0;
    std::int64_t uses_left = -1;
    std::string ca_fingerprint;  // contained in node tokens
    std::string id;              // empty: a new id; otherwise the token replaces the one with this id
};
FreshToken make_token(const TokenWish& wish);
bool is_user_name(const std::string& text);  // 1 to 255 letters, digits and . _ - @ +
Error bad_user_name();
bool opens(const state::TokenRow& row, std::int64_t wall_ms);  // neither revoked, expired nor used up

class TokenBook {
  public:
    void open(std::vector<state::TokenRow> rows, std::string run_key);
    void set(const state::TokenRow& row);
    std::vector<state::TokenRow> rows() const;
    std::optional<state::TokenRow> row(const std::string& id) const;

    // Authenticates by the certificate "node:<name>" or by "Authorization: Bearer". Unauthorised errors name the
    // token's fault.
    Result<Caller> authenticate(const net::Request& request, std::int64_t wall_ms) const;
    // Returns true if the caller's credential is still valid. Thread-safe.
    bool still_opens(const Caller& caller, std::int64_t wall_ms) const;
    // Checks that a token for `join` may still be used. The caller checks its role.
    Result<state::TokenRow> check_join_token(const std::string& text, std::int64_t wall_ms) const;

    // Checks a token for signing in. Its role must be viewer, user or admin; others give a conflict.
    Result<state::TokenRow> check_person_token(const std::string& text, std::int64_t wall_ms) const;

    // Time of the token's last use since the head's start. Thread-safe.
    void note_use(const std::string& id, std::int64_t wall_ms) const;
    std::optional<std::int64_t> last_used(const std::string& id) const;

    void revoke_certificates(std::set<std::string> serials);  // adds serials
    void set_left(const std::string& node, bool left);        // the node has left the cluster; a join clears that
    bool left(const std::string& node) const;

    // RTRAIN_TOKEN, derived from a key of this head. It needs no row, and is the same after a restart.
    std::string run_token(RunId run, const std::string& user);
    // RTRAIN_CHANNEL: the certificate and key of the run's connections (security::make_channel). Derived likewise, and
    // of the submission's key too: a restored head may give a run's number again. Fails where OpenSSL has no Ed25519.
    Result<std::string> run_channel(RunId run, const std::string& submit_key) const;
    void forget_run(RunId run);

  private:
    Result<state::TokenRow> check(const std::string& text, std::int64_t wall_ms) const;
    std::string run_secret(const std::string& id) const;
    bool opens_run(const std::string& id, const std::string& secret) const;

    mutable std::mutex guard_;
    std::map<std::string, state::TokenRow> rows_;
    std::map<std::string, std::string> run_users_;      // "run-17" -> user, for live runs
    mutable std::map<std::string, std::int64_t> used_;  // key: the token's id
    std::string run_key_;
    std::set<std::string> revoked_;
    std::set<std::string> left_;  // nodes
};

}  // namespace rtrain::head
