// rtrain run: starts a program on N workers, as torchrun does. Prints the output of rank 0, and returns the exit code
// of the program.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "base/json_text.hpp"
#include "cmd/client/code_folder.hpp"
#include "cmd/client/follow.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/client/submission.hpp"
#include "cmd/local/own_cluster.hpp"
#include "cmd/text/status_text.hpp"
#include "storage/job_spec/limits.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t nodes_most = 64;  // the most nodes of a cluster that exists for one command
constexpr std::int64_t connect_within_ms = 5'000;

Error usage(const Invocation& call, std::string message) {
    return {.code = ErrorCode::usage, .message = std::move(message), .next = usage_line(call.command)};
}

struct Size {
    std::int64_t nodes = 1;  // 0: any number of nodes
    std::int64_t workers = 1;
};

std::int64_t whole_number(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? number : 0;
}

// Reads -n: WORKERS, or NODESxWORKERS with the workers of each node.
Result<Size> size_of(const Invocation& call) {
    const std::string text = call.arguments.text("workers", "1");
    const auto cross = text.find('x');
    const std::int64_t nodes = cross == text.npos ? 0 : whole_number(std::string_view(text).substr(0, cross));
    const std::int64_t workers = whole_number(std::string_view(text).substr(cross == text.npos ? 0 : cross + 1));
    if (workers < 1 || workers > spec::workers_most || nodes > spec::workers_most || (cross != text.npos && nodes < 1))
        return usage(call, "-n: \"" + text + "\" is neither a number of workers (4) nor NODESxWORKERS (2x8)");
    return Size{.nodes = nodes, .workers = nodes == 0 ? workers : nodes * workers};
}

// Returns the value of a flag for an amount as JSON. It is a number, or a text ("32Gi") that is checked together with
// the job.
json amount(const std::string& text) {
    const json number = parse_json(text);
    return number.is_number() ? number : json(text);
}

// Where the program is on this machine, and the command with which a worker starts it.
struct Program {
    std::string folder;  // the program's folder, or the current one
    std::string stem;    // the program's file name without its suffix; names the run
    std::vector<std::string> words;
};

Result<Program> program_of(const Invocation& call) {
    std::error_code failed;
    const fs::path here = fs::current_path(failed);
    Program program{.folder = here.string(), .stem = "", .words = call.arguments.positional};
    const fs::path first = program.words[0];
    program.stem = first.stem().string();
    const bool script = first.extension() == ".py";
    if (!script && program.words[0].find('/') == std::string::npos) {
        // finds the program behind `python -m` or `torchrun`: `python -m pkg.train`, `torchrun train.py`
        for (std::size_t i = 1; i < program.words.size(); ++i)
            if (program.words[i - 1] == "-m" || program.words[i].ends_with(".py")) {
                program.stem = fs::path(program.words[i]).stem().string();
                break;
            }
        return program;
    }
    const fs::path file = (here / first).lexically_normal();
    if (!fs::is_regular_file(file, failed))
        return Error{.code = ErrorCode::not_found,
                     .message = "there is no file " + file.string(),
                     .next = "check the path; it is looked for from the working directory"};
    if (!script && ::access(file.c_str(), X_OK) != 0)
        return Error{.code = ErrorCode::usage,
                     .message = file.string() + " is not executable",
                     .next = "chmod +x it, or name its interpreter: rtrain run python " + program.words[0]};
    const fs::path inside = file.lexically_relative(here);
    const bool below = !inside.empty() && *inside.begin() != "..";
    if (!below) program.folder = file.parent_path().string();
    program.words[0] = below ? inside.string() : file.filename().string();
    if (script)
        program.words.insert(program.words.begin(), "python");
    else
        program.words[0].insert(0, "./");
    return program;
}

// Returns the checked job. `in_place`: the directory of this machine in which the workers start. If it is empty, the
// workers get a copy of the code.
Result<spec::Job> job_of(Invocation& call, const Size& size, const Program& program, const std::string& in_place) {
    json resources = json::object();
    for (const auto& [flag, name] : {std::pair{"cpus", "CPU"}, {"gpus", "GPU"}, {"memory", "memory"}})
        if (call.arguments.has(flag)) resources[name] = amount(call.arguments.text(flag));
    const Arguments& given = call.arguments;
    // true: the job is one process, which may call fit() itself
    const bool is_driver = !given.has("workers") && resources.empty();
    if (is_driver) resources["CPU"] = 0;
    json scaling = {{"workers", size.workers}};
    // a cluster for one command gets no further nodes, so the run does not wait for any
    if (!in_place.empty()) scaling["wait_for_nodes"] = false;
    if (resources.contains("GPU")) scaling["use_gpu"] = resources["GPU"] != 0;
    if (!resources.empty()) scaling["resources_per_worker"] = std::move(resources);
    json entrypoint = program.words;
    if (!in_place.empty()) {
        entrypoint = {"sh", "-c", R"(cd -- "$0" && exec "$@")", in_place};
        for (const std::string& word : program.words) entrypoint.push_back(word);
    }
    const json job = {{"version", 1},
                      {"name", call.arguments.text("name", made_up_name(program.stem))},
                      {"entrypoint", std::move(entrypoint)},
                      {"driver", is_driver},
                      {"scaling", std::move(scaling)},
                      {"logs", {{"show", "0"}}}};
    const std::optional<std::string> text = exact_json_text(job);
    if (!text)
        return Error{.code = ErrorCode::usage,
                     .message = "an argument of " + program.words[0] + " is not UTF-8",
                     .next = "pass it in UTF-8, or in a file"};
    return with_sets(call, *text, call.arguments.list("set"));
}

