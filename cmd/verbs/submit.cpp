// rtrain submit: creates a run from a job spec.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/code_folder.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/client/run_store.hpp"
#include "cmd/client/submission.hpp"
#include "cmd/text/reasons.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Returns the job for `submit train.py ...`: the program is a driver, which runs on a node. The driver takes no CPU
// from the gangs that it submits, and is stopped together with them.
Result<JobFile> driver_job(Invocation& call) {
    std::error_code failed;
    const std::filesystem::path program = std::filesystem::absolute(call.arguments.argument(0), failed);
    if (!std::filesystem::is_regular_file(program, failed))
        return Error{.code = ErrorCode::not_found,
                     .message = "there is no file " + program.string(),
                     .next = "check the path; it is looked for from the working directory"};
    std::string taken;
    for (const std::string& flag : call.arguments.after_program) taken += (taken.empty() ? "" : ", ") + flag;
    if (!taken.empty())
        call.out.talk(taken + ": taken as rtrain's own; what follows -- is all " + program.filename().string() + "'s");
    json entrypoint = {"python", program.filename().string()};
    for (std::size_t i = 1; i < call.arguments.positional.size(); ++i) entrypoint.push_back(call.arguments.argument(i));
    const json job = {{"version", 1},
                      {"entrypoint", std::move(entrypoint)},
                      {"driver", true},
                      {"scaling", {{"workers", 1}, {"resources_per_worker", {{"CPU", 0}}}}}};
    const std::optional<std::string> text = exact_json_text(job);
    if (!text)
        return Error{.code = ErrorCode::usage,
                     .message = "an argument of " + program.filename().string() + " is not UTF-8",
                     .next = "pass it in UTF-8, or in a file"};
    Result<spec::Job> checked = with_sets(call, *text, call.arguments.list("set"));
    if (!checked) return checked.error();
    const std::vector<std::string> sets = call.arguments.list("set");
    const bool named =
        std::any_of(sets.begin(), sets.end(), [](const std::string& set) { return set.starts_with("working_dir="); });
    return JobFile{.job = std::move(*checked),
                   .folder = program.parent_path().string(),
                   .stem = program.stem().string(),
                   .folder_named = named};
}

// Returns the array index of the run that --resume names, as its directory stores it. Returns nothing if this machine
// does not see the directory; the head has it for its own runs.
ArrayMember member_so_far(Invocation& call, const spec::Job& job) {
    const std::string& above = job.storage_path;
    const bool on_head = above.empty() || above.starts_with("cluster://");
    if (!on_head && !above.starts_with('/')) return {};
    const Result<RunStore> place = open_run_store(call, on_head ? "cluster://" + job.name : above + "/" + job.name);
    if (!place) return {};
    const auto claim = storage::newest_claim(*place->store, place->run_name);
    return claim ? ArrayMember{.array = claim->array, .index = claim->array_index} : ArrayMember{};
}

// Returns the head's plan for the job. Returns nothing if no head answers. Fails if the head would refuse the job.
Result<std::optional<json>> asked_plan(Invocation& call, const Submission& submission) {
    Result<Api> api = Api::open(call);
    json body = {{"job", parse_json(spec::to_json(submission.job))},
                 {"resume", submission.resume},
                 {"new", submission.make_new},
                 {"as_submitted", true}};
    if (!submission.array.empty()) body["array"] = submission.array;
    if (!submission.lines.empty()) body["lines"] = parse_json(submission.lines);
    Result<json> plan = api ? api->post("/v1/plan", body) : Result<json>(api.error());
    if (plan) return std::optional(std::move(*plan));
    if (api && plan.error().code != ErrorCode::unreachable) return plan.error();
    call.out.talk("where it would start is not known: " + plan.error().message);
    return std::optional<json>();
}

// Prints what would be sent and where the run would start. Sends only a request for a plan.
Result<int> dry_run(Invocation& call, const JobFile& file, const Submission& submission, const CodeFolder& code) {
    json value = {{"dry_run", true}, {"name", file.job.name}, {"job", parse_json(spec::to_json(file.job))},
                  {"code", nullptr}, {"verdict", nullptr},    {"plan", nullptr}};
    std::string text = "would submit " + file.job.name + "\n";
    if (Status set = secrets_are_set(file.job); !set) return set.error();
    if (!code.path.empty()) {
        const TemporaryDirectory temporary;
        Result<spec::PackedCode> packed = spec::pack_directory(code.path, temporary.path(), code.named_by, code.holds);
        if (!packed) return packed.error();
        print_left_out(call, *packed);
        value["code"] = {{"sha256", packed->sha256}, {"bytes", packed->bytes}, {"files", packed->files}};
        text += "code       " + std::to_string(packed->files) + " files, " + bytes_text(packed->bytes) + " packed\n";
    }
    Result<std::optional<json>> plan = asked_plan(call, submission);
    if (!plan) return with_line(plan.error(), file, call.arguments.argument(0));
    const bool known = plan->has_value();
    const std::string verdict = known ? string_of(**plan, "verdict") : "unknown";
    text += "placement  " + verdict + "\n";
    if (known && verdict != "feasible now") text += explanation_text(**plan);
    if (known) value["verdict"] = verdict;
    if (known) value["plan"] = std::move(**plan);
    call.out.document(value, "name", text);
    return 0;
}

