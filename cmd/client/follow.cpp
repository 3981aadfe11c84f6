// Follows the lines of a run. The log stream cannot be resumed. After a break it is opened again, and for each rank's
// file the lines that were seen before are skipped.
#include "cmd/client/follow.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/live_states.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/terminal.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::int64_t shown_at_most = 16;  // with `logs.show: auto`, the most ranks whose lines are all shown
constexpr std::int64_t failed_lines = 100;
constexpr std::int64_t clocks_apart_ms = 60'000;
// A notice is hidden if one of the last 20 s differs from it only in digits. Notices of missing ranks are repeated
// every 30 s.
constexpr std::int64_t alike_within_ms = 20'000;

std::string file_of(const json& line) {
    return json_text(line.value("attempt", json(0))) + "/" + json_text(line.value("rank", json(0))) + "/" +
           string_of(line, "stream");
}

// Shortens the path of the job's code in a line of a traceback:
//   File "/data/node-1/.../rank-00000/cwd/train.py", line 3  ->  File "train.py", line 3
std::string with_short_path(const std::string& line) {
    constexpr std::string_view quote = "File \"/", worker = "/rank-", folder = "/cwd/";
    const auto begin = line.find(quote);
    if (begin == line.npos) return line;
    const auto rank = line.find(worker, begin), end = line.find('"', begin + quote.size());
    const auto inside = rank == line.npos ? line.npos : line.find(folder, rank);
    if (inside == line.npos || end == line.npos || inside > end) return line;
    return line.substr(0, begin + quote.size() - 1) + line.substr(inside + folder.size());
}

// Returns the text, preceded by the run, rank and time that the user asked for.
std::string line_text(const LogWish& wish, const json& line, const std::string& text) {
    const json rank = line.value("rank", json(0));
    std::string prefix = wish.prefix && rank.is_number() ? "rank " + json_text(rank) + " | " : "";
    if (wish.names) prefix = string_of(line, "run") + " | " + prefix;
    if (wish.timestamps) prefix = string_of(line, "time") + " " + prefix;
    return prefix + shown_line(with_short_path(text));
}

std::string without_digits(std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
}

class Follower {
  public:
    Follower(Invocation& call, const LogWish& wish, std::uint64_t notices_after)
        : call_(call), wish_(wish), states_(call.out), last_notice_(notices_after) {}

    std::uint64_t last_notice() const { return last_notice_; }

    // Returns query parameters for requesting the states of unfinished lines too. Returns an empty text if such states
    // are not shown.
    std::string states_wish() const {
        const bool shows = wish_.show == LogWish::Show::as_they_come && call_.out.for_people();
        return shows ? "&states_ms=" + std::to_string(states_.apart_ms()) : "";
    }
    void talk(const std::string& text) {
        states_.hide();
        call_.out.talk(text);
        states_.redraw();
    }

    // Prepares the next stream after a break. A stream that began with the last lines (--tail) has no known line
    // numbers, so lines are skipped by time: up to the last shown line of each file. The new stream begins a little
    // earlier than that, since the nodes' clocks may differ, and lines may reach the head late.
    void begin_stream(LogWish& asked) {
        in_stream_.clear();
        if (asked.tail < 0 && !by_time_) return;
        if (last_wall_ms_ == 0) return;
        by_time_ = true;
        seen_.clear();
        shown_until_ = last_of_file_;
        others_until_ = last_wall_ms_;
        asked.tail = -1;
        asked.since_wall_ms = last_wall_ms_ - clocks_apart_ms;
    }

    bool on_event(const StreamEvent& event) {
        json value = parse_json(event.data.empty() ? "{}" : event.data);
        if (event.name == "end") {
            if (value.is_object() && value.contains("run") && value["run"].is_object()) value = value["run"];
            if (value.is_object()) end_ = std::move(value);
            states_.hide();
            return false;
        }
        if (event.name == "notice" && value.is_object()) return on_notice(value);
        if (event.name == "state" && value.is_object()) return show_state(value);
        if (!value.is_object() || !value.contains("line")) return true;
        const std::string file = file_of(value);
        const std::int64_t time = parse_time(string_of(value, "time")).value_or(0);
        const auto until = shown_until_.find(file);
        if (by_time_ && time <= (until == shown_until_.end() ? others_until_ : until->second)) return true;
        if (++in_stream_[file] <= seen_[file]) return true;
        seen_[file] = in_stream_[file];
        last_of_file_[file] = time;
        last_wall_ms_ = std::max(last_wall_ms_, time);
        if (wish_.show == LogWish::Show::as_they_come) show_line(file, value);
        return true;
    }

    const std::optional<json>& end() const { return end_; }

