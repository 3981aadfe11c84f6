// rtrain logs|events|metrics: print a run's output, its events and its reported values.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.hpp"
#include "cmd/client/follow.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

bool one_rank(const std::string& rank, const json& run) {
    const bool number = !rank.empty() && rank.find_first_not_of("0123456789") == rank.npos;
    return number || run.value("workers", json(0)) == 1;
}

Result<LogWish> log_wish(const Arguments& arguments) {
    LogWish wish{.rank = arguments.text("rank"),
                 .attempt = arguments.text("attempt"),
                 .stream = arguments.text("stream"),
                 .since_wall_ms = 0,
                 .tail = arguments.number("tail", -1),
                 .grep = std::nullopt,
                 .prefix = true};
    if (wish.rank.find_first_not_of("0123456789,-") != wish.rank.npos && wish.rank != "all" && wish.rank != "failed")
        return Error{.code = ErrorCode::usage,
                     .message = "--rank: \"" + wish.rank + "\" is not a list such as 0,3-5, nor failed, nor all",
                     .next = "rtrain logs --help"};
    if (wish.attempt.find_first_not_of("0123456789") != wish.attempt.npos && wish.attempt != "all")
        return Error{.code = ErrorCode::usage,
                     .message = "--attempt: \"" + wish.attempt + "\" is not a number, nor all",
                     .next = "rtrain logs --help"};
    if (arguments.has("since")) wish.since_wall_ms = wall_now_ms() - arguments.duration_ms("since", 0);
    wish.timestamps = arguments.has("timestamps");
    if (!arguments.has("grep")) return wish;
    Result<LinePattern> pattern = LinePattern::compile(arguments.text("grep"));
    if (!pattern) return pattern.error();
    wish.grep = *std::move(pattern);
    return wish;
}

// Returns why there are no lines to print: the run has not started, it printed nothing, or the flags exclude all of its
// lines.
std::string no_lines_text(const Arguments& arguments, const json& run) {
    const std::string name = string_of(run, "name");
    const int attempts = run.value("attempts", 0), workers = run.value("workers", 0);
    if (attempts == 0) return run_line(run) + ". It has not started, so it has no lines; next: rtrain explain " + name;
    std::string chosen;
    for (const char* flag : {"rank", "attempt", "stream", "since", "grep"})
        if (arguments.has(flag)) chosen += std::string(" --") + flag + " " + arguments.text(flag);
    if (chosen.empty())
        return run_line(run) + ". Its newest attempt has printed nothing" +
               (attempts > 1 ? "; next: rtrain logs " + name + " --attempt all" : std::string());
    return run_line(run) + ". It has no line with" + chosen + ": it has " + std::to_string(attempts) +
           (attempts == 1 ? " attempt, and rank 0" : " attempts, and ranks 0") +
           (workers > 1 ? " to " + std::to_string(workers - 1) : "");
}

Result<std::vector<json>> stored_lines(Api& api, const json& run, const LogWish& wish) {
    Result<std::string> lines = api.bytes(log_target(string_of(run, "run_id"), wish, false));
    if (!lines) return lines.error();
    std::vector<json> parsed;
    for (const std::string& text : split(*lines, '\n'))
        if (json line = parse_json(text); line.is_object()) {
            line["run"] = string_of(run, "name");
            parsed.push_back(std::move(line));
        }
    return parsed;
}

// Returns the lines of a run and of the runs that its workers submitted, in the order of their times.
Result<std::vector<json>> lines_of_family(Api& api, const json& run, LogWish& wish) {
    Result<std::vector<json>> lines = stored_lines(api, run, wish);
    if (!lines) return lines;
    Result<json> children = api.list("/v1/runs?limit=500&all=true&parent=" + url_part(string_of(run, "run_id")));
    if (!children) return children.error();
    json& items = (*children)["items"];
    wish.names = !items.empty();
    for (const json& child : items) {
        Result<std::vector<json>> more = stored_lines(api, child, wish);
        if (!more) return more;
        std::move(more->begin(), more->end(), std::back_inserter(*lines));
        wish.prefix |= !one_rank(wish.rank, child);
    }
    if (!items.empty())
        std::stable_sort(lines->begin(), lines->end(),
                         [](const json& a, const json& b) { return string_of(a, "time") < string_of(b, "time"); });
    return lines;
}

