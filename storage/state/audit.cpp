// See audit.hpp.
#include "storage/state/audit.hpp"

#include "base/crypto/digest.hpp"
#include "storage/state/audit_table.hpp"
#include "storage/state/body.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

constexpr std::int64_t audit_row_alone = 128;  // bytes that the numbers and the hash of a row take
constexpr const char* columns = "seq, wall_ms, user, role, credential, origin, action, target, run, hash";

AuditRow audit_row(const Row& row) {
    return {.sequence = static_cast<std::uint64_t>(row.integer(0)),
            .wall_ms = row.integer(1),
            .user = row.text(2),
            .role = row.text(3),
            .credential = row.text(4),
            .from = row.text(5),
            .action = row.text(6),
            .target = row.text(7),
            .run = row.text(8),
            .hash = row.text(9)};
}

}  // namespace

std::string audit_hash(const std::string& before, const AuditRow& row) {
    std::string content = before;
    for (const std::string& field : {std::to_string(row.sequence), std::to_string(row.wall_ms), row.user, row.role,
                                     row.credential, row.from, row.action, row.target, row.run})
        content += std::to_string(field.size()) + ":" + field;
    return crypto::sha256_hex(content);
}

Status follow(AuditEnd& end, const AuditRow& row) {
    const bool next = row.sequence == end.sequence + 1;
    if (!next || row.hash != audit_hash(end.hash, row))
        return Error{ErrorCode::damaged,
                     "the audit was changed: row " + std::to_string(row.sequence) +
                         (next ? " does not have the hash of its content and of the row before it"
                               : " follows row " + std::to_string(end.sequence)),
                     "compare it with a backup: rtrain audit --data DIR"};
    end = {.sequence = row.sequence, .hash = row.hash};
    return Done{};
}

Status add_audit(Database& database, AuditEnd& end, const std::vector<AuditRow>& rows) {
    for (AuditRow row : rows) {
        row.sequence = end.sequence + 1;
        row.hash = audit_hash(end.hash, row);
        if (Status written = insert_row(database, "audit",
                                        {static_cast<std::int64_t>(row.sequence), row.wall_ms, row.user, row.role,
                                         row.credential, row.from, row.action, row.target, row.run, row.hash});
            !written)
            return written;
        end = {.sequence = row.sequence, .hash = row.hash};
    }
    return Done{};
}

std::int64_t audit_row_bytes(const AuditRow& row) {
    return audit_row_alone +
           static_cast<std::int64_t>(row.user.size() + row.role.size() + row.credential.size() + row.from.size() +
                                     row.action.size() + row.target.size() + row.run.size());
}

Result<std::map<std::string, std::int64_t>> audit_bytes(Database& database) {
    std::map<std::string, std::int64_t> bytes;
    Status read = database.each(
        "SELECT user, sum(? + length(CAST(user || role || credential || origin || action || target || run AS BLOB))) "
        "FROM audit GROUP BY user",
        {audit_row_alone}, [&](const Row& row) { bytes[row.text(0)] = row.integer(1); });
    if (!read) return read.error();
    return bytes;
}

Result<AuditEnd> last_audit(Database& database) {
    AuditEnd end;
    Status read = database.each("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", {}, [&](const Row& row) {
        end = {.sequence = static_cast<std::uint64_t>(row.integer(0)), .hash = row.text(1)};
    });
    if (!read) return read.error();
    return end;
}

std::size_t text_bytes(const AuditRow& row) { return row.user.size() + row.action.size() + row.target.size(); }

Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, PageBounds most) {
    return read_audit(database, after, Filling<AuditRow>(most));
}

Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, Filling<AuditRow> to) {
    Status read = database.each_while(std::string("SELECT ") + columns + " FROM audit WHERE seq > ? ORDER BY seq",
                                      {static_cast<std::int64_t>(after)}, [&](const Row& stored) {
                                          AuditRow row = audit_row(stored);
                                          const std::size_t bytes = text_bytes(row);
                                          return to.add(std::move(row), bytes);
                                      });
    if (!read) return read.error();
    return std::move(to.page);
}

Result<AuditEnd> check_audit(Database& database) {
    Result<AuditEnd> end = archived_audit(database);
    if (!end) return end.error();
    Status whole = Done{};
    Status read = database.each(std::string("SELECT ") + columns + " FROM audit ORDER BY seq", {}, [&](const Row& row) {
        if (whole) whole = follow(*end, audit_row(row));
    });
    if (!read) return read.error();
    if (!whole) return whole.error();
    return end;
}

PageOf<AuditRow> SqliteJournal::audit(std::uint64_t after, PageBounds most) const {
    std::lock_guard held(body_->paging);
    Result<Transaction> one_view =
        // One transaction is used for all reads, because rows may move into segments in between.
        Transaction::begin(body_->pages, Transaction::Kind::read);
    if (!one_view) throw ReadFailed(one_view.error());
    auto page = read_whole_audit(body_->pages, audit_folder(body_->directory), after, most);
    if (!page) throw ReadFailed(page.error());
    return std::move(*page);
}

AuditEnd SqliteJournal::audit_end() const {
    std::lock_guard held(body_->end_mutex);  // This is not the writer's mutex, so that no reader waits for a commit.
    return body_->audit_end;
}

}  // namespace rtrain::state