  private:
    bool show_state(const json& state) {
        const std::string text = string_of(state, "state");
        if (!wish_.grep || wish_.grep->found_in(text)) states_.show(file_of(state), line_text(wish_, state, text));
        return true;
    }

    // The head sends a line that is longer than one piece in several. If the line was overwritten, only the last piece
    // has a text.
    void show_line(const std::string& file, const json& line) {
        const std::string state = string_of(line, "state");
        if (line.value("goes_on", false) && string_of(line, "line").empty()) {
            if (!state.empty()) show_state(line);
            return;
        }
        states_.hide();
        const bool shown = states_.line_ended(file, line_text(wish_, line, state));
        if (!shown) print_line(call_, wish_, line);
        states_.redraw();
    }

    bool on_notice(const json& notice) {
        last_notice_ = std::max(last_notice_, notice.value("id", std::uint64_t{0}));
        const std::int64_t time = parse_time(string_of(notice, "time")).value_or(0);
        const auto [last, fresh] = shown_notices_.try_emplace(without_digits(string_of(notice, "text")), time);
        if (!fresh && time - std::exchange(last->second, std::max(last->second, time)) < alike_within_ms) return true;
        talk("rtrain: " + shown_line(string_of(notice, "text")));
        return true;
    }

    Invocation& call_;
    const LogWish& wish_;
    LiveStates states_;
    std::uint64_t last_notice_;  // number of the newest notice's event
    // key: a notice's text without digits; value: time of the last such notice
    std::map<std::string, std::int64_t> shown_notices_;
    std::map<std::string, std::uint64_t> seen_, in_stream_;
    std::map<std::string, std::int64_t> last_of_file_, shown_until_;
    std::int64_t last_wall_ms_ = 0, others_until_ = 0;
    bool by_time_ = false;
    std::optional<json> end_;
};

// Returns the number of the event before the newest notice, so that the stream begins with this notice. Returns 0,
// which means all notices, if the head does not send the number.
std::uint64_t before_newest_notice(Api& api, const std::string& run) {
    const Result<json> newest = newest_notice(api, run);
    if (!newest || newest->is_null()) return 0;
    return std::max<std::uint64_t>(newest->value("id", std::uint64_t{1}), 1) - 1;
}

}  // namespace

void print_failed(Invocation& call, Api& api, LogWish wish, const std::string& id) {
    wish.rank = "failed";
    wish.tail = failed_lines;
    Result<std::string> lines = api.bytes(log_target(id, wish, false));
    if (!lines) return call.out.talk("the failed ranks' lines: " + lines.error().message);
    for (const std::string& text : split(*lines, '\n')) {
        const json line = parse_json(text);
        if (line.is_object()) print_line(call, wish, line);
    }
}

Result<json> newest_notice(Api& api, const std::string& run) {
    Result<json> events = api.list("/v1/events?limit=1000&run=" + url_part(run));
    if (!events) return events.error();
    json newest;
    for (json& event : (*events)["items"])
        if (string_of(event, "kind") == "Notice") newest = std::move(event);
    return newest;
}

Result<json> newest_starts(Api& api, const std::string& run) {
    Result<json> events = api.list("/v1/events?limit=1000&run=" + url_part(run));
    if (!events) return events.error();
    std::map<std::string, json> by_node;
    for (json& event : (*events)["items"])
        if (string_of(event, "kind") == "WorkerStarts") by_node[string_of(event, "node")] = std::move(event);
    json starts = json::array();
    for (auto& [node, event] : by_node) starts.push_back(std::move(event));
    return starts;
}

void choose_shown(LogWish& wish, const json& run) {
    if (!wish.rank.empty()) return;
    const json logs = run.value("job", json::object()).value("logs", json::object());
    const std::string show = string_of(logs, "show");
    const json workers = run.value("workers", json(0));
    if (show == "none") {
        wish.show = LogWish::Show::never;
        wish.tail = 0;
    } else if (show == "failed") {
        wish.show = LogWish::Show::at_the_end;
        wish.tail = 0;
    } else if (show == "auto" || show.empty()) {
        if (workers.is_number() && workers.get<std::int64_t>() > shown_at_most) wish.rank = "0";
    } else {
        wish.rank = show;
    }
}

std::string log_target(const std::string& run, const LogWish& wish, bool follow) {
    std::string target = "/v1/runs/" + url_part(run) + "/logs?follow=" + (follow ? "true" : "false");
    if (!wish.rank.empty()) target += "&rank=" + url_part(wish.rank);
    if (!wish.attempt.empty()) target += "&attempt=" + url_part(wish.attempt);
    if (!wish.stream.empty()) target += "&stream=" + url_part(wish.stream);
    if (wish.since_wall_ms > 0)
        target += "&since_ms=" + std::to_string(std::max<std::int64_t>(wall_now_ms() - wish.since_wall_ms, 0));
    if (wish.tail >= 0) target += "&tail=" + std::to_string(wish.tail);
    return target;
}