// Fails if two of the flags exclude each other.
Status check_flags(const Invocation& call) {
    const auto refused = [&](const std::string& message) {
        return Error{.code = ErrorCode::usage, .message = message, .next = usage_line(call.command)};
    };
    const Arguments& given = call.arguments;
    if (given.has("resume") && given.has("new")) return refused("--resume and --new exclude each other");
    if (given.has("once") && (given.has("new") || given.has("resume")))
        return refused("--once decides by itself whether a run is new: neither --resume nor --new goes with it");
    if (given.has("array"))
        for (const char* other : {"resume", "new", "follow", "once"})
            if (given.has(other))
                return refused(std::string("--array makes several runs: it does not go with --") + other);
    return Done{};
}

Result<int> submit(Invocation& call) {
    const std::string path = call.arguments.argument(0);
    if (Status fine = check_flags(call); !fine) return fine.error();
    Result<JobFile> file = path.ends_with(".py") ? driver_job(call) : read_job_file(call, path);
    if (!file) return file.error();
    for (const std::string& before : call.arguments.list("after")) file->job.after.push_back(before);
    if (file->job.name.empty()) file->job.name = made_up_name(file->stem);
    const Result<CodeFolder> code = code_folder(call, *file);
    if (!code) return with_line(code.error(), *file, path);
    Submission submission{.job = file->job,
                          .code_sha256 = "",
                          .restore_from = "",
                          .resume = call.arguments.has("resume"),
                          .make_new = call.arguments.has("new"),
                          .array = call.arguments.text("array"),
                          .lines = file->lines};
    if (call.arguments.has("dry-run")) return dry_run(call, *file, submission, *code);
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    if (!code->path.empty()) {
        Result<spec::PackedCode> shipped = ship_directory(call, *api, code->path, code->named_by, code->holds);
        if (!shipped) return shipped.error();
        print_left_out(call, *shipped);
        submission.code_sha256 = shipped->sha256;
    }
    if (submission.resume) submission.member = member_so_far(call, submission.job);
    submission.key = call.arguments.text("once");
    Result<json> run = submission.key.empty() ? hand_over(*api, submission) : hand_over_once(*api, submission);
    if (!run) return with_line(run.error(), *file, path);
    return print_and_follow(call, *api, *run);
}

}  // namespace

std::vector<Command> submit_commands() {
    return {
        {.words = "submit",
         .group = "Runs",
         .help = "submit a job or a driver program; its code travels along",
         .arguments = {{.name = "job.yaml|train.py", .value = Value::file}},
         .flags = {{.name = "follow", .help = "print its lines until it ends; Ctrl-C leaves it running", .letter = 'f'},
                   {.name = "set",
                    .takes = Value::text,
                    .shown = "FIELD=VALUE",
                    .help = "change the spec",
                    .repeated = true},
                   {.name = "after",
                    .takes = Value::run,
                    .shown = "RUN[:ended]",
                    .help = "start once that run has succeeded (or ended)",
                    .repeated = true},
                   {.name = "array",
                    .takes = Value::text,
                    .shown = "1-8[%2]",
                    .help = "a run for each index, NAME-1 ..., at most 2 at a time; RTRAIN_ARRAY_INDEX tells which"},
                   {.name = "dry-run", .help = "check, pack and ask where it would start; send nothing"},
                   {.name = "resume", .help = "a run of this name exists: go on from its last checkpoint"},
                   {.name = "new", .help = "a run of this name exists: take name-2"},
                   {.name = "once",
                    .takes = Value::text,
                    .shown = "KEY",
                    .help = "the same KEY is the same run: it is followed, or gone on with if it was stopped"},
                   {.name = "propagate-exit", .help = "with -f: exit with the first failed rank's code"}},
         .handler = submit,
         .details =
             "train.py [arguments]: that program is the driver. It runs on a node, takes no CPU, and its trainings end "
             "with it when it is stopped. What stands after it belongs to it. Exit code with -f: 0 it succeeded, 1 it "
             "did not, 130 after Ctrl-C. 7: the name is taken. 9: it can never start."}};
}

}  // namespace rtrain::cmd
