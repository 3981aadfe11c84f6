// rtrain queue list|set|remove|apply: the rules of the queues, changed while the head works.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "cmd/client/api.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/verbs/rows.hpp"
#include "storage/job_spec/fields/queues.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::string_view budget_field = "budget_text";

// Returns hours as text: "120.5". It has at most two decimals, and no zeros at the end.
std::string hours(const json& number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", number.get<double>());
    std::string trimmed = text;
    trimmed.erase(trimmed.find_last_not_of('0') + 1);
    if (trimmed.back() == '.') trimmed.pop_back();
    return trimmed;
}

const std::vector<Column>& queue_columns() {
    static const std::vector<Column> columns{{"NAME", "name"},
                                             {"PARENT", "parent"},
                                             {"SHARE", "share"},
                                             {"QUOTA", "quota", Shape::pairs},
                                             {"USER RUNS", "user_runs", Shape::text, true},
                                             {"USER GPUS", "user_gpus", Shape::text, true},
                                             {"GPU HOURS", budget_field.data()},
                                             {"IN USE", "in_use", Shape::pairs},
                                             {"RUNNING", "running"},
                                             {"WAITING", "waiting"},
                                             {"BORROW", "borrow", Shape::text, true},
                                             {"PREEMPT", "preempt", Shape::text, true}};
    return columns;
}

// Returns a text about the queue's budgets: "120.5 of 500 in 30d", and for budgets of users: "users: ana 80 of 100".
std::string budget_text(const json& queue) {
    std::string own, users;
    for (const json& budget : queue["budgets"]) {
        const std::string text = hours(budget["used"]) + " of " + hours(budget["gpu_hours"]);
        if (budget["user"].is_null())
            own = text;
        else
            users += (users.empty() ? "" : ", ") + budget["user"].get<std::string>() + " " + text;
    }
    if (users.empty() && !queue["user_gpu_hours"].is_null())
        users = "each user " + queue["user_gpu_hours"].get<std::string>();
    if (own.empty() && users.empty()) return "";
    return own + (own.empty() || users.empty() ? "" : ", ") + users + " in " +
           queue["budget_window"].get<std::string>();
}

Result<int> show_queues(Invocation& call, Result<json> queues) {
    if (!queues) return queues.error();
    std::vector<Column> columns = queue_columns();
    bool budgets = false;
    if (call.out.for_people())
        for (json& queue : (*queues)["items"]) {
            queue["budget_text"] = budget_text(queue);
            budgets = budgets || !queue["budget_text"].get<std::string>().empty();
        }
    if (!budgets) std::erase_if(columns, [](const Column& column) { return column.field == budget_field; });
    call.out.list(*queues, columns, "name", "");
    return 0;
}

Result<int> queue_list(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    return show_queues(call, api->list("/v1/queues"));
}

Error wrong_value(const std::string& flag, const std::string& text, const std::string& next) {
    return {.code = ErrorCode::usage, .message = "--" + flag + ": \"" + text + "\" cannot be read", .next = next};
}

// Parses changes of amounts: "GPU=8,memory=2Ti". "GPU=none" removes one limit, and "none" removes all limits.
Result<json> amounts_change(const std::string& flag, const std::string& text, const std::string& next) {
    if (text == "none") return json();
    json quota = json::object();
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const auto equals = part.find('=');
        if (equals == 0 || equals == part.npos || equals + 1 == part.size()) return wrong_value(flag, text, next);
        const std::string amount = part.substr(equals + 1);
        quota[part.substr(0, equals)] = amount == "none" ? json() : json(amount);
        begin = end + 1;
    }
    return quota;
}

// Returns a limit for one user: a number as text ("4"), or null for "none". The head checks the number.
Result<json> user_limit(const std::string& flag, const std::string& text) {
    if (text == "none") return json();
    json number = parse_json(text);
    if (number.is_number()) return number;
    return wrong_value(flag, text, "for example --" + flag + " 4, or --" + flag + " none");
}

Result<json> rules_change(const Arguments& arguments) {
    json change = json::object();
    if (arguments.has("share")) change["share"] = arguments.number("share", 1);
    if (arguments.has("parent"))
        change["parent"] = arguments.text("parent") == "none" ? json() : json(arguments.text("parent"));
    if (arguments.has("quota")) {
        Result<json> quota = amounts_change("quota", arguments.text("quota"),
                                            "for example --quota GPU=8,memory=2Ti, or --quota GPU=none");
        if (!quota) return quota.error();
        change["quota"] = std::move(*quota);
    }
    if (arguments.has("gpu-hours-of")) {
        Result<json> of = amounts_change("gpu-hours-of", arguments.text("gpu-hours-of"),
                                         "for example --gpu-hours-of ana=200,ben=none");
        if (!of) return of.error();
        change["user_gpu_hours_of"] = std::move(*of);
    }
    if (arguments.has("budget-window")) change["budget_window"] = arguments.text("budget-window");
    if (arguments.has("budget-preempts")) change["budget_preempts"] = arguments.text("budget-preempts") == "yes";
    for (const auto& [flag, field] : {std::pair{"user-runs", "user_runs"},
                                      {"user-gpus", "user_gpus"},
                                      {"gpu-hours", "gpu_hours"},
                                      {"user-gpu-hours", "user_gpu_hours"}})
        if (arguments.has(flag)) {
            Result<json> limit = user_limit(flag, arguments.text(flag));
            if (!limit) return limit.error();
            change[field] = std::move(*limit);
        }
    for (const char* flag : {"borrow", "preempt"})
        if (arguments.has(flag)) change[flag] = arguments.text(flag) == "yes";
    return change;
}