Result<int> logs(Invocation& call) {
    Result<LogWish> wish = log_wish(call.arguments);
    if (!wish) return wish.error();
    if (call.arguments.has("follow")) watch_interrupts(nullptr, nullptr);
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> run = api->get("/v1/runs/" + url_part(call.arguments.argument(0)));
    if (!run) return run.error();
    if (call.arguments.has("follow")) choose_shown(*wish, *run);
    wish->prefix = !one_rank(wish->rank, *run);
    if (call.arguments.has("follow")) {
        Result<std::optional<json>> end = follow_run(call, *api, *run, *wish);
        if (!end) return end.error();
        if (!end->has_value()) return detached(call, string_of(*run, "name"));
        call.out.talk(end_text(**end));
        return 0;
    }
    Result<std::vector<json>> lines = lines_of_family(*api, *run, *wish);
    if (!lines) return lines.error();
    const bool any = !lines->empty();
    print_lines(call, *wish, *std::move(lines));
    if (!any) call.out.talk(no_lines_text(call.arguments, *run));
    return 0;
}

void print_event(Invocation& call, const json& event) {
    const std::string about =
        string_of(event, "run_name").empty() ? string_of(event, "node") : string_of(event, "run_name");
    std::string text = string_of(event, "time");
    if (text.size() >= 19) text = text.substr(0, 10) + " " + text.substr(11, 8);
    call.out.each(event, "id", text + "  " + (about.empty() ? "" : about + ": ") + string_of(event, "text") + "\n");
}

Result<int> follow_events(Invocation& call, Api& api, const std::string& filter, std::string after) {
    constexpr std::int64_t pause_ms = 500;
    bool reported_away = false;
    while (!interrupted()) {
        const Status followed =
            api.follow("/v1/events?follow=true&after=" + url_part(after) + filter, [&](const StreamEvent& event) {
                const json value = parse_json(event.data.empty() ? "{}" : event.data);
                if (!value.is_object() || value.empty()) return true;
                if (!event.id.empty()) after = event.id;
                reported_away = false;
                print_event(call, value);
                return true;
            });
        if (interrupted()) break;
        if (!followed && followed.error().code != ErrorCode::unreachable && followed.error().code != ErrorCode::io)
            return followed.error();
        if (!followed && !reported_away)
            call.out.talk("the head is away (" + followed.error().message + "); waiting for it");
        reported_away = !followed;
        if (wait_or_interrupt(pause_ms)) break;
    }
    return 130;
}

Result<int> events(Invocation& call) {
    if (call.arguments.has("follow")) watch_interrupts(nullptr, nullptr);
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string filter = call.arguments.has("run") ? "&run=" + url_part(call.arguments.text("run")) : "";
    const std::string after = call.arguments.text("after", "0");
    Result<json> past = api->list("/v1/events?limit=1000&after=" + url_part(after) + filter);
    if (!past) return past.error();
    json& items = (*past)["items"];
    const std::size_t most =
        static_cast<std::size_t>(call.arguments.number("tail", call.arguments.has("after") ? 1'000'000 : 200));
    if (items.size() > most) items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(most));
    std::string last = after;
    for (const json& event : items)
        last = event["id"].is_string() ? event["id"].get<std::string>() : json_text(event["id"]);
    if (call.arguments.has("follow") || call.out.for_people()) {
        for (const json& event : items) print_event(call, event);
    } else {
        call.out.list(*past, {}, "id", "");
    }
    if (!call.arguments.has("follow")) return 0;
    return follow_events(call, *api, filter, last);
}

// Replaces a report of several ranks by one line for each rank.
void one_line_per_rank(json& items) {
    json lines = json::array();
    for (json& item : items) {
        const json by_rank = item.value("metrics_by_rank", json::object());
        item.erase("metrics_by_rank");
        std::vector<std::uint32_t> ranks;
        for (const auto& [rank, metrics] : by_rank.items())
            ranks.push_back(static_cast<std::uint32_t>(std::strtoul(rank.c_str(), nullptr, 10)));
        std::sort(ranks.begin(), ranks.end());
        for (const std::uint32_t rank : ranks) {
            lines.push_back(item);
            lines.back()["rank"] = rank;
            lines.back()["metrics"] = by_rank[std::to_string(rank)];
        }
    }
    items = std::move(lines);
}

