// Reads job.yaml for submit, validate and plan, and applies --set to the spec of an existing run.
#include "cmd/client/job_file.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/units.hpp"
#include "storage/job_spec/limits.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

std::map<std::string, std::string> whole_environment() {
    std::map<std::string, std::string> variables;
    for (char** at = environ; *at != nullptr; ++at) {
        const std::string pair = *at;
        const auto equals = pair.find('=');
        if (equals != pair.npos) variables[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
    return variables;
}

Error summed_up(Invocation& call, const std::string& file, const Problems& problems) {
    call.problems = problems;
    const std::string count = problems.size() == 1                    ? "1 problem"
                              : problems.size() > spec::problems_most ? "more than 100 problems"
                                                                      : std::to_string(problems.size()) + " problems";
    return {
        .code = ErrorCode::invalid, .message = file + " has " + count, .next = "rtrain schema, or docs/job-spec.md"};
}

// Returns the lines of those fields that the head can name in an error: scaling, the queue, the priority and the
// predecessors.
std::string lines_of(const std::string& file, const std::string& text) {
    json at = json::object();
    for (const auto& [path, place] : spec::strict_yaml(text).positions)
        if (place.first > 0 && (path.starts_with("scaling.") || path == "queue" || path == "priority" ||
                                path == "after" || path == "entrypoint"))
            if (path.find('[') == std::string::npos) at[path] = place.first;
    return json_text(json{{"file", std::filesystem::path(file).filename().string()}, {"at", at}});
}

// Parses the right side of --set as YAML: 3 is a number, "3" a text, [a, b] a list.
Result<json> yaml_value(const std::string& text) {
    const spec::YamlAnswer answer = spec::strict_yaml("value: " + text + "\n");
    const json whole = parse_json(answer.json.empty() ? "null" : answer.json);
    if (!answer.problems.empty() || !whole.is_object() || !whole.contains("value"))
        return Error{.code = ErrorCode::usage,
                     .message = "--set: \"" + text + "\" is not a YAML value" +
                                (answer.problems.empty() ? "" : ": " + answer.problems[0].message),
                     .next = "for example --set scaling.workers=4"};
    return whole["value"];
}

Status lay_over(json& job, const std::string& set) {
    const auto equals = set.find('=');
    if (equals == set.npos || equals == 0)
        return Error{.code = ErrorCode::usage,
                     .message = "--set: \"" + set + "\" has no FIELD=VALUE",
                     .next = "for example --set scaling.workers=4"};
    json* at = &job;
    for (const std::string& part : split(set.substr(0, equals), '.')) {
        if (!at->is_object()) *at = json::object();
        at = &(*at)[part];
    }
    Result<json> value = yaml_value(set.substr(equals + 1));
    if (!value) return value.error();
    *at = std::move(*value);
    return Done{};
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
    if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed))
        return Error{.code = ErrorCode::io,
                     .message = path + " is a directory, a file is needed",
                     .next = "rtrain submit " + shell_word(path + "/job.yaml")};
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        const int why = errno;
        return Error{
            .code = why == ENOENT ? ErrorCode::not_found : ErrorCode::io,
            .message = "cannot read " + path + ": " + std::strerror(why),
            .next = "check the path; this command looks from " + std::filesystem::current_path(failed).string()};
    }
    return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<JobFile> read_job_file(Invocation& call, const std::string& path) {
    Result<std::string> text = read_text(path);
    if (!text) return text.error();
    const std::string shown_name = path == "-" ? "<stdin>" : path;
    spec::ReadAnswer answer = spec::read_job(
        *text, {.file_name = shown_name, .sets = call.arguments.list("set"), .environment = whole_environment()});
    if (!answer.problems.empty() || !answer.job) {
        for (const Problem& problem : answer.problems) call.out.talk(spec::problem_text(problem, shown_name, *text));
        return summed_up(call, shown_name, answer.problems);
    }
    const std::filesystem::path file =
        path == "-" ? std::filesystem::current_path() / "job.yaml" : std::filesystem::absolute(path);
    bool named = !answer.job->working_dir.empty() || spec::strict_yaml(*text).positions.contains("working_dir");
    for (const std::string& set : call.arguments.list("set")) named = named || set.starts_with("working_dir=");
    return JobFile{.job = std::move(*answer.job),
                   .folder = file.parent_path().string(),
                   .stem = file.stem().string(),
                   .folder_named = named,
                   .lines = lines_of(shown_name, *text)};
}

Error with_line(Error error, const JobFile& file, const std::string& path) {
    if (file.lines.empty()) return error;  // the job has no file, since a driver's job is made from the command line
    const std::string field = error.message.substr(0, error.message.find(':'));
    const json at = parse_json(file.lines).value("at", json::object());
    if (at.contains(field)) error.message = path + ":" + std::to_string(at[field].get<int>()) + ": " + error.message;
    return error;
}

Result<spec::Job> with_sets(Invocation& call, const std::string& job_json, const std::vector<std::string>& sets) {
    json job = parse_json(job_json);
    if (!job.is_object())
        return Error{.code = ErrorCode::damaged,
                     .message = "the stored job spec is not JSON",
                     .next = "rtrain submit with the original job.yaml"};
    for (const std::string& set : sets)
        if (Status done = lay_over(job, set); !done) return done.error();
    spec::ReadAnswer answer = spec::job_from_json(json_text(job));
    if (answer.job && answer.problems.empty()) return std::move(*answer.job);
    for (const Problem& p : answer.problems)
        call.out.talk(p.path + ": " + p.message + (p.suggestion.empty() ? "" : "; " + p.suggestion));
    return summed_up(call, "the job spec", answer.problems);
}

}  // namespace rtrain::cmd
