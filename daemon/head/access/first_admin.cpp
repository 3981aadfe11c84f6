// See first_admin.hpp.
#include "daemon/head/access/first_admin.hpp"

#include <algorithm>

#include "daemon/head/base/clock.hpp"

namespace rtrain::head {
namespace {

// key of the setting that contains the id of the unused admin token
constexpr const char* unused_key = "unused_admin_token";

}  // namespace

Status FirstAdmin::open(state::SqliteJournal& journal, TokenBook& tokens, bool again) {
    const auto rows = tokens.rows();
    const bool none = std::none_of(rows.begin(), rows.end(), [now = wall_ms()](const state::TokenRow& row) {
        return row.role == to_text(Role::admin) && opens(row, now);
    });
    unused_ = journal.setting(unused_key).value_or("");
    const auto unused = tokens.row(unused_);
    if (unused && unused->revoked) unused_.clear();
    if (!none && (again || !unused || unused->revoked)) return Done{};
    const FreshToken fresh =
        make_token({.role = Role::admin, .user = "admin", .now_wall_ms = wall_ms(), .id = unused_});
    unused_ = fresh.row.id;
    state::Batch batch;
    batch.settings[unused_key] = unused_;
    batch.tokens.push_back(fresh.row);
    batch.audit.push_back({.wall_ms = wall_ms(),
                           .from = "the head's machine",
                           .action = "rtrain head start",
                           .target = "id=" + fresh.row.id + " role=admin user=admin"});
    if (auto saved = journal.commit(batch); !saved) return saved;
    tokens.set(fresh.row);
    text_ = fresh.text;
    return Done{};
}

void FirstAdmin::saw(const Caller& caller, Intake events) {
    if (unused_.empty() || caller.token_id != unused_) return;
    unused_.clear();
    events.save({.tokens = {}, .settings = {{unused_key, ""}}, .done = {}});
}

}  // namespace rtrain::head
