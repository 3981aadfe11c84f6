// Stores only hashes of secrets, and compares them in constant time.
#include "daemon/head/access/tokens.hpp"

#include <algorithm>

#include "base/crypto/digest.hpp"
#include "base/hex.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

constexpr std::string_view node_prefix = "node:";

Error unauthorised(const std::string& message) {
    return {ErrorCode::unauthorised, message, "ask an admin for a token: rtrain token create --role user"};
}

std::string run_token_id(RunId run) { return "run-" + std::to_string(run.value); }

}  // namespace

bool is_admin(const Caller& caller) { return caller.role == Role::admin; }

bool is_user_name(const std::string& text) {
    constexpr std::size_t bytes_most = 255;
    return !text.empty() && text.size() <= bytes_most && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._-@+").find(c) != std::string_view::npos;
    });
}

Error bad_user_name() {
    return {ErrorCode::usage, "a user's name has 1 to 255 letters, digits and . _ - @ +",
            "rtrain token create --user NAME"};
}

std::optional<Role> role_of(std::string_view text) {
    for (const Role role : {Role::viewer, Role::user, Role::admin, Role::node, Role::metrics})
        if (text == to_text(role)) return role;
    return std::nullopt;
}

const char* to_text(Role role) {
    switch (role) {
        case Role::viewer:
            return "viewer";
        case Role::user:
            return "user";
        case Role::admin:
            return "admin";
        case Role::node:
            return "node";
        case Role::joiner:
            return "join token";
        case Role::metrics:
            return "metrics";
    }
    return "viewer";
}

FreshToken make_token(const TokenWish& wish) {
    const security::TokenText token{.for_node = wish.role == Role::node,
                                    .ca_fingerprint = wish.ca_fingerprint,
                                    .id = wish.id.empty() ? security::random_hex(6) : wish.id,
                                    .secret = security::random_hex(24)};
    const state::TokenRow row{.id = token.id,
                              .secret_hash = security::sha256_hex(token.secret),
                              .role = to_text(wish.role),
                              .user = wish.user,
                              .created_wall_ms = wish.now_wall_ms,
                              .expires_wall_ms = wish.expires_wall_ms,
                              .uses_left = wish.uses_left,
                              .revoked = false};
    return {row, security::to_text(token)};
}

bool opens(const state::TokenRow& row, std::int64_t wall_ms) {
    return !row.revoked && row.uses_left != 0 && (row.expires_wall_ms == 0 || wall_ms < row.expires_wall_ms);
}

void TokenBook::open(std::vector<state::TokenRow> rows, std::string run_key) {
    const std::lock_guard lock(guard_);
    for (state::TokenRow& row : rows) rows_[row.id] = std::move(row);
    run_key_ = std::move(run_key);
}

void TokenBook::set(const state::TokenRow& row) {
    const std::lock_guard lock(guard_);
    rows_[row.id] = row;
}

std::vector<state::TokenRow> TokenBook::rows() const {
    const std::lock_guard lock(guard_);
    std::vector<state::TokenRow> out;
    for (const auto& [id, row] : rows_) out.push_back(row);
    return out;
}

std::optional<state::TokenRow> TokenBook::row(const std::string& id) const {
    const std::lock_guard lock(guard_);
    const auto entry = rows_.find(id);
    if (entry == rows_.end()) return std::nullopt;
    return entry->second;
}

Result<state::TokenRow> TokenBook::check(const std::string& text, std::int64_t wall_ms) const {
    const auto token = security::parse_token(text);
    if (!token) return unauthorised("the token is malformed: " + token.error().message);
    const auto entry = rows_.find(token->id);
    // An unknown id and a wrong secret give the same error, so that strangers cannot find out which ids exist.
    const std::string hash = entry == rows_.end() ? "" : entry->second.secret_hash;
    if (!security::equal_constant_time(hash, security::sha256_hex(token->secret)))
        return unauthorised("the token is not known to this cluster");
    const state::TokenRow& row = entry->second;
    if (row.revoked) return unauthorised("the token " + row.id + " was revoked");
    if (row.expires_wall_ms != 0 && wall_ms >= row.expires_wall_ms)
        return unauthorised("the token " + row.id + " has expired");
    if (row.uses_left == 0) return unauthorised("the token " + row.id + " was used already");
    if (token->for_node != (row.role == "node")) return unauthorised("the token " + row.id + " is of another kind");
    return row;
}

