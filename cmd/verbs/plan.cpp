// `rtrain plan`: prints whether a job would start, where, and if not, why. The cluster is the live one, one that a file
// describes, or each of many in a file of cases.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_text.hpp"
#include "cmd/client/api.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/plan/plan_case.hpp"
#include "cmd/text/reasons.hpp"
#include "cmd/text/suggest.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/placement/largest.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Result<int> plan_cases(Invocation& call, const std::string& path) {
    std::ifstream file;
    if (path != "-") {
        file.open(path);
        if (!file)
            return Error{.code = ErrorCode::not_found,
                         .message = "cannot read " + path + ": " + std::strerror(errno),
                         .next = "check the path, or give - to read the cases from standard input"};
    }
    std::istream& in = path == "-" ? std::cin : file;
    std::string line;
    while (std::getline(in, line)) {
        if (line.find_first_not_of(" \t\r") == line.npos) continue;
        call.out.raw(answer_line(line) + "\n");
        if (!call.out.flush()) return exit_code(ErrorCode::io);
    }
    return 0;
}

// Returns line and column of a field of the file. A missing field has the position of the nearest enclosing field.
std::pair<int, int> place_of(const std::map<std::string, std::pair<int, int>>& positions, std::string path) {
    for (;;) {
        if (const auto entry = positions.find(path); entry != positions.end()) return entry->second;
        const auto end = path.find_last_of(".[");
        if (end == path.npos) return {1, 1};
        path.erase(end);
    }
}

void unknown_fields(const json& map, const std::string& path, const std::vector<std::string>& known, Problems& wrong) {
    if (!map.is_object()) return;
    for (const auto& [key, value] : map.items()) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        const std::string near = nearest(key, known);
        wrong.push_back({.path = path.empty() ? key : path + "." + key,
                         .message = "unknown field",
                         .suggestion = near.empty() ? "" : "did you mean " + near + "?"});
    }
}

// Returns a problem for each unknown field of the file for --cluster. The cases for --cases are not checked in this
// way: the program that wrote them may have added fields for its own use.
Problems unknown_fields(const json& described) {
    Problems wrong;
    unknown_fields(described, "", {"nodes", "allocations"}, wrong);
    const auto entries = [&](const char* list, const std::vector<std::string>& known) {
        if (!described.contains(list) || !described[list].is_array()) return;
        for (std::size_t i = 0; i < described[list].size(); ++i)
            unknown_fields(described[list][i], list + ("[" + std::to_string(i) + "]"), known, wrong);
    };
    entries("nodes", {"id", "state", "labels", "resources"});
    entries("allocations", {"node", "resources", "gpu", "own"});
    return wrong;
}

Result<json> plan_on_file(Invocation& call, const spec::Job& job, const std::string& path) {
    Result<std::string> text = read_text(path);
    if (!text) return text.error();
    const spec::YamlAnswer yaml = spec::strict_yaml(*text);
    call.problems = yaml.problems;
    for (const Problem& problem : yaml.problems) call.out.talk(spec::problem_text(problem, path, *text));
    if (!yaml.problems.empty())
        return Error{.code = ErrorCode::invalid, .message = path + " is not strict YAML", .next = ""};
    Result<json> described = parse_exact(yaml.json);
    if (!described) return described.error();
    if (!described->is_object() || !described->contains("nodes"))
        return Error{
            .code = ErrorCode::invalid, .message = path + " has no list of nodes", .next = "docs/cli.md, plan"};
    call.problems = unknown_fields(*described);
    const DescribedCluster nodes = cluster_from(*described, call.problems);
    for (Problem& problem : call.problems)
        std::tie(problem.line, problem.column) = place_of(yaml.positions, problem.path);
    std::stable_sort(call.problems.begin(), call.problems.end(),
                     [](const Problem& a, const Problem& b) { return a.line < b.line; });
    for (const Problem& problem : call.problems) call.out.talk(spec::problem_text(problem, path, *text));
    if (const std::size_t count = call.problems.size(); count > 0)
        return Error{.code = ErrorCode::invalid,
                     .message = path + " has " + std::to_string(count) + (count == 1 ? " problem" : " problems"),
                     .next = "docs/cli.md, plan"};
    const RunSpec spec = spec::run_spec(job);  // An elastic run is planned with as many workers as fit.
    return answer_json(answer_case(nodes, gang_of(spec, workers_planned(nodes.now, spec)), ""));
}

