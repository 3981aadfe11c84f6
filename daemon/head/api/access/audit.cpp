// The audit: who changed what, oldest first.
#include <algorithm>

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
    const auto last = last_of(exchange);
    if (!last) return refuse(exchange, last.error());
    std::uint64_t after = exchange.query("cursor").empty() ? after_of(exchange) : page->offset;
    std::size_t limit = page->limit;
    if (*last > 0) {  // rows are numbered without gaps
        const std::uint64_t end = journal.audit_end().sequence;
        after = end - std::min<std::uint64_t>(end, *last);
        limit = *last;
    }
    json items = json::array(), cursor;
    for (const state::AuditRow& row : journal.audit(after, limit)) {
        items.push_back(audit_json(row));
        if (*last == 0 && items.size() == limit) cursor = std::to_string(row.sequence);
    }
    reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head
