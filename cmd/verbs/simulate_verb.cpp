// rtrain node simulate: registers many simulated nodes from one process.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/verbs/rows.hpp"
#include "cmd/verbs/start_flags.hpp"
#include "daemon/agent/simulated/simulation.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::int64_t count_at_most = 20'000;
constexpr std::int64_t run_seconds_at_most = 24 * 3'600;

Result<std::int64_t> within(const Arguments& arguments, const char* flag, std::int64_t otherwise, std::int64_t most) {
    const std::int64_t value = arguments.number(flag, otherwise);
    if (value >= 1 && value <= most) return value;
    return Error{.code = ErrorCode::usage,
                 .message = std::string("--") + flag + ": " + std::to_string(value) + " is not within 1 and " +
                            std::to_string(most),
                 .next = "rtrain node simulate --help"};
}

Result<SimulationOptions> simulation_options(const Arguments& arguments) {
    SimulationOptions options;
    const Result<HostPort> where = parse_host_port(arguments.argument(0), options.head_port);
    if (!where) return where.error();
    options.head_host = where->host;
    options.head_port = where->port;
    const auto count = within(arguments, "count", options.count, count_at_most);
    if (!count) return count.error();
    const auto cpus = within(arguments, "cpus", options.cpus, count_at_most);
    if (!cpus) return cpus.error();
    const auto seconds = within(arguments, "run-seconds", options.run_ms / 1'000, run_seconds_at_most);
    if (!seconds) return seconds.error();
    options.count = static_cast<std::uint32_t>(*count);
    options.cpus = static_cast<std::uint32_t>(*cpus);
    options.run_ms = *seconds * 1'000;
    Result<std::string> token = join_token(arguments);
    if (!token) return token.error();
    options.token = std::move(*token);
    options.prefix = arguments.text("name", options.prefix);
    options.resources = arguments.text("resources");
    options.fake_gpus = arguments.text("fake-gpus");
    options.seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
    auto labels = parse_labels(arguments.list("label"));
    if (!labels) return labels.error();
    options.labels = {labels->begin(), labels->end()};
    return options;
}

Result<int> node_simulate(Invocation& call) {
    const Result<SimulationOptions> options = simulation_options(call.arguments);
    if (!options) return options.error();
    const auto end = run_simulation(*options, [&](const SimulationStarted& started) {
        const json simulated = {{"nodes", options->count},
                                {"first", simulated_name(*options, 0)},
                                {"last", simulated_name(*options, options->count - 1)},
                                {"label", "simulated=true"},
                                {"head", call.arguments.argument(0)},
                                {"pid", getpid()},
                                {"join_ms", started.join_ms},
                                {"register_ms", started.register_ms}};
        call.out.document(simulated, "first",
                          "simulates " + std::to_string(options->count) + " nodes (" + simulated.value("first", "") +
                              " to " + simulated.value("last", "") + "): joined in " + std::to_string(started.join_ms) +
                              " ms, welcomed in " + std::to_string(started.register_ms) +
                              " ms more; Ctrl-C ends them\n");
        call.out.flush();
    });
    if (!end) return end.error();
    call.out.talk(std::to_string(end->workers_ended) + " workers ended; the head takes the nodes for lost soon");
    return 0;
}

}  // namespace

std::vector<Command> simulate_commands() {
    return {
        {.words = "node simulate",
         .group = "Nodes",
         .help = "be many nodes that are not there: to try a head and its queues",
         .arguments = {{.name = "HOST:PORT"}},
         .flags = {{.name = "token",
                    .takes = Value::text,
                    .shown = "TOKEN",
                    .help = "from `rtrain token create --role node --uses COUNT` (RTRAIN_JOIN_TOKEN)"},
                   token_file_flag(),
                   {.name = "count", .takes = Value::number, .shown = "N", .help = "how many (default 100)"},
                   {.name = "name", .takes = Value::text, .shown = "PREFIX", .help = "of their names (default sim)"},
                   {.name = "cpus", .takes = Value::number, .shown = "N", .help = "of each (default 8)"},
                   {.name = "fake-gpus", .takes = Value::text, .shown = "NxTYPE", .help = "of each: 8xA100"},
                   {.name = "resources",
                    .takes = Value::text,
                    .shown = "LIST",
                    .help = "more of each, or other amounts: memory=16Gi,custom=2"},
                   {.name = "label",
                    .takes = Value::text,
                    .shown = "KEY=VALUE",
                    .help = "of all, beside simulated=true",
                    .repeated = true},
                   {.name = "seed", .takes = Value::number, .shown = "N", .help = "of the run times (default 1)"},
                   {.name = "run-seconds",
                    .takes = Value::number,
                    .shown = "N",
                    .help = "how long workers run on average (default 5)"}},
         .handler = node_simulate,
         .details = "Each node joins, has a certificate and a connection of its own, and speaks the agents' protocol.\n"
                    "Its workers are timers: they start nothing, claim and write nothing, and exit with 0.",
         .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