std::string seats_text(const json& placement) {
    struct Group {
        std::string node;
        std::size_t first, last;
        std::string gpus;
    };
    std::vector<Group> groups;
    for (std::size_t i = 0; placement.contains(std::to_string(i)); ++i) {
        const json& seat = placement[std::to_string(i)];
        const std::string node = seat.value("node", "");
        if (groups.empty() || groups.back().node != node) groups.push_back({node, i, i, ""});
        groups.back().last = i;
        const json gpus = seat.value("gpu", json::object());
        for (const auto& [device, amount] : gpus.items())
            groups.back().gpus += (groups.back().gpus.empty() ? "" : ",") + device;
    }
    std::string text;
    for (const Group& group : groups) {
        text +=
            "  " + group.node + "  " + (group.first == group.last ? "rank " : "ranks ") + std::to_string(group.first);
        if (group.last != group.first) text += "-" + std::to_string(group.last);
        text += (group.gpus.empty() ? "" : "  GPU " + group.gpus) + "\n";
    }
    return text;
}

Result<json> plan_on_head(Invocation& call, const JobFile& file, const std::string& path) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    json body = {{"job", parse_json(spec::to_json(file.job))}};
    if (!file.lines.empty()) body["lines"] = parse_json(file.lines);
    Result<json> answer = api->post("/v1/plan", body);
    if (!answer) return with_line(answer.error(), file, path);
    return answer;
}

// Returns the answer as text. A head explains a run that would wait, as `explain` does; a described cluster has no
// queue.
std::string plan_text(const json& answer) {
    const std::string verdict = answer.value("verdict", "");
    std::string text = verdict + "\n";
    if (answer.contains("placement")) text += seats_text(answer["placement"]);
    if (answer.contains("headline")) {
        if (verdict != "feasible now") text += explanation_text(answer);
    } else {
        text += reasons_text(answer.value("reasons", json::array()));
        if (const std::string change = answer.value("nearest_change", ""); !change.empty()) text += change + "\n";
    }
    if (!answer.value("proved", true)) text += "the search was bounded and gave up proving this\n";
    return text;
}

Result<int> plan(Invocation& call) {
    if (call.arguments.has("cases")) return plan_cases(call, call.arguments.text("cases"));
    const std::string path = call.arguments.argument(0);
    if (path.empty())
        return Error{.code = ErrorCode::usage,
                     .message = "rtrain plan needs job.yaml, or --cases",
                     .next = usage_line(call.command)};
    Result<JobFile> file = read_job_file(call, path);
    if (!file) return file.error();
    Result<json> answer = call.arguments.has("cluster") ? plan_on_file(call, file->job, call.arguments.text("cluster"))
                                                        : plan_on_head(call, *file, path);
    if (!answer) return answer.error();
    const std::string verdict = answer->value("verdict", "");
    for (const json& warning : answer->value("warnings", json::array()))
        if (warning.is_string()) call.out.talk("warning: " + warning.get<std::string>());
    call.out.document(*answer, "verdict", plan_text(*answer));
    if (verdict == "feasible now") return 0;
    if (verdict == "pending") return exit_code(ErrorCode::timed_out);
    return exit_code(verdict == "infeasible" ? ErrorCode::unplaceable : ErrorCode::invalid);
}

}  // namespace

std::vector<Command> plan_commands() {
    return {{.words = "plan",
             .group = "Runs",
             .help = "say where a job would start now, or why it would not",
             .arguments = {{.name = "job.yaml", .value = Value::file, .optional = true}},
             .flags = {{.name = "cluster",
                        .takes = Value::file,
                        .shown = "FILE",
                        .help = "a described cluster (nodes, allocations) instead of the live one"},
                       {.name = "cases",
                        .takes = Value::file,
                        .shown = "FILE",
                        .help = "one case per line in, one answer per line out; - is standard input"},
                       {.name = "set",
                        .takes = Value::text,
                        .shown = "FIELD=VALUE",
                        .help = "change the spec",
                        .repeated = true}},
             .handler = plan,
             .details = "Exit code: 0 it would start now, 8 it would wait, 9 it can never start on these nodes."}};
}

}  // namespace rtrain::cmd
