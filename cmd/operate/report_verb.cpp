// rtrain report: GPU hours of a month by user, queue or run.
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "cmd/verbs/rows.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

std::int64_t begin_of_month_ms(int year, int month) {
    std::tm utc{};
    utc.tm_year = year - 1'900 + (month - 1) / 12;
    utc.tm_mon = (month - 1) % 12;
    utc.tm_mday = 1;
    return static_cast<std::int64_t>(::timegm(&utc)) * 1'000;
}

struct Month {
    int year = 0, number = 0;
};

Result<Month> month_of(const std::string& text) {
    Month month;
    int read = 0;
    const bool whole = text.size() == 7 &&
                       std::sscanf(text.c_str(), "%4d-%2d%n", &month.year, &month.number, &read) == 2 && read == 7 &&
                       month.year >= 1970 && month.number >= 1 && month.number <= 12;
    if (whole) return month;
    return Error{.code = ErrorCode::usage,
                 .message = "--month: \"" + text + "\" is no month",
                 .next = "for example --month 2025-03"};
}

std::string this_month() { return time_text(wall_now_ms()).substr(0, 7); }

std::string fixed(const json& value, const char* form, double times) {
    if (!value.is_number()) return "";
    char text[64];
    std::snprintf(text, sizeof text, form, value.get<double>() * times);
    return text;
}

// Returns the text as one field of CSV (RFC 4180), quoted if necessary.
std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == text.npos) return text;
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

std::string csv_of(const json& items) {
    std::string text = "user,queue,run_id,name,runs,gpu_hours,cpu_hours,efficiency\n";
    for (const json& item : items) {
        for (const char* field : {"user", "queue", "run_id", "name"}) text += csv_field(string_of(item, field)) + ",";
        text += std::to_string(item.value("runs", 0)) + "," + fixed(item["gpu_hours"], "%.4f", 1) + "," +
                fixed(item["cpu_hours"], "%.4f", 1) + "," + fixed(item["efficiency"], "%.4f", 1) + "\n";
    }
    return text;
}

// Adds the present budgets of each row's user or queue.
Status add_budgets(Api& api, const std::string& by, json& items) {
    const Result<json> queues = api.list("/v1/queues");
    if (!queues) return queues.error();
    for (json& item : items) {
        item["budgets"] = json::array();
        for (const json& queue : (*queues)["items"])
            for (json budget : queue.value("budgets", json::array())) {
                const bool own = by == "queue" ? budget["user"].is_null() && queue["name"] == item["queue"]
                                               : budget["user"] == item["user"];
                if (!own) continue;
                budget["queue"] = queue["name"];
                budget["window"] = queue["budget_window"];
                item["budgets"].push_back(std::move(budget));
            }
    }
    return Done{};
}

// Returns a text such as "lab 79.5 of 100 in 30d".
std::string budgets_text(const json& budgets, const std::string& by) {
    std::string text;
    for (const json& budget : budgets)
        text += (text.empty() ? "" : ", ") + (by == "queue" ? "" : string_of(budget, "queue") + " ") +
                fixed(budget["used"], "%.2f", 1) + " of " + fixed(budget["gpu_hours"], "%.2f", 1) + " in " +
                string_of(budget, "window");
    return text;
}

std::vector<Column> columns_by(const std::string& by) {
    std::vector<Column> columns;
    if (by != "queue") columns.push_back({"USER", "user"});
    if (by != "user") columns.push_back({"QUEUE", "queue"});
    if (by == "run") columns.push_back({"NAME", "name"});
    if (by == "run") columns.push_back({"RUN", "run_id"});
    if (by != "run") columns.push_back({"RUNS", "runs"});
    for (const Column& column :
         {Column{"GPU HOURS", "gpu_hours_text"}, {"CPU HOURS", "cpu_hours_text"}, {"EFFICIENCY", "efficiency_text"}})
        columns.push_back(column);
    if (by != "run") columns.push_back({"BUDGET NOW", "budget_text"});
    return columns;
}

Result<int> report(Invocation& call) {
    const std::string by = call.arguments.text("by", "user");
    const Result<Month> month = month_of(call.arguments.text("month", this_month()));
    if (!month) return month.error();
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer =
        api->list("/v1/report?by=" + by + "&from_ms=" + std::to_string(begin_of_month_ms(month->year, month->number)) +
                  "&until_ms=" + std::to_string(begin_of_month_ms(month->year, month->number + 1)));
    if (!answer) return answer.error();
    if (call.arguments.has("csv")) {
        call.out.document(*answer, "items", csv_of((*answer)["items"]));
        return 0;
    }
    if (by != "run")
        if (const Status added = add_budgets(*api, by, (*answer)["items"]); !added) return added.error();
    if (call.out.for_people())
        for (json& item : (*answer)["items"]) {
            if (by != "run") item["budget_text"] = budgets_text(item["budgets"], by);
            item["gpu_hours_text"] = fixed(item["gpu_hours"], "%.2f", 1);
            item["cpu_hours_text"] = fixed(item["cpu_hours"], "%.2f", 1);
            item["efficiency_text"] = fixed(item["efficiency"], "%.0f %%", 100);
        }
    call.out.list(*answer, columns_by(by), by == "run" ? "run_id" : by.c_str(), "no run held resources in that month");
    return 0;
}

}  // namespace

std::vector<Command> report_commands() {
    return {{.words = "report",
             .group = "Cluster",
             .help = "GPU and CPU hours of a month, and how much of them was productive",
             .flags = {{.name = "month", .takes = Value::text, .shown = "YYYY-MM", .help = "UTC (default: this month)"},
                       {.name = "by",
                        .takes = Value::choice,
                        .shown = "WHAT",
                        .help = "user (default), queue or run",
                        .choices = "user|queue|run"},
                       {.name = "csv", .help = "comma-separated values, for a spreadsheet"}},
             .handler = report}};
}

}  // namespace rtrain::cmd
