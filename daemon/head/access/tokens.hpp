// Who is asking: bearer tokens of people, certificates of agents, the tokens of running attempts. Read by the server's
// threads (streamed uploads are authenticated before a byte is taken), changed by the loop alone.
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

// joiner: a join token, which opens nothing but /v1/join. metrics: Prometheus' token, which opens nothing but /metrics.
enum class Role { viewer, user, admin, node, joiner, metrics };
std::optional<Role> role_of(std::string_view text);
const char* to_text(Role role);

struct Caller {
    Role role = Role::viewer;
    std::string user;           // people, and workers on behalf of theirs
    std::string node;           // agents
    std::string token_id;       // people's
    std::string run{};          // "run-17": a run's own token
    std::string certificate{};  // agents: its serial number
    std::string session{};      // people in a browser: the session's id
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
    std::string ca_fingerprint;  // node tokens carry it
    std::string id;              // empty: a new one; else it takes the place of the token that had it
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

    // Certificate "node:<name>" or "Authorization: Bearer". Unauthorised errors say what is wrong with the token.
    Result<Caller> authenticate(const net::Request& request, std::int64_t wall_ms) const;
    // Returns whether what let this caller in still opens. Safe from any thread.
    bool still_opens(const Caller& caller, std::int64_t wall_ms) const;
    // Checks a token for `join`: it may still be used. The caller checks its role.
    Result<state::TokenRow> check_join_token(const std::string& text, std::int64_t wall_ms) const;

    // Checks a token that a person signs in with. Its role is viewer, user or admin; of others: conflict.
    Result<state::TokenRow> check_person_token(const std::string& text, std::int64_t wall_ms) const;

    // When the token last opened something, since the head's start. From any thread.
    void note_use(const std::string& id, std::int64_t wall_ms) const;
    std::optional<std::int64_t> last_used(const std::string& id) const;

    void revoke_certificates(std::set<std::string> serials);  // these too
    void set_left(const std::string& node, bool left);        // it left the cluster; a join brings it back
    bool left(const std::string& node) const;

    // RTRAIN_TOKEN: derived from a key of this head, so it needs no row and is the same after a restart.
    std::string run_token(RunId run, const std::string& user);
    void forget_run(RunId run);

  private:
    Result<state::TokenRow> check(const std::string& text, std::int64_t wall_ms) const;
    std::string run_secret(const std::string& id) const;
    bool opens_run(const std::string& id, const std::string& secret) const;

    mutable std::mutex guard_;
    std::map<std::string, state::TokenRow> rows_;
    std::map<std::string, std::string> run_users_;      // "run-17" -> user, of live runs
    mutable std::map<std::string, std::int64_t> used_;  // by token's id
    std::string run_key_;
    std::set<std::string> revoked_;
    std::set<std::string> left_;  // nodes
};

}  // namespace rtrain::head
