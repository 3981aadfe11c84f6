// rtrain slurm submit: converts a job spec to a Slurm batch job that starts its own cluster.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/descriptor.hpp"
#include "base/write_all.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/client/submission.hpp"
#include "cmd/engines/engine_verbs.hpp"
#include "cmd/engines/slurm_script.hpp"
#include "cmd/text/process.hpp"

extern char** environ;

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::int64_t minute_ms = 60'000, nodes_most = 100'000;

Result<SlurmWish> wish_of(Invocation& call) {
    const Arguments& arguments = call.arguments;
    const std::string path = arguments.argument(0);
    if (path == "-")
        return Error{.code = ErrorCode::usage,
                     .message = "the job reads its spec when it starts, so it needs a file",
                     .next = usage_line(call.command)};
    Result<JobFile> file = read_job_file(call, path);
    if (!file) return file.error();
    SlurmWish wish;
    wish.run = file->job.name.empty() ? made_up_name(file->stem) : file->job.name;
    wish.spec_file = absolute(path);
    wish.storage_path = file->job.storage_path;
    wish.sets = arguments.list("set");
    wish.program = arguments.text("program", wish.program);
    wish.output = arguments.text("output-file");
    wish.interface = arguments.text("interface");
    wish.options = arguments.list("sbatch");
    const std::int64_t nodes = arguments.number("nodes", 1);
    if (nodes < 1 || nodes > nodes_most)
        return Error{.code = ErrorCode::usage, .message = "--nodes: 1 to 100000", .next = usage_line(call.command)};
    wish.nodes = static_cast<std::uint32_t>(nodes);
    // The allocation's limit also covers the start of the cluster, so it is five minutes more than the run's limit.
    constexpr std::int64_t start_minutes = 5;
    if (file->job.wall_time_ms)
        wish.time_minutes = (*file->job.wall_time_ms + minute_ms - 1) / minute_ms + start_minutes;
    if (arguments.has("time")) wish.time_minutes = (arguments.duration_ms("time", 0) + minute_ms - 1) / minute_ms;
    return wish;
}

Error no_sbatch(int code) {
    return {.code = code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
            .message = std::string("sbatch: ") + std::strerror(code),
            .next = "run this on a machine with Slurm's commands; --print shows the script"};
}

std::string all_of(int descriptor) {
    std::string text;
    char bytes[4096];
    ::lseek(descriptor, 0, SEEK_SET);
    for (ssize_t got = 0; (got = ::read(descriptor, bytes, sizeof bytes)) > 0;)
        text.append(bytes, static_cast<std::size_t>(got));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

// The script is passed by standard input, so it is in no file and no argument.
Result<std::string> sbatch(const std::string& script) {
    const storage::Descriptor input(::memfd_create("script", MFD_CLOEXEC)),
        output(::memfd_create("answer", MFD_CLOEXEC));
    if (!input.open() || !output.open()) return no_sbatch(errno);
    if (const int failed = storage::write_all(input.number(), script)) return no_sbatch(failed);
    ::lseek(input.number(), 0, SEEK_SET);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input.number(), 0);
    posix_spawn_file_actions_adddup2(&files, output.number(), 1);
    const char* words[] = {"sbatch", "--parsable", nullptr};
    pid_t pid = 0;
    const int failed = ::posix_spawnp(&pid, words[0], &files, nullptr, const_cast<char* const*>(words), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) return no_sbatch(failed);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return all_of(output.number());
    return Error{.code = ErrorCode::invalid, .message = "sbatch refused the job", .next = "its words stand above"};
}

Result<int> slurm_submit(Invocation& call) {
    const Result<SlurmWish> wish = wish_of(call);
    if (!wish) return wish.error();
    const Result<std::string> script = slurm_script(*wish);
    if (!script) return script.error();
    if (call.arguments.has("print")) {
        call.out.raw(*script);
        return 0;
    }
    const Result<std::string> answer = sbatch(*script);
    if (!answer) return answer.error();
    // sbatch prints ID;CLUSTER if there are several clusters
    const std::string id = answer->substr(0, answer->find(';'));
    call.out.document({{"job_id", id}, {"name", wish->run}, {"nodes", wish->nodes}}, "job_id",
                      "Slurm's job " + id + " runs " + wish->run + " on " + std::to_string(wish->nodes) +
                          (wish->nodes == 1 ? " node\n" : " nodes\n"));
    return 0;
}

}  // namespace

std::vector<Command> slurm_commands() {
    return {{.words = "slurm submit",
             .group = "Engines",
             .help = "submit a batch job of Slurm that starts a cluster in its allocation and trains this job there",
             .arguments = {{.name = "job.yaml", .value = Value::file}},
             .flags = {{.name = "set",
                        .takes = Value::text,
                        .shown = "FIELD=VALUE",
                        .help = "change the spec",
                        .repeated = true},
                       {.name = "nodes", .takes = Value::number, .shown = "N", .help = "of the allocation (default 1)"},
                       {.name = "time",
                        .takes = Value::duration,
                        .shown = "TIME",
                        .help = "of the allocation (default: limits.wall_time and five minutes, else the partition's)"},
                       {.name = "sbatch",
                        .takes = Value::text,
                        .shown = "OPTION",
                        .help = "of sbatch: --sbatch=--partition=gpu",
                        .repeated = true},
                       {.name = "interface",
                        .takes = Value::text,
                        .shown = "NAME",
                        .help = "network card of the nodes that agents and ranks use, such as ib0 (default: the "
                                "network of Slurm)"},
                       {.name = "output-file", .takes = Value::text, .shown = "FILE", .help = "(default slurm-%j.out)"},
                       {.name = "program",
                        .takes = Value::text,
                        .shown = "PATH",
                        .help = "rtrain on the nodes (default rtrain)"},
                       {.name = "print", .help = "print the script, and submit nothing"}},
             .handler = slurm_submit,
             .details = "The spec and its working directory must be where all nodes see them, and storage_path too.\n"
                        "docs/slurm.md says what happens at the time limit.",
             .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
