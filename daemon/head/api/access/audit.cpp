// Lists the audit, oldest row first.
#include <algorithm>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t audit_page_bytes = 4 << 20;  // the most bytes of texts in one page

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
    if (*last > 0) {  // The newest rows begin at this number, since rows are numbered without gaps.
        const std::uint64_t end = journal.audit_end().sequence;
        after = end - std::min<std::uint64_t>(end, *last);
        limit = *last;
    }
    read_on_pool(
        exchange, [&journal, after, limit] { return journal.audit(after, {.rows = limit, .bytes = audit_page_bytes}); },
        [tail = *last > 0](Exchange& to, const state::PageOf<state::AuditRow>& read) {
            reply_list(to, Page{.limit = read.rows.size()},
                       [tail, read, at = std::size_t{0}](Listing& list, json& cursor) mutable {
                           if (at < read.rows.size()) {
                               list.add(audit_json(read.rows[at++]));
                               return true;
                           }
                           if (!tail && read.more) cursor = std::to_string(read.rows.back().sequence);
                           return false;
                       });
        });
}

}  // namespace rtrain::head