void print_line(Invocation& call, const LogWish& wish, const json& line) {
    const std::string text = string_of(line, "line"), state = string_of(line, "state");
    if (wish.grep && !wish.grep->found_in(text)) return;
    call.out.each(line, "line", line_text(wish, line, state.empty() ? text : state) + "\n");
}

// Prints lines as text for people. For programs, prints them as one list, as other verbs do.
void print_lines(Invocation& call, const LogWish& wish, std::vector<json> lines) {
    if (call.out.for_people()) {
        for (const json& line : lines) print_line(call, wish, line);
        return;
    }
    json items = json::array();
    for (json& line : lines)
        if (!wish.grep || wish.grep->found_in(string_of(line, "line"))) items.push_back(std::move(line));
    call.out.list({{"items", std::move(items)}}, {}, "line", "");
}

int detached(Invocation& call, const std::string& run) {
    call.out.talk("\ndetached; " + run + " goes on. Stop it with: rtrain stop " + run);
    return 130;
}

bool may_come_back(const Error& error) { return error.code == ErrorCode::unreachable || error.code == ErrorCode::io; }

Result<std::optional<json>> follow_run(Invocation& call, Api& api, const json& run, const LogWish& wish) {
    constexpr std::int64_t pause_ms = 500;
    // milliseconds without an answer of the head after which the command fails with exit code 5
    constexpr std::int64_t away_at_most_ms = 600'000;
    // milliseconds; a call that lasted longer than this had reached the head
    constexpr std::int64_t was_there_ms = 30'000;
    std::int64_t away_since_ms = 0;
    const std::string id = string_of(run, "run_id");
    const bool lives = !is_terminal(run);  // the notices of an ended run are not shown; `rtrain events` has them
    Follower follower(call, wish, lives ? before_newest_notice(api, id) : 0);
    LogWish asked = wish;
    bool reported_away = false;
    while (!interrupted()) {
        follower.begin_stream(asked);
        const std::int64_t begun_ms = wall_now_ms();
        const std::string notices = lives ? "&notices_after=" + std::to_string(follower.last_notice()) : "";
        const std::string target = log_target(id, asked, true) + notices + follower.states_wish();
        const Status followed = api.follow(target, [&](const StreamEvent& event) {
            reported_away = false;
            away_since_ms = 0;
            return follower.on_event(event);
        });
        if (interrupted()) break;
        if (follower.end()) {
            if (wish.show == LogWish::Show::at_the_end) print_failed(call, api, wish, id);
            return std::optional<json>(*follower.end());
        }
        if (!followed && !may_come_back(followed.error())) return followed.error();
        if (followed || away_since_ms == 0 || wall_now_ms() - begun_ms > was_there_ms) away_since_ms = wall_now_ms();
        if (!followed && wall_now_ms() - away_since_ms > away_at_most_ms) return followed.error();
        if (!followed && !reported_away)
            follower.talk("the head is away (" + followed.error().message +
                          "); the run goes on, and so will its lines");
        reported_away = !followed;
        if (followed) {
            Result<json> now = api.get("/v1/runs/" + url_part(id));
            if (now && is_terminal(*now)) return std::optional<json>(std::move(*now));
        }
        if (wait_or_interrupt(pause_ms)) break;
    }
    return std::optional<json>();
}

int followed_exit(Api& api, const json& run, bool propagate) {
    if (string_of(run, "state") == "SUCCEEDED") return 0;
    if (!propagate) return 1;
    Result<json> attempts = api.list("/v1/runs/" + url_part(string_of(run, "run_id")) + "/attempts");
    if (!attempts || (*attempts)["items"].empty()) return 1;
    json last;
    for (const json& attempt : (*attempts)["items"])
        if (last.is_null() || attempt.value("number", 0) > last.value("number", 0)) last = attempt;
    const json failure = last.value("first_failure", json());
    if (!failure.is_object()) return 1;
    for (const json& worker : last.value("workers", json::array())) {
        if (worker.value("rank", json(-1)) != failure.value("rank", json(0))) continue;
        if (worker.contains("exit_code") && worker["exit_code"].is_number() && worker["exit_code"] != 0)
            return worker["exit_code"].get<int>();
        if (worker.contains("signal") && worker["signal"].is_number() && worker["signal"] != 0)
            return 128 + worker["signal"].get<int>();
    }
    return 1;
}

}  // namespace rtrain::cmd
