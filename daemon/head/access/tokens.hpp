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

// joiner: a join token, valid only for /v1/join. metrics: Prometheus' token, valid only for /metrics.
enum class Role { viewer, user, admin, node, joiner, metrics };
std::optional<Role> role_of(std::string_view text);
const char* to_text(Role role);

struct Caller {
    Role role = Role::viewer;
    std::string user;           // name of a person; of a worker: the person for whom it acts
    std::string node;           // name of the node, if the caller is an agent
    std::string token_id;       // id of the token, if a person uses one
    std::string run{};          // "run-17", if the caller uses a run's own token
    std::string certificate{};  // serial number of the certificate, if the caller is an agent
    std::string session{};      // id of the session, if the caller is a person in a browser
};

bool is_admin(const Caller& caller);

struct FreshToken {
    state::TokenRow row;
    std::string text;  // text of the token, which is shown once
};
struct TokenWish {
    Role role = Role::user;
    std::string user;
    std::int64_t now_wall_ms = 0, expires_wall_ms = 0;
    std::int64_t uses_left = -1;
    std::string ca_fingerprint;  // fingerprint of the CA, which the text of a node's token contains
    std::string id;              // id of a token that the new one replaces; empty: the new token gets a new id
};
FreshToken make_token(const TokenWish& wish);
bool is_user_name(const std::string& text);  // true for 1 to 255 letters, digits and . _ - @ +
Error bad_user_name();
// true if the token is neither revoked, expired nor used up
bool opens(const state::TokenRow& row, std::int64_t wall_ms);

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

    // Record and return the time of the token's last use since the head's start. Thread-safe.
    void note_use(const std::string& id, std::int64_t wall_ms) const;
    std::optional<std::int64_t> last_used(const std::string& id) const;

    // adds serials of certificates that are refused from now on
    void revoke_certificates(std::set<std::string> serials);
    // records that the node has left the cluster; when it joins again, that is cleared
    void set_left(const std::string& node, bool left);
    bool left(const std::string& node) const;

    // Returns the run's RTRAIN_TOKEN, which is derived from a key of this head. It needs no row in the table, and is
    // the same after a restart.
    std::string run_token(RunId run, const std::string& user);
    // Returns the run's RTRAIN_CHANNEL: certificate and key for the run's own connections (security::make_channel). It
    // is derived from the head's key and the submission's key, because a restored head may give the run's number to
    // another run. Fails where OpenSSL has no Ed25519.
    Result<std::string> run_channel(RunId run, const std::string& submit_key) const;
    void forget_run(RunId run);

  private:
    Result<state::TokenRow> check(const std::string& text, std::int64_t wall_ms) const;
    std::string run_secret(const std::string& id) const;
    bool opens_run(const std::string& id, const std::string& secret) const;

    mutable std::mutex guard_;
    std::map<std::string, state::TokenRow> rows_;
    std::map<std::string, std::string> run_users_;      // key: "run-17"; value: the run's user; only live runs
    mutable std::map<std::string, std::int64_t> used_;  // key: the token's id; value: time of its last use
    std::string run_key_;
    std::set<std::string> revoked_;
    std::set<std::string> left_;  // names of nodes that have left the cluster
};

}  // namespace rtrain::head
