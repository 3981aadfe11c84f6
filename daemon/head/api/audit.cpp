// The audit: who changed what, oldest first.
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

json audit_json(const state::AuditRow& row) {
    return {{"sequence", row.sequence}, {"time", wall_json(row.wall_ms)},
            {"wall_ms", row.wall_ms},   {"user", row.user},
            {"role", row.role},         {"credential", row.credential},
            {"from", row.from},         {"action", row.action},
            {"target", row.target},     {"run", row.run},
            {"hash", row.hash}};
}

}  // namespace

void get_audit(Exchange& exchange, const state::SqliteJournal& journal) {
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    const std::uint64_t after = exchange.query("cursor").empty() ? after_of(exchange) : page->offset;
    json items = json::array(), cursor;
    for (const state::AuditRow& row : journal.audit(after, page->limit)) {
        items.push_back(audit_json(row));
        if (items.size() == page->limit) cursor = std::to_string(row.sequence);
    }
    reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head