Result<int> queue_set(Invocation& call) {
    const Result<json> change = rules_change(call.arguments);
    if (!change) return change.error();
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    return show_queues(call, api->put("/v1/queues/" + url_part(call.arguments.argument(0)), *change));
}

Result<int> queue_remove(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    return show_queues(call, api->remove("/v1/queues/" + url_part(call.arguments.argument(0))));
}

// The file is checked here before it is sent, so that problems are shown with the file's lines.
Result<int> queue_apply(Invocation& call) {
    const std::string path = call.arguments.argument(0);
    Result<std::string> text = read_text(path);
    if (!text) return text.error();
    const spec::QueuesAnswer answer = spec::read_queues(*text);
    for (const Problem& problem : answer.problems) call.out.talk(spec::problem_text(problem, path, *text));
    call.problems = answer.problems;
    if (!answer.queues)
        return Error{.code = ErrorCode::invalid,
                     .message = path + " has problems, and nothing was changed",
                     .next = "configs/queues.yaml shows every field"};
    if (call.arguments.has("dry-run")) {
        call.out.document({{"file", path}, {"sound", true}, {"queues", answer.queues->rules.size()}}, "file",
                          path + " is sound\n");
        return 0;
    }
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    return show_queues(call, api->put("/v1/queues", {{"text", *text}}));
}

}  // namespace

std::vector<Command> queue_commands() {
    const char* group = "Cluster";
    const Argument name{.name = "NAME"};
    return {{.words = "queue list", .group = group, .help = "list the queues: rules, use, runs", .handler = queue_list},
            {.words = "queue set",
             .group = group,
             .help = "make a queue, or change what the flags name, while the head works",
             .arguments = {name},
             .flags = {{.name = "quota",
                        .takes = Value::text,
                        .shown = "LIST",
                        .help = "the most that it may hold: GPU=8,memory=2Ti; GPU=none lifts that limit, none all"},
                       {.name = "user-runs",
                        .takes = Value::text,
                        .shown = "N",
                        .help = "the most live runs of one user in it at once; none lifts the limit"},
                       {.name = "user-gpus",
                        .takes = Value::text,
                        .shown = "N",
                        .help = "the most GPUs that one user may hold in it at once; none lifts the limit"},
                       {.name = "gpu-hours",
                        .takes = Value::text,
                        .shown = "N",
                        .help = "its budget of GPU hours within the window; then its runs wait; none lifts it"},
                       {.name = "user-gpu-hours",
                        .takes = Value::text,
                        .shown = "N",
                        .help = "the budget of each user in it; none lifts it"},
                       {.name = "gpu-hours-of",
                        .takes = Value::text,
                        .shown = "LIST",
                        .help = "budgets of single users instead: ana=200; ana=none removes it, none all"},
                       {.name = "budget-window",
                        .takes = Value::text,
                        .shown = "TIME",
                        .help = "the span of its budgets, which moves with time: 30d (the default), 1h to 366d"},
                       {.name = "budget-preempts",
                        .takes = Value::choice,
                        .shown = "yes|no",
                        .help = "are running runs preempted once their budget is used up",
                        .choices = "yes|no"},
                       {.name = "share", .takes = Value::number, .shown = "N", .help = "its part against other queues"},
                       {.name = "parent",
                        .takes = Value::text,
                        .shown = "QUEUE",
                        .help = "the queue above, whose idle quota it borrows; none: it has no parent"},
                       {.name = "borrow",
                        .takes = Value::choice,
                        .shown = "yes|no",
                        .help = "may it go beyond its own quota",
                        .choices = "yes|no"},
                       {.name = "preempt",
                        .takes = Value::choice,
                        .shown = "yes|no",
                        .help = "may higher priorities take its room, and it theirs",
                        .choices = "yes|no"}},
             .handler = queue_set},
            {.words = "queue remove",
             .group = group,
             .help = "remove a queue that no live run is in",
             .arguments = {name},
             .handler = queue_remove},
            {.words = "queue apply",
             .group = group,
             .help = "replace all queues by those of a file, as in configs/queues.yaml",
             .arguments = {{.name = "FILE", .value = Value::file}},
             .flags = {{.name = "dry-run", .help = "check the file, and change nothing"}},
             .handler = queue_apply}};
}

}  // namespace rtrain::cmd
