// rtrain stack RUN: prints the Python stacks of a run's ranks. The head sends the request to the agents, which signal
// the ranks. The stacks are lines of the ranks' logs, after a line with this request's marker.
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.hpp"
#include "cmd/client/follow.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::int64_t look_again_ms = 100;
constexpr std::int64_t quiet_ms = 700;  // ms; the stacks count as complete if no line was received for this time
constexpr std::int64_t clocks_apart_ms = 60'000;

struct Shown {
    std::vector<json> lines;  // lines of all ranks after the marker
    std::set<json> answered;  // the ranks that have printed a stack
};

// Returns true if the line begins an answer. Python's faulthandler begins each thread with such a line. The agent
// writes one for a process that cannot print its stack.
bool is_answer(const std::string& line) {
    return line.find("(most recent call first)") != std::string::npos ||
           line.find("where it is cannot be told") != std::string::npos;
}

Result<Shown> answered(Api& api, const std::string& run, const LogWish& wish, const std::string& marker) {
    Result<std::string> text = api.bytes(log_target(run, wish, false));
    if (!text) return text.error();
    Shown out;
    std::set<json> begun;
    for (const std::string& line_text : split(*text, '\n')) {
        json line = parse_json(line_text);
        if (!line.is_object()) continue;
        const json rank = line.value("rank", json(0));
        const std::string words = string_of(line, "line");
        if (!begun.contains(rank) && words.find(marker) == std::string::npos) continue;
        begun.insert(rank);
        if (is_answer(words)) out.answered.insert(rank);
        out.lines.push_back(std::move(line));
    }
    return out;
}

// Waits until every rank has answered and no further line is received, or the time is over.
Result<Shown> waited_for(Api& api, const std::string& run, const LogWish& wish, const json& asked,
                         std::int64_t patience_ms) {
    const std::int64_t give_up_ms = wall_now_ms() + patience_ms;
    std::int64_t grown_ms = wall_now_ms();
    Shown last;
    for (;;) {
        Result<Shown> now = answered(api, run, wish, string_of(asked, "marker"));
        if (!now) return now.error();
        if (now->lines.size() != last.lines.size()) grown_ms = wall_now_ms();
        last = *std::move(now);
        const bool whole = last.answered.size() >= asked["ranks"].size() && wall_now_ms() - grown_ms > quiet_ms;
        if (whole || wall_now_ms() > give_up_ms || wait_or_interrupt(look_again_ms)) return last;
    }
}

void print(Invocation& call, const LogWish& wish, const json& asked, const json& silent, std::vector<json> lines) {
    if (call.out.for_people())
        for (const json& line : lines) print_line(call, wish, line);
    else
        call.out.list({{"items", std::move(lines)},
                       {"silent", silent},
                       {"ended", asked.value("ended", json::array())},
                       {"away", asked["away"]}},
                      {}, "line", "");
    if (const json ended = asked.value("ended", json::array()); !ended.empty())
        call.out.talk(ranks_text(ended) + (ended.size() > 1 ? " have" : " has") + " ended");
    for (const json& node : asked["away"])
        call.out.talk("node " + node.get<std::string>() + " is away: its ranks were not asked");
}

Error not_in_time(const Invocation& call, const json& silent) {
    return {.code = ErrorCode::timed_out,
            .message = ranks_text(silent) + (silent.size() > 1 ? " have" : " has") +
                       " not answered in time: a process that is stopped (SIGSTOP), or waits in the kernel, cannot",
            .next = "rtrain logs " + call.arguments.argument(0) + " --stream err shows what comes later"};
}

Result<int> stack(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string rank = call.arguments.text("rank", "all");
    Result<json> asked =
        api->post("/v1/runs/" + url_part(call.arguments.argument(0)) + "/stack?rank=" + url_part(rank), json::object());
    if (!asked) return asked.error();
    watch_interrupts(nullptr, nullptr);
    LogWish wish;
    wish.rank = rank;
    wish.stream = "err";
    wish.since_wall_ms = wall_now_ms() - clocks_apart_ms;
    wish.prefix = (*asked)["ranks"].size() != 1;
    Result<Shown> shown =
        waited_for(*api, string_of(*asked, "run_id"), wish, *asked, call.arguments.duration_ms("timeout", 10'000));
    if (!shown) return shown.error();
    json silent = json::array();
    for (const json& asked_rank : (*asked)["ranks"])
        if (!shown->answered.contains(asked_rank)) silent.push_back(asked_rank);
    print(call, wish, *asked, silent, std::move(shown->lines));
    if (silent.empty()) return 0;
    const Error late = not_in_time(call, silent);
    if (call.out.for_people()) return late;
    // stdout holds only the JSON document, so the error is printed on stderr
    call.out.talk("error: " + late.message + "\n  next: " + late.next);
    return exit_code(late.code);
}

}  // namespace

std::vector<Command> stack_commands() {
    return {{.words = "stack",
             .group = "Runs",
             .help = "print where the Python ranks of a run are: the stacks of all their threads",
             .arguments = {{.name = "RUN", .value = Value::run}},
             .flags = {{.name = "rank", .takes = Value::text, .shown = "RANKS", .help = "0,3-5 or all (default)"},
                       {.name = "timeout",
                        .takes = Value::duration,
                        .shown = "TIME",
                        .help = "how long to wait for them (default 10s)"}},
             .handler = stack,
             .details = "Nobody is ended by it. Ranks that have ended are named. A rank answers once it has imported "
                        "rtrain.train; of others the log says "
                        "that they cannot tell."}};
}

}  // namespace rtrain::cmd