Result<Caller> TokenBook::authenticate(const net::Request& request, std::int64_t wall_ms) const {
    const std::string& name = request.peer.certificate_name;
    if (name.starts_with(node_prefix)) {
        const std::string node = name.substr(node_prefix.size());
        const std::lock_guard lock(guard_);
        if (revoked_.contains(request.peer.certificate_serial))
            return Error{ErrorCode::unauthorised,
                         "node '" + node + "' has left the cluster, or joined anew: this certificate was revoked",
                         "rtrain node join ... with a new token"};
        return Caller{.role = Role::node,
                      .user = "",
                      .node = node,
                      .token_id = "",
                      .certificate = request.peer.certificate_serial};
    }
    const std::string header = request.header("authorization");
    constexpr std::string_view bearer = "Bearer ";
    if (!header.starts_with(bearer)) return unauthorised("this needs a token (Authorization: Bearer ...)");
    const std::string text = header.substr(bearer.size());

    const std::lock_guard lock(guard_);
    if (const auto token = security::parse_token(text); token && token->id.starts_with("run-")) {
        const auto run = run_users_.find(token->id);
        if (run == run_users_.end() || !opens_run(token->id, token->secret))
            return unauthorised("the run's token is no longer valid");
        return Caller{.role = Role::user, .user = run->second, .node = "", .token_id = "", .run = token->id};
    }
    const auto row = check(text, wall_ms);
    if (!row) return row.error();
    used_[row->id] = wall_ms;
    const auto role = role_of(row->role);
    if (!role || *role == Role::node) return Caller{.role = Role::joiner, .user = "", .node = "", .token_id = row->id};
    return Caller{.role = *role, .user = row->user, .node = "", .token_id = row->id};
}

bool TokenBook::still_opens(const Caller& caller, std::int64_t wall_ms) const {
    const std::lock_guard lock(guard_);
    if (caller.role == Role::node) return !revoked_.contains(caller.certificate);
    if (!caller.run.empty()) return run_users_.contains(caller.run);
    const auto row = rows_.find(caller.token_id);
    return row != rows_.end() && opens(row->second, wall_ms);
}

Result<state::TokenRow> TokenBook::check_join_token(const std::string& text, std::int64_t wall_ms) const {
    const std::lock_guard lock(guard_);
    auto row = check(text, wall_ms);
    if (!row)
        return Error{ErrorCode::unauthorised, row.error().message, "make a new one: rtrain token create --role node"};
    return row;
}

Result<state::TokenRow> TokenBook::check_person_token(const std::string& text, std::int64_t wall_ms) const {
    const std::lock_guard lock(guard_);
    auto row = check(text, wall_ms);
    if (!row) return row;
    if (const auto role = role_of(row->role); role && *role <= Role::admin) return row;
    return Error{ErrorCode::conflict, "a token of the role " + row->role + " is not a person's, and signs nobody in",
                 "ask an admin for a token: rtrain token create --role user"};
}

void TokenBook::note_use(const std::string& id, std::int64_t wall_ms) const {
    const std::lock_guard lock(guard_);
    used_[id] = wall_ms;
}

std::optional<std::int64_t> TokenBook::last_used(const std::string& id) const {
    const std::lock_guard lock(guard_);
    const auto entry = used_.find(id);
    return entry == used_.end() ? std::nullopt : std::optional(entry->second);
}

std::string TokenBook::run_secret(const std::string& id) const {
    return storage::hex(crypto::hmac_sha256(run_key_, id));
}

// A token in the form of an earlier version is also valid: workers that an earlier version launched, and that still
// run, have such a token.
bool TokenBook::opens_run(const std::string& id, const std::string& secret) const {
    const std::string earlier = crypto::sha256_hex(run_key_ + crypto::sha256_hex(run_key_ + id));
    return security::equal_constant_time(run_secret(id), secret) || security::equal_constant_time(earlier, secret);
}

std::string TokenBook::run_token(RunId run, const std::string& user) {
    const std::lock_guard lock(guard_);
    const std::string id = run_token_id(run);
    run_users_[id] = user;
    return security::to_text({.for_node = false, .ca_fingerprint = "", .id = id, .secret = run_secret(id)});
}

Result<std::string> TokenBook::run_channel(RunId run, const std::string& submit_key) const {
    return security::make_channel(crypto::hmac_sha256(run_key_, "channel of " + run_token_id(run) + " " + submit_key));
}

void TokenBook::revoke_certificates(std::set<std::string> serials) {
    const std::lock_guard lock(guard_);
    revoked_.merge(serials);
}

void TokenBook::set_left(const std::string& node, bool left) {
    const std::lock_guard lock(guard_);
    left ? (void)left_.insert(node) : (void)left_.erase(node);
}

bool TokenBook::left(const std::string& node) const {
    const std::lock_guard lock(guard_);
    return left_.contains(node);
}

void TokenBook::forget_run(RunId run) {
    const std::lock_guard lock(guard_);
    run_users_.erase(run_token_id(run));
}

}  // namespace rtrain::head