Result<int> metrics(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    std::string target = "/v1/runs/" + url_part(call.arguments.argument(0)) + "/metrics?limit=1000";
    const std::vector<std::string> asked_keys = call.arguments.list("key");
    for (const char* filter : {"after", "rank"})
        if (call.arguments.has(filter))
            target += std::string("&") + filter + "=" + url_part(call.arguments.text(filter));
    Result<json> answer = api->list(target);
    if (!answer) return answer.error();
    json& items = (*answer)["items"];
    const bool several = call.arguments.text("rank").find_first_not_of("0123456789") != std::string::npos;
    if (several) one_line_per_rank(items);
    const std::size_t most = static_cast<std::size_t>(call.arguments.number("tail", 1'000'000));
    if (items.size() > most) items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(most));
    std::set<std::string> keys(asked_keys.begin(), asked_keys.end()), reported;
    for (json& item : items) {
        json kept = json::object();
        const json all = item.value("metrics", json::object());
        for (const auto& [key, value] : all.items())
            if (reported.insert(key); asked_keys.empty() || keys.count(key) != 0) kept[key] = value;
        item["metrics"] = kept;
        if (asked_keys.empty())
            for (const auto& [key, value] : kept.items()) keys.insert(key);
    }
    std::vector<Column> columns{{"REPORT", "index"}, {"ATT", "attempt"}, {"TIME", "time", Shape::time, true}};
    if (several) columns.push_back({"RANK", "rank"});
    std::vector<std::string> fields;
    fields.reserve(keys.size());
    for (const std::string& key : keys) fields.push_back("metrics." + key);
    std::size_t at = 0;
    for (const std::string& key : keys) columns.push_back({key.c_str(), fields[at++].c_str()});
    call.out.list(*answer, columns, "index", "no report has come yet");
    for (const std::string& key : asked_keys)
        if (!items.empty() && reported.count(key) == 0)
            call.out.talk("no report has \"" + key + "\"; `rtrain metrics " + call.arguments.argument(0) +
                          "` shows all");
    return 0;
}

}  // namespace

std::vector<Command> follow_commands() {
    const Argument run{.name = "RUN", .value = Value::run};
    const Flag follow{.name = "follow", .help = "go on as they come; Ctrl-C leaves the run alone", .letter = 'f'};
    const Flag tail{.name = "tail", .takes = Value::number, .shown = "N", .help = "only the last N"};
    return {
        {.words = "logs",
         .group = "Runs",
         .help = "print what the ranks of a run wrote",
         .arguments = {run},
         .flags =
             {follow,
              {.name = "rank", .takes = Value::text, .shown = "RANKS", .help = "0,3-5, failed or all"},
              {.name = "attempt",
               .takes = Value::text,
               .shown = "N",
               .help = "which try: a number or all (default: the last)"},
              {.name = "stream",
               .takes = Value::choice,
               .shown = "STREAM",
               .help = "out, err or setup",
               .choices = "out|err|setup|out,err"},
              {.name = "since", .takes = Value::duration, .shown = "TIME", .help = "only lines of the last 5m, say"},
              {.name = "grep",
               .takes = Value::text,
               .shown = "RE",
               .help = "only lines in which the regular expression is found"},
              {.name = "timestamps", .help = "each line's time, as its node saw it"},
              tail},
         .handler = logs},
        {.words = "events",
         .group = "Runs",
         .help = "list what happened in the cluster",
         .flags = {follow,
                   {.name = "run", .takes = Value::run, .shown = "RUN", .help = "only of this run"},
                   {.name = "after", .takes = Value::number, .shown = "ID", .help = "only those after this one"},
                   tail},
         .handler = events},
        {.words = "metrics",
         .group = "Runs",
         .help = "list what a run reported",
         .arguments = {run},
         .flags = {{.name = "key",
                    .takes = Value::text,
                    .shown = "NAME",
                    .help = "only this metric",
                    .letter = 'k',
                    .repeated = true},
                   {.name = "rank", .takes = Value::text, .shown = "RANKS", .help = "3, 0,3-5 or all (default 0)"},
                   {.name = "after", .takes = Value::number, .shown = "N", .help = "only reports after this one"},
                   tail,
                   {.name = "watch", .help = "again and again, until Ctrl-C", .letter = 'w'},
                   {.name = "interval", .takes = Value::duration, .shown = "TIME", .help = "of --watch (default 1s)"}},
         .handler = metrics}};
}

}  // namespace rtrain::cmd
