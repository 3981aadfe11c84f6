#include "daemon/agent/performers/workers/worker_starts.hpp"

#include <signal.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/hardware/affinity.hpp"
#include "daemon/agent/hardware/nvidia_nodes.hpp"
#include "daemon/agent/performers/workers/worker_place.hpp"
#include "daemon/agent/preparation/compile_caches.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/workers/entrypoint.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "daemon/agent/workers/stacks.hpp"
#include "daemon/agent/workers/user_rights.hpp"

namespace rtrain::agent {
namespace {

// Rank 0 hosts the rendezvous store. A rank that connects before the store listens is refused, and PyTorch's client
// retries only after half a second or more. So rank 0 gets a small lead, and the whole gang starts sooner.
constexpr std::int64_t rendezvous_lead_ms = 100;
constexpr const char *inductor_cache = "TORCHINDUCTOR_CACHE_DIR", *triton_cache = "TRITON_CACHE_DIR";

std::vector<std::uint32_t> ranks_of(const protocol::Launch& launch) {
    std::vector<std::uint32_t> ranks;
    for (const protocol::LaunchWorker& worker : launch.workers) ranks.push_back(worker.rank);
    return ranks;
}

// `start` must be complete.
TemplateWish wish_of(const ThisNode& node, const LiveAttempt& attempt, const WorkerStart& start) {
    const AttemptContext& context = *attempt.context;
    const std::string own = node.files.attempt(start.attempt) + "/bin", path = start.environment.at("PATH");
    TemplateWish wish{.start = start,
                      .token_user = context.prepare.user,
                      .preload = context.job.preload,
                      .path = path.starts_with(own + ":") ? path.substr(own.size() + 1) : path,
                      .interpreter = context.job.interpreter,
                      .added_path = own,
                      .working_dir = context.setup ? context.working_dir : ""};
    for (const auto& [name, value] : attempt.launch.secrets) wish.secrets.push_back(name);
    return wish;
}

// Returns the environment on which compiled code depends. A program that is not Python itself (a shell, torchrun) is
// identified by its arguments, and by the Python on its PATH.
CompileEnvironment compile_environment_of(const TemplateWish& wish) {
    CompileEnvironment environment{
        .user = wish.start.user, .token_user = wish.token_user, .variables = wish.start.environment};
    const UserRights rights(wish.start.user);  // the user owns venv/bin
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return environment;
    environment.python = interpreter_of(wish);
    if (!environment.python.empty()) return environment;
    environment.program = wish.start.program;
    environment.python = program_on_path(wish.interpreter.empty() ? "python" : wish.interpreter, wish.path);
    if (environment.python.empty()) environment.python = program_on_path("python3", wish.path);
    return environment;
}

// Sets the directories of compiled code, unless the job or the node's operator has set them. Inductor puts Triton's
// below its own, so a job that has set Inductor's has set both.
void give_compile_cache(const ThisNode& node, WorkerStart& start, const TemplateWish& wish) {
    Environment& variables = start.environment;
    if (variables.contains(inductor_cache)) return;
    const std::string entry = cache_entry_of(compile_environment_of(wish));
    const auto files = open_cache(node.files.data_dir, entry, start.user, start.directory);
    if (!files)
        return warn("rank " + std::to_string(start.rank) +
                    " has no lasting cache of compiled code: " + files.error().message);
    variables[inductor_cache] = *files + "/inductor";
    if (!variables.contains("TRITON_HOME")) variables.insert({triton_cache, *files + "/triton"});
}

}  // namespace

WorkerStarts::WorkerStarts(const Uses& uses)
    : uses_(uses),
      launcher_(uses.loop, uses.node.options.program, events()),
      warm_({uses.loop, uses.inputs, uses.state, uses.node, launcher_}) {}

WorkerEvents WorkerStarts::events() {
    return {.started = [this](AttemptKey key, std::uint32_t rank,
                              std::int64_t pid) { uses_.inputs.enqueue(WorkerStarted_{key, rank, pid}); },
            .ended =
                [this](AttemptKey key, std::uint32_t rank, const ExitCause& cause, std::int64_t wall_us) {
                    if (LiveAttempt* attempt = uses_.attempts.change(key))
                        attempt->killed = attempt->killed || cause.signal.has_value();
                    uses_.inputs.enqueue(WorkerEnded{key, rank, cause, wall_us});
                },
            .oom_kills = [this](AttemptKey key) -> std::optional<std::uint64_t> {
                const auto& cgroups = uses_.node.cgroups;
                return cgroups ? cgroups->oom_kills(key) : std::nullopt;
            }};
}

void WorkerStarts::start(const StartWorkers& out) {
    const AttemptKey key = key_of(out.launch.attempt);
    const NodeFiles& files = uses_.node.files;
    LiveAttempt* attempt = uses_.attempts.change(key);
    if (!attempt) return;
    attempt->launch = out.launch;
    attempt->launch.secrets.clear();
    attempt->number = out.launch.attempt.number;
    uses_.scratch.measure();
    limit_group(*attempt);
    uses_.memory.begin();
    uses_.messages.admit(key);
    if (!uses_.node.inventory.devices.empty() && ::geteuid() == 0)  // the driver's modules may just have been loaded
        if (Status status = make_nvidia_nodes("/proc", "/dev"); !status) warn(status.error().message);
    Status ready = make_directory(files.logs(key), 0711);
    if (ready) uses_.logs.follow(out.launch.attempt, ranks_of(out.launch), log_bounds(*attempt->context));
    LiveAttempt with_secrets = *attempt;
    with_secrets.launch = out.launch;
    if (uses_.node.warm.on) warm_.expect(key, out.launch.workers.size());
    for (const protocol::LaunchWorker& worker : out.launch.workers) {
        if (ready) ready = start_one(with_secrets, worker);
        if (!ready) warm_.not_started(key, worker.rank);
        if (!ready)
            uses_.inputs.enqueue(WorkerEnded{
                key,
                worker.rank,
                {.exit_code = 126, .never_started = true, .detail = uses_.node.name() + ": " + ready.error().message},
                wall_ms() * 1000});
    }
}

// Limits the attempt's control group to the memory that its workers on this node requested together. If that fails, the
// agent watches them instead (memory_watch.cpp).
void WorkerStarts::limit_group(const LiveAttempt& attempt) {
    const ThisNode& node = uses_.node;
    if (node.memory_limits != MemoryLimits::cgroup || !node.cgroups) return;
    const AttemptKey key = key_of(attempt.launch.attempt);
    GroupLimits limits;
    const std::int64_t of_each = amount_of(attempt.context->job.resources_per_worker, memory_key).ticks;
    for (const protocol::LaunchWorker& worker : attempt.launch.workers) {
        limits.memory_bytes += of_each / Amount::per_unit;
        limits.cpu_ticks += worker.cpu_ticks;
    }
    if (Status limited = node.cgroups->limit(key, limits); !limited) warn(limited.error().message);
}

Status WorkerStarts::start_one(const LiveAttempt& attempt, const protocol::LaunchWorker& worker) {
    const AttemptContext& context = *attempt.context;
    const ThisNode& node = uses_.node;
    const AttemptKey key = key_of(context.prepare.attempt);
    WorkerStart start{.attempt = key,
                      .rank = worker.rank,
                      .directory = node.files.worker(key, worker.rank),
                      .out = node.files.log(key, worker.rank, "out"),
                      .err = node.files.log(key, worker.rank, "err"),
                      .user = context.user,
                      .wait_ms = worker.rank == 0 ? 0 : rendezvous_lead_ms,
                      .program = context.job.entrypoint,
                      .allow_setuid = node.options.allow_setuid};
    if (!context.job.setup.empty() && !context.setup)
        return Error{ErrorCode::not_found, "what setup: made is no longer there", "the next attempt makes it anew"};
    if (Status status = make_directory(start.directory, 0711); !status) return status;
    auto cwd = start_directory(context, node.facts(), worker.rank);
    if (!cwd) return cwd.error();
    start.cwd = *cwd;
    if (Status status = make_scratch(node.files.scratch(key), context.user); !status) return status;
    const WorkerPlace place = place_of(node, context, start);
    const UserRights rights(context.user);  // the user owns venv/bin
    {
        const UserRights::Worn worn(rights);
        if (worn.taken()) start.program = without_shell_layer(std::move(start.program), place.tool_path);
    }
    start.environment = worker_environment(context.prepare, attempt.launch, worker, context.job, place);
    if (context.setup && !context.setup->virtual_env.empty())
        start.environment["VIRTUAL_ENV"] = context.setup->virtual_env;
    for (const auto& [name, value] : user_variables(context.user))
        if (!context.job.env.contains(name)) start.environment[name] = value;
    give_compile_cache(node, start, wish_of(node, attempt, start));
    start.processors =
        processor_list(processors_for(context.job.cpu_affinity, worker, attempt.launch.workers.size(), node.inventory));
    if (node.cgroups)
        if (const auto group = node.cgroups->make(key)) start.cgroup = *group;
    if (!node.warm.on) {
        launcher_.start(start);
        return Done{};
    }
    TemplateChoice choice{.why_not = "its user's rights cannot be taken"};
    {
        const UserRights::Worn worn(rights);
        if (worn.taken()) choice = choose_template(wish_of(node, attempt, start));
    }
    warm_.start(start, choice);
    return Done{};
}

std::map<std::uint32_t, std::int64_t> WorkerStarts::adopt(AttemptKey key) {
    const LiveAttempt& attempt = *uses_.attempts.find(key);
    const NodeFiles& files = uses_.node.files;
    std::map<std::uint32_t, std::int64_t> pids;
    uses_.messages.admit(key);
    for (const std::uint32_t rank : ranks_of(attempt.launch))
        if (const auto pid = launcher_.adopt(key, rank, files.worker(key, rank), files.log(key, rank, "err")))
            pids[rank] = *pid;
    uses_.logs.follow(attempt.launch.attempt, ranks_of(attempt.launch), log_bounds(*attempt.context));
    return pids;
}

void WorkerStarts::signal(const SignalWorker& out) {
    if (out.signal == SIGTERM)
        launcher_.stop(out.attempt, out.rank, uses_.messages.holder(out.attempt, out.rank));
    else
        launcher_.kill(out.attempt, out.rank, out.descendants ? Launcher::Kill::descendants : Launcher::Kill::group);
}

void WorkerStarts::dump_stacks(const DumpStacks& out) {
    const LiveAttempt* attempt = uses_.attempts.find(out.attempt);
    if (!attempt) return;
    for (const std::uint32_t rank : out.ranks)
        uses_.loop.offload([target = StackTarget{.attempt = attempt_text(attempt->context->prepare, attempt->number),
                                                 .node = uses_.node.name(),
                                                 .rank = rank,
                                                 .log = uses_.node.files.log(out.attempt, rank, "err"),
                                                 .why = out.why}] { request_stacks(target); },
                           [] {});
}

void WorkerStarts::look_at_memory() { launcher_.look_at_memory(boot_ms()); }

void WorkerStarts::end_all() {
    for (const auto& [key, attempt] : uses_.attempts.all())
        if (attempt.context) kill_strays(attempt_text(attempt.context->prepare, attempt.number), uses_.node.name());
}

}  // namespace rtrain::agent
