// See browser_sessions.hpp.
#include "daemon/head/access/browser_sessions.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crypto/digest.hpp"
#include "base/hex.hpp"
#include "base/json_text.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

std::string key_of(const std::string& id) { return BrowserSessions::prefix + id; }

std::string text_of(const BrowserSession& session) {
    return json_text(json{{"token", session.token_id},
                          {"token_hash", session.token_hash},
                          {"user", session.user},
                          {"begun_wall_ms", session.begun_wall_ms},
                          {"used_wall_ms", session.used_wall_ms}});
}

std::optional<BrowserSession> parse(const std::string& text) {
    const json value = parse_json(text);
    if (!value.is_object()) return std::nullopt;
    try {
        return BrowserSession{.token_id = value.at("token"),
                              .token_hash = value.at("token_hash"),
                              .user = value.at("user"),
                              .begun_wall_ms = value.at("begun_wall_ms"),
                              .used_wall_ms = value.at("used_wall_ms")};
    } catch (const json::exception&) { return std::nullopt; }
}

bool idle_too_long(const BrowserSession& session, std::int64_t wall_ms) {
    return wall_ms - session.used_wall_ms >= session_idle_most_ms;
}

// Returns the token with which the session was begun; nullopt if that token is no longer valid.
std::optional<state::TokenRow> token_of(const BrowserSession& session, const TokenBook& tokens, std::int64_t wall_ms) {
    auto row = tokens.row(session.token_id);
    if (!row || !opens(*row, wall_ms) || row->secret_hash != session.token_hash) return std::nullopt;
    return row;
}

Error no_session(const std::string& why) {
    return {ErrorCode::unauthorised, why, "sign in: open the page and give your token"};
}

}  // namespace

std::string csrf_token_of(const std::string& secret) {
    return storage::hex(crypto::hmac_sha256(secret, "csrf token of a browser's session"));
}

std::vector<std::string> BrowserSessions::open(const Settings& saved, const TokenBook& tokens, std::int64_t wall_ms) {
    const std::lock_guard lock(guard_);
    std::vector<std::string> ended;
    for (const auto& [key, text] : saved) {
        const auto session = parse(text);
        const bool lives = session && !idle_too_long(*session, wall_ms) && token_of(*session, tokens, wall_ms);
        if (!lives || sessions_.size() >= sessions_most)
            ended.push_back(key);
        else
            sessions_[key.substr(std::string(prefix).size())] = {*session, session->used_wall_ms};
    }
    return ended;
}

void BrowserSessions::drop(Sessions::iterator which, Settings& settings) {
    settings[key_of(which->first)] = "";
    sessions_.erase(which);
}

void BrowserSessions::drop_ended(const TokenBook& tokens, std::int64_t wall_ms, Settings& settings) {
    for (auto at = sessions_.begin(); at != sessions_.end();) {
        const auto here = at++;
        const BrowserSession& session = here->second.session;
        if (idle_too_long(session, wall_ms) || !token_of(session, tokens, wall_ms)) drop(here, settings);
    }
}

void BrowserSessions::make_room(const std::string& user, Settings& settings) {
    std::vector<Sessions::iterator> own;
    for (auto at = sessions_.begin(); at != sessions_.end(); ++at)
        if (at->second.session.user == user) own.push_back(at);
    if (own.size() < sessions_per_user_most) return;
    drop(*std::min_element(own.begin(), own.end(),
                           [](const auto& a, const auto& b) {
                               return a->second.session.used_wall_ms < b->second.session.used_wall_ms;
                           }),
         settings);
}

Result<BrowserSessions::Settings> BrowserSessions::begin(const std::string& secret, const state::TokenRow& token,
                                                         const TokenBook& tokens, std::int64_t wall_ms) {
    const std::lock_guard lock(guard_);
    Settings settings;
    drop_ended(tokens, wall_ms, settings);
    make_room(token.user, settings);
    if (sessions_.size() >= sessions_most)
        return Error{ErrorCode::full,
                     "as many browsers are signed in as there may be: " + std::to_string(sessions_most),
                     "sign out where it is not needed; a session ends by itself after 12 hours without use"};
    const std::string id = crypto::sha256_hex(secret);
    const BrowserSession session{.token_id = token.id,
                                 .token_hash = token.secret_hash,
                                 .user = token.user,
                                 .begun_wall_ms = wall_ms,
                                 .used_wall_ms = wall_ms};
    settings[key_of(id)] = text_of(session);
    sessions_[id] = {session, wall_ms};
    return settings;
}

BrowserSessions::Settings BrowserSessions::end(const std::string& id) {
    const std::lock_guard lock(guard_);
    Settings settings;
    if (const auto which = sessions_.find(id); which != sessions_.end()) drop(which, settings);
    return settings;
}

Result<Caller> BrowserSessions::caller_of(const std::string& secret, const TokenBook& tokens,
                                          std::int64_t wall_ms) const {
    const std::string id = crypto::sha256_hex(secret);
    const std::lock_guard lock(guard_);
    const auto which = sessions_.find(id);
    if (which == sessions_.end()) return no_session("this browser's session has ended, or never was one");
    BrowserSession& session = which->second.session;
    if (idle_too_long(session, wall_ms)) return no_session("the session was not used for 12 hours, and has ended");
    const auto row = token_of(session, tokens, wall_ms);
    if (!row) return no_session("the token of this session was revoked or has expired");
    const auto role = role_of(row->role);
    if (!role || *role > Role::admin) return no_session("the token of this session is of another kind");
    session.used_wall_ms = std::max(session.used_wall_ms, wall_ms);
    tokens.note_use(row->id, wall_ms);
    return Caller{.role = *role, .user = row->user, .node = "", .token_id = row->id, .session = id};
}

bool BrowserSessions::lives(const std::string& id, std::int64_t wall_ms) const {
    const std::lock_guard lock(guard_);
    const auto which = sessions_.find(id);
    return which != sessions_.end() && !idle_too_long(which->second.session, wall_ms);
}

void BrowserSessions::add_changes(Settings& settings) const {
    const std::lock_guard lock(guard_);
    for (auto& [id, kept] : sessions_) {
        if (kept.session.used_wall_ms - kept.saved_used_wall_ms < session_saved_each_ms) continue;
        kept.saved_used_wall_ms = kept.session.used_wall_ms;
        settings[key_of(id)] = text_of(kept.session);
    }
}

std::size_t BrowserSessions::count() const {
    const std::lock_guard lock(guard_);
    return sessions_.size();
}

}  // namespace rtrain::head
