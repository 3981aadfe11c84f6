// rtrain stack RUN: where its Python ranks are. The head asks their agents, who signal them; the stacks come as lines
// of their logs, behind one that holds the marker of this very question.
#include <map>
#include <nlohmann/json.hpp>

#include "cmd/follow.hpp"
#include "cmd/status_text.hpp"
#include "cmd/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::int64_t look_again_ms = 100;
constexpr std::int64_t quiet_ms = 700;  // no further line: the stacks are whole
constexpr std::int64_t clocks_apart_ms = 60'000;

struct Shown {
    std::vector<json> lines;  // from the marker on, of all ranks
    std::size_t ranks = 0;    // that have answered
};

Result<Shown> answered(Api& api, const std::string& run, const LogWish& wish, const std::string& marker) {
    Result<std::string> text = api.bytes(log_target(run, wish, false));
    if (!text) return text.error();
    Shown out;
    std::map<std::string, bool> begun;
    for (const std::string& one : split(*text, '\n')) {
        json line = json::parse(one, nullptr, false);
        if (!line.is_object()) continue;
        bool& here = begun[line.value("rank", json(0)).dump()];
        if (!here && string_of(line, "line").find(marker) == std::string::npos) continue;
        if (!std::exchange(here, true)) ++out.ranks;
        out.lines.push_back(std::move(line));
    }
    return out;
}

// Until every rank has answered and no further line comes, or the time is over.
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
        const bool whole = last.ranks >= asked["ranks"].size() && wall_now_ms() - grown_ms > quiet_ms;
        if (whole || wall_now_ms() > give_up_ms || wait_or_interrupt(look_again_ms)) return last;
    }
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
    print_lines(call, wish, std::move(shown->lines));
    for (const json& node : (*asked)["away"])
        call.out.talk("node " + node.get<std::string>() + " is away: its ranks were not asked");
    if (shown->ranks >= (*asked)["ranks"].size()) return 0;
    const Error late{.code = ErrorCode::timed_out,
                     .message = std::to_string(shown->ranks) + " of " + std::to_string((*asked)["ranks"].size()) +
                                " ranks have answered in time",
                     .next = "rtrain logs " + call.arguments.argument(0) + " --stream err shows those that come later"};
    if (call.out.for_people()) return late;
    call.out.talk("error: " + late.message + "\n  next: " + late.next);  // stdout has its one document
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
             .details =
                 "Nobody is ended by it. A rank answers once it has imported rtrain.train; of others the log says "
                 "that they cannot tell."}};
}

}  // namespace rtrain::cmd
