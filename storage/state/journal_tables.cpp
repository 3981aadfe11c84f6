// Reads and writes the tables that are not the core's: tokens, settings, and the metrics of reports.
#include "storage/state/body.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {

Status write_token(Database& database, const TokenRow& token) {
    return insert_row(database, "tokens",
                      {token.id, token.secret_hash, token.role, token.user, token.created_wall_ms,
                       token.expires_wall_ms, token.uses_left, std::int64_t{token.revoked}});
}

Status SqliteJournal::save_token(const TokenRow& token) {
    return with_room([&] { return write_token(body_->database, token); });
}

std::vector<TokenRow> SqliteJournal::tokens() const {
    std::lock_guard held(body_->reading);
    std::vector<TokenRow> tokens;
    Status read = body_->reader.each(
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
    if (!read) throw ReadFailed(read.error());
    return tokens;
}

Status SqliteJournal::save_setting(const std::string& key, const std::string& value) {
    return with_room([&] { return write_setting(body_->database, setting_prefix + key, value); });
}

std::optional<std::string> SqliteJournal::setting(const std::string& key) const {
    std::lock_guard held(body_->reading);
    std::optional<std::string> value;
    Status read = body_->reader.each("SELECT value FROM settings WHERE key=?", {setting_prefix + key},
                                     [&](const Row& row) { value = row.text(0); });
    if (!read) throw ReadFailed(read.error());
    return value;
}

std::map<std::string, std::string> SqliteJournal::settings(const std::string& prefix) const {
    std::lock_guard held(body_->reading);
    const std::string begin = setting_prefix + prefix;
    std::map<std::string, std::string> values;
    Status read = body_->reader.each("SELECT key, value FROM settings WHERE substr(key, 1, ?1) = ?2",
                                     {static_cast<std::int64_t>(begin.size()), begin}, [&](const Row& row) {
                                         values[row.text(0).substr(std::string(setting_prefix).size())] = row.text(1);
                                     });
    if (!read) throw ReadFailed(read.error());
    return values;
}

Status SqliteJournal::erase_settings(const std::vector<std::string>& keys) {
    if (keys.empty()) return Done{};
    return with_room([&]() -> Status {
        Result<Transaction> transaction = Transaction::begin(body_->database, Transaction::Kind::write);
        if (!transaction) return transaction.error();
        for (const std::string& key : keys)
            if (Status erased = body_->database.run("DELETE FROM settings WHERE key=?", {setting_prefix + key});
                !erased)
                return erased;
        return transaction->commit();
    });
}

PageOf<MetricRow> SqliteJournal::metrics(RunId run, std::uint64_t after_position, PageBounds most) const {
    std::lock_guard held(body_->paging);
    // One transaction is used for all reads, because rows may move into chunks in between.
    Result<Transaction> one_view = Transaction::begin(body_->pages, Transaction::Kind::read);
    if (!one_view) throw ReadFailed(one_view.error());
    Result<PageOf<MetricRow>> page = read_metrics(body_->pages, run, after_position, most);
    if (!page) throw ReadFailed(page.error());
    return std::move(*page);
}

std::optional<MetricRow> SqliteJournal::last_metrics(RunId run) const {
    std::lock_guard held(body_->reading);
    Result<Transaction> one_view = Transaction::begin(body_->reader, Transaction::Kind::read);
    if (!one_view) throw ReadFailed(one_view.error());
    Result<std::optional<MetricRow>> row = last_metric(body_->reader, run);
    if (!row) throw ReadFailed(row.error());
    return std::move(*row);
}

}  // namespace rtrain::state
