// The tables beside the core: tokens, settings, and the metrics of reports, which are thinned as they grow.
#include <cstdio>

#include "storage/state/body.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

constexpr std::int64_t metrics_limit = 20'000;  // rows of one run; beyond, every second of the older half goes

Result<bool> add_metric(Database& database, const MetricRow& row) {
    auto run = static_cast<std::int64_t>(row.attempt.run.value);
    Status added = database.run(
        "INSERT OR IGNORE INTO metrics SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3, ?4, ?5 FROM metrics WHERE "
        "run=?1",
        {run, std::int64_t{row.attempt.number}, static_cast<std::int64_t>(row.index), row.wall_ms, row.metrics_json});
    if (!added) return added.error();
    return database.last_run_changed_rows();
}

Status thin_metrics(Database& database, RunId run) {
    auto id = static_cast<std::int64_t>(run.value);
    Result<std::int64_t> rows = database.integer("SELECT count(*) FROM metrics WHERE run=?", {id});
    if (!rows) return rows.error();
    if (*rows <= metrics_limit) return Done{};
    return database.run(
        "DELETE FROM metrics WHERE run=?1 AND position IN (SELECT position FROM (SELECT position, row_number() OVER "
        "(ORDER BY position) AS place FROM metrics WHERE run=?1 ORDER BY position LIMIT ?2) WHERE place % 2 = 0)",
        {id, metrics_limit / 2});
}

}  // namespace

Status SqliteJournal::save_token(const TokenRow& token) {
    std::lock_guard held(body_->mutex);
    return insert_row(body_->database, "tokens",
                      {token.id, token.secret_hash, token.role, token.user, token.created_wall_ms,
                       token.expires_wall_ms, token.uses_left, std::int64_t{token.revoked}});
}

std::vector<TokenRow> SqliteJournal::tokens() const {
    std::lock_guard held(body_->mutex);
    std::vector<TokenRow> tokens;
    Status read = body_->database.each(
        "SELECT id, secret_hash, role, user, created, expires, uses_left, revoked FROM tokens ORDER BY created, id", {},
        [&](const Row& row) {
            tokens.push_back({.id = row.text(0),
                              .secret_hash = row.text(1),
                              .role = row.text(2),
                              .user = row.text(3),
                              .created_wall_ms = row.integer(4),
                              .expires_wall_ms = row.integer(5),
                              .uses_left = row.integer(6),
                              .revoked = row.integer(7) != 0});
        });
    RTRAIN_CHECK(read.ok(), read.error().message);
    return tokens;
}

Status SqliteJournal::save_setting(const std::string& key, const std::string& value) {
    std::lock_guard held(body_->mutex);
    return write_setting(body_->database, "head." + key, value);
}

std::optional<std::string> SqliteJournal::setting(const std::string& key) const {
    std::lock_guard held(body_->mutex);
    std::optional<std::string> value;
    Status read = body_->database.each("SELECT value FROM settings WHERE key=?", {"head." + key},
                                       [&](const Row& row) { value = row.text(0); });
    RTRAIN_CHECK(read.ok(), read.error().message);
    return value;
}

Status SqliteJournal::add_metrics(const std::vector<MetricRow>& rows) {
    std::lock_guard held(body_->mutex);
    Result<Transaction> transaction = Transaction::begin(body_->database, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    std::map<RunId, std::int64_t> grown;
    for (const MetricRow& row : rows) {
        Result<bool> added = add_metric(body_->database, row);
        if (!added) return added.error();
        if (*added) ++grown[row.attempt.run];
    }
    for (const auto& [run, count] : grown)
        if (Status thinned = thin_metrics(body_->database, run); !thinned) return thinned.error();
    return transaction->commit();
}

std::vector<MetricRow> SqliteJournal::metrics(RunId run, std::uint64_t after_position, std::size_t limit) const {
    std::lock_guard held(body_->mutex);
    std::vector<MetricRow> rows;
    Status read = body_->database.each(
        "SELECT attempt, idx, wall_ms, json, position FROM metrics WHERE run=? AND position > ? ORDER BY position "
        "LIMIT ?",
        {static_cast<std::int64_t>(run.value), static_cast<std::int64_t>(after_position),
         static_cast<std::int64_t>(limit)},
        [&](const Row& row) {
            rows.push_back({.attempt = {.run = run, .number = static_cast<std::uint32_t>(row.integer(0))},
                            .index = static_cast<std::uint64_t>(row.integer(1)),
                            .wall_ms = row.integer(2),
                            .metrics_json = row.text(3),
                            .position = static_cast<std::uint64_t>(row.integer(4))});
        });
    RTRAIN_CHECK(read.ok(), read.error().message);
    return rows;
}

void SqliteJournal::forget_run(RunId run) {
    std::lock_guard held(body_->mutex);
    Status erased = body_->database.run("DELETE FROM metrics WHERE run=?", {static_cast<std::int64_t>(run.value)});
    if (!erased)
        std::fprintf(stderr, "rtrain: the metrics of run %llu stay for now: %s\n",
                     static_cast<unsigned long long>(run.value), erased.error().message.c_str());
}

}  // namespace rtrain::state
