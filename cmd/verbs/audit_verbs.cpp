// rtrain audit, rtrain audit verify: print and verify the log of changes, from a running head or from its data
// directory.
#include "cmd/verbs/audit_verbs.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "cmd/client/api.hpp"
#include "cmd/daemons/head_entry.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::size_t page = 1'000;

std::int64_t wall_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

state::AuditRow row_of(const json& item) {
    return {.sequence = item.value("sequence", std::uint64_t{0}),
            .wall_ms = item.value("wall_ms", std::int64_t{0}),
            .user = string_of(item, "user"),
            .role = string_of(item, "role"),
            .credential = string_of(item, "credential"),
            .from = string_of(item, "from"),
            .action = string_of(item, "action"),
            .target = string_of(item, "target"),
            .run = string_of(item, "run"),
            .hash = string_of(item, "hash")};
}

Result<std::vector<state::AuditRow>> all_rows(Invocation& call) {
    std::vector<state::AuditRow> rows;
    if (Status fine = check_one_head(call.arguments); !fine) return fine.error();
    if (!call.arguments.has("data")) {
        Result<Api> api = Api::open(call);
        if (!api) return api.error();
        Result<json> answer = api->list("/v1/audit?limit=" + std::to_string(page));
        if (!answer) return answer.error();
        for (const json& item : (*answer)["items"]) rows.push_back(row_of(item));
        return rows;
    }
    for (;;) {
        auto some =
            state::SqliteJournal::audit_of(head_data(call.arguments), rows.empty() ? 0 : rows.back().sequence, page);
        if (!some) return some.error();
        rows.insert(rows.end(), some->begin(), some->end());
        if (some->size() < page) return rows;
    }
}

// Returns true if the row is about `run`: by its path (/v1/runs/RUN/... or /v1/storage/RUN/...), or by the head's note
// on a submission.
bool names_run(const state::AuditRow& row, const std::string& run) {
    const std::size_t blank = std::min(row.target.find(' '), row.target.size());
    const std::string path = row.target.substr(0, std::min(row.target.find('?'), blank));
    for (const std::string& top : {"/v1/runs/" + run, "/v1/storage/" + run})
        if (path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/')) return true;
    return row.target.substr(blank) == " name=" + run;
}

Result<int> audit(Invocation& call) {
    const auto rows = all_rows(call);
    if (!rows) return rows.error();
    const std::string user = call.arguments.text("user"), run = call.arguments.text("run");
    const std::int64_t since = call.arguments.has("since") ? wall_ms() - call.arguments.duration_ms("since", 0) : 0;
    json items = json::array();
    for (const state::AuditRow& row : run.empty() ? *rows : rows_of_run(*rows, run)) {
        if (row.wall_ms < since || (!user.empty() && row.user != user)) continue;
        items.push_back({{"sequence", row.sequence},
                         {"time", time_text(row.wall_ms)},
                         {"wall_ms", row.wall_ms},
                         {"user", row.user},
                         {"role", row.role},
                         {"credential", row.credential},
                         {"from", row.from},
                         {"action", row.action},
                         {"target", row.target},
                         {"run", row.run},
                         {"hash", row.hash}});
    }
    call.out.list({{"items", std::move(items)}},
                  {{"SEQ", "sequence"},
                   {"TIME", "time"},
                   {"USER", "user"},
                   {"CREDENTIAL", "credential"},
                   {"FROM", "from"},
                   {"ACTION", "action"},
                   {"TARGET", "target"},
                   {"RUN", "run"}},
                  "sequence", "nothing was changed");
    return 0;
}

Result<int> audit_verify(Invocation& call) {
    const auto rows = all_rows(call);
    if (!rows) return rows.error();
    const std::string head = call.arguments.text("head");
    const std::size_t colon = head.find(':');
    bool met = head.empty();
    state::AuditEnd end;
    for (const state::AuditRow& row : *rows) {
        if (Status follows = state::follow(end, row); !follows) return follows.error();
        met = met || (std::to_string(end.sequence) == head.substr(0, colon) && colon != std::string::npos &&
                      end.hash == head.substr(colon + 1));
    }
    if (!met)
        return Error{ErrorCode::damaged,
                     "the audit has no row " + head + ": its end was cut off, or it is another head's; it has " +
                         std::to_string(end.sequence) + " rows",
                     "compare it with a backup: rtrain audit --data DIR"};
    const std::string at = std::to_string(end.sequence) + ":" + end.hash;
    call.out.document(
        {{"sound", true}, {"rows", end.sequence}, {"head", at}}, "head",
        std::to_string(end.sequence) + " rows, each with the hash of the row before it; the end is " + at + "\n");
    return 0;
}

}  // namespace

std::vector<state::AuditRow> rows_of_run(const std::vector<state::AuditRow>& rows, const std::string& run) {
    std::set<std::string> ids{run};
    for (const state::AuditRow& row : rows)
        if (!row.run.empty() && names_run(row, run)) ids.insert(row.run);
    std::vector<state::AuditRow> out;
    for (const state::AuditRow& row : rows)
        if (ids.contains(row.run) || (row.run.empty() && names_run(row, run))) out.push_back(row);
    return out;
}

std::vector<Command> audit_commands() {
    const char* group = "Access";
    const Flag data{.name = "data",
                    .takes = Value::file,
                    .shown = "DIR",
                    .help = "read the head's data directory instead of asking the head"};
    return {{.words = "audit",
             .group = group,
             .help = "who changed what, when and from where",
             .flags = {{.name = "user", .takes = Value::text, .shown = "NAME", .help = "changes of one user"},
                       {.name = "run", .takes = Value::text, .shown = "RUN", .help = "changes of one run"},
                       {.name = "since", .takes = Value::duration, .shown = "TIME", .help = "no older ones"},
                       data},
             .handler = audit},
            {.words = "audit verify",
             .group = group,
             .help = "check that no row of the audit was changed or taken out",
             .flags = {{.name = "head",
                        .takes = Value::text,
                        .shown = "SEQ:HASH",
                        .help = "an end that the head logged: it must be in the chain"},
                       data},
             .handler = audit_verify}};
}

}  // namespace rtrain::cmd