bool sets_working_dir(const Invocation& call) {
    const std::vector<std::string> sets = call.arguments.list("set");
    return std::any_of(sets.begin(), sets.end(),
                       [](const std::string& set) { return set.starts_with("working_dir="); });
}

// Ends the run at a signal. The first signal stops the workers gracefully, the second kills them, the third ends this
// program without them.
class Ending {
  public:
    explicit Ending(Result<Api> api) : api_(std::move(api)) {}

    // Sets the run that a signal ends. If a signal arrived earlier, ends the run now.
    void run_is(const std::string& name) {
        std::lock_guard lock(mutex_);
        name_ = name;
        if (signals_ > 0) request_stop();
    }
    bool on_signal(int signal) {
        std::lock_guard lock(mutex_);
        signal_ = signal;
        if (++signals_ > 2) return false;
        if (!name_.empty()) request_stop();
        return true;
    }
    int exit_code() const { return signal_ == 0 ? 0 : 128 + signal_; }

  private:
    void request_stop() {
        const bool now = signals_ > 1;
        std::fprintf(stderr, "rtrain: %s\n", now ? "ending it at once" : "stopping it; once more ends it at once");
        const json body = now ? json{{"now", true}} : json::object();
        const Result<json> answer = api_ ? api_->post("/v1/runs/" + url_part(name_) + "/stop", body) : api_.error();
        if (!answer && answer.error().code != ErrorCode::conflict)
            std::fprintf(stderr, "rtrain: it was not stopped: %s\n", answer.error().message.c_str());
    }

    std::mutex mutex_;
    Result<Api> api_;
    std::string name_;
    int signals_ = 0;
    std::atomic<int> signal_{0};
};

// Prints the last lines of the ranks that failed, if the output so far was that of another rank.
void show_failed(Invocation& call, Api& api, const json& run, const std::string& shown) {
    if (string_of(run, "state") != "FAILED") return;
    const Result<json> attempts = api.list("/v1/runs/" + url_part(string_of(run, "run_id")) + "/attempts");
    if (!attempts || (*attempts)["items"].empty()) return;
    const json failure = (*attempts)["items"].back().value("first_failure", json());
    if (!failure.is_object() || json_text(failure.value("rank", json(0))) == shown) return;
    print_failed(call, api, {}, string_of(run, "run_id"));
}

Result<int> follow_to_end(Invocation& call, Api& api, const json& run, const Size& size, const Ending& ending) {
    LogWish wish;
    choose_shown(wish, run);
    wish.prefix = wish.rank != "0";
    Result<std::optional<json>> end = follow_run(call, api, run, wish);
    if (!end) return end.error();
    if (!end->has_value()) return detached(call, string_of(run, "name"));
    const json& ended = **end;
    const std::set<std::string> nodes = [&] {
        std::set<std::string> names;
        for (const json& node : ended.value("nodes", json::array())) names.insert(json_text(node));
        return names;
    }();
    if (size.nodes > 0 && !nodes.empty() && nodes.size() != static_cast<std::size_t>(size.nodes))
        call.out.talk("rtrain: " + std::to_string(size.workers) + " workers ran on " + std::to_string(nodes.size()) +
                      " nodes, not " + std::to_string(size.nodes) + ": the cluster packs them where there is room");
    show_failed(call, api, ended, wish.rank);
    if (string_of(ended, "state") != "SUCCEEDED") call.out.talk(run_line(ended));
    if (ending.exit_code() != 0) return ending.exit_code();
    return followed_exit(api, ended, true);
}

// Returns the directory in which runs of a cluster for one command store their files. rtrain.init() uses the same one.
std::string results_folder() {
    const std::string home = environment("HOME");
    return home.empty() ? data_home() + "/results" : home + "/rtrain_results";
}

Result<OwnCluster> own_cluster(const Invocation& call, const Size& size) {
    const std::int64_t nodes = std::max<std::int64_t>(size.nodes, 1);
    if (nodes > nodes_most)
        return usage(call, "-n: this machine alone stands for " + std::to_string(nodes_most) + " nodes at most");
    if (nodes > 1 && call.arguments.has("gpus"))
        return usage(call, "-n: the GPUs of this machine are not those of " + std::to_string(nodes) +
                               " nodes; say -n " + std::to_string(size.workers));
    const double cpus = std::stod("0" + call.arguments.text("cpus", "1"));
    const double wanted = cpus * static_cast<double>(size.workers) / static_cast<double>(nodes);
    const double offered = std::max(std::ceil(wanted), static_cast<double>(std::thread::hardware_concurrency()));
    std::error_code failed;
    fs::create_directories(results_folder(), failed);
    return OwnCluster::start({.nodes = nodes,
                              .resources = "CPU=" + std::to_string(static_cast<std::int64_t>(offered)),
                              .storage_root = results_folder()});
}

// Starts a cluster for this command if --local is given, or if no address is set. Returns nullopt if the command uses a
// cluster that already runs.
Result<std::optional<OwnCluster>> cluster_for(Invocation& call, const Size& size) {
    const Result<Settings> settings = Settings::load(call.arguments);
    if (!settings) return settings.error();
    if (!call.arguments.has("local") && !settings->value("address").empty()) return std::optional<OwnCluster>();
    if (call.arguments.has("local") && (call.arguments.has("address") || call.arguments.has("context")))
        return usage(call, "--local starts a cluster on this machine: --address and --context do not go with it");
    Result<OwnCluster> own = own_cluster(call, size);
    if (!own) return own.error();
    return std::optional<OwnCluster>(std::move(*own));
}

Result<Api> open_api(Invocation& call, const std::optional<OwnCluster>& own) {
    return own ? Api::open(call, own->place(), connect_within_ms) : Api::open(call);
}

// Uploads the code if the workers need a copy of it, and submits the job.
Result<json> handed_over(Invocation& call, Api& api, const JobFile& file, bool sends_code) {
    Submission submission{.job = file.job, .code_sha256 = "", .restore_from = "", .array = ""};
    const Result<CodeFolder> code = sends_code ? code_folder(call, file) : CodeFolder{};
    if (!code) return code.error();
    if (!code->path.empty()) {
        Result<spec::PackedCode> shipped = ship_directory(call, api, code->path, code->named_by, code->holds);
        if (!shipped) return shipped.error();
        print_left_out(call, *shipped);
        submission.code_sha256 = shipped->sha256;
    }
    return hand_over(api, submission);
}

Result<int> run_program(Invocation& call) {
    const Result<Size> size = size_of(call);
    if (!size) return size.error();
    const Result<Program> program = program_of(call);
    if (!program) return program.error();
    std::error_code failed;
    const bool own_directory = sets_working_dir(call);
    // The job is checked before a cluster is started for it.
    if (const Result<spec::Job> checked = job_of(call, *size, *program, ""); !checked) return checked.error();
    const Result<std::optional<OwnCluster>> own = cluster_for(call, *size);
    if (!own) return own.error();
    const bool in_place = own->has_value() && !own_directory;
    Result<spec::Job> job = job_of(call, *size, *program, in_place ? fs::current_path(failed).string() : "");
    if (!job) return job.error();
    const JobFile file{
        .job = std::move(*job), .folder = program->folder, .stem = program->stem, .folder_named = own_directory};
    Result<Api> api = open_api(call, *own);
    if (!api) return api.error();
    Ending ending(open_api(call, *own));
    handle_signals([&ending](int signal) { return ending.on_signal(signal); });
    Result<json> run = handed_over(call, *api, file, !in_place);
    if (!run) {
        Error error = run.error();
        if (error.code == ErrorCode::unreachable && !*own)
            error.next += ", or rtrain run --local: a cluster on this machine for this command";
        return error;
    }
    const std::string name = string_of(*run, "name");
    ending.run_is(name);
    call.out.talk("rtrain: " + run_line(*run) +
                  (*own ? ", on a cluster of this command; its files: " + results_folder() + "/" + name : "") +
                  "; Ctrl-C stops it");
    return follow_to_end(call, *api, *run, *size, ending);
}

}  // namespace

std::vector<Command> program_commands() {
    return {
        {.words = "run",
         .group = "Runs",
         .help = "run a program on N workers and wait for it, without a job file",
         .arguments = {{.name = "train.py|PROGRAM", .value = Value::file}},
         .flags = {{.name = "workers",
                    .takes = Value::text,
                    .shown = "N|NODESxN",
                    .help = "how many, or how many on each node: 4, 2x8 (default: a driver)",
                    .letter = 'n'},
                   {.name = "gpus", .takes = Value::text, .shown = "N", .help = "of each worker (default 0)"},
                   {.name = "cpus", .takes = Value::text, .shown = "N", .help = "of each worker (default 1)"},
                   {.name = "memory", .takes = Value::text, .shown = "SIZE", .help = "of each worker: 8Gi"},
                   {.name = "name", .takes = Value::text, .shown = "NAME", .help = "of the run"},
                   {.name = "set",
                    .takes = Value::text,
                    .shown = "FIELD=VALUE",
                    .help = "any other field of a job spec",
                    .repeated = true},
                   {.name = "local", .help = "start a cluster for this command, though a context names another"}},
         .handler = run_program,
         .details =
             "What follows the program belongs to it. The run goes to the cluster of the context, with a copy of the "
             "current directory. Without a context a cluster starts on this machine for this command, and the workers "
             "start in the current directory itself. Rank 0's output is printed. Ctrl-C or SIGTERM stops the run. Exit "
             "code: 0, or that of the first rank that failed; 128 and the signal's number after a signal.",
         .program = true}};
}

}  // namespace rtrain::cmd
