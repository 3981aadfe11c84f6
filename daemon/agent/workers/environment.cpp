// The table of a worker's environment variables.
#include "daemon/agent/workers/environment.hpp"

#include <algorithm>
#include <filesystem>

#include "daemon/agent/workers/frameworks.hpp"
#include "daemon/agent/workers/stacks.hpp"

namespace rtrain::agent {
namespace {

using namespace protocol;

struct Facts {
    const Prepare& prepare;
    const Launch& launch;
    const LaunchWorker& worker;
    const spec::Job& job;
    const WorkerPlace& place;
};
struct Variable {
    const char* name;
    std::string (*value)(const Facts&);
};

std::string text(std::uint64_t number) { return std::to_string(number); }

std::string restarts(const Facts& f) {
    return text(f.launch.attempt.number - std::min(f.launch.attempt.number, std::uint32_t{1}));
}

// Returns the program that a worker runs to read storage that is not mounted. Empty if this program was replaced after
// its start.
std::string own_program(const Facts&) {
    std::error_code failed;
    const std::string path = std::filesystem::read_symlink("/proc/self/exe", failed).string();
    return failed || path.ends_with(" (deleted)") ? "" : path;
}

std::string most_restarts(const Facts& f) {
    const std::int32_t most = f.job.failure.max_failures;
    return most < 0 ? "2147483647" : std::to_string(most);
}
// Returns the number of threads: the worker's CPUs. torchrun uses one thread if several workers share a node.
std::string threads(const Facts& f) {
    const std::int64_t whole = f.worker.cpu_ticks / Amount::per_unit;
    return text(static_cast<std::uint64_t>(std::max<std::int64_t>(whole, 1)));
}

std::string own_devices(const Launch& launch, const LaunchWorker& worker);
std::string comma_list(const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
    return list;
}

std::vector<std::string> names_of(const std::map<std::string, std::string>& variables) {
    std::vector<std::string> names;
    for (const auto& [name, value] : variables) names.push_back(name);
    return names;
}

// Variables that the user may override. The variables after this table cannot be overridden, since the attempt depends
// on them.
const Variable defaults[] = {
    {"OMP_NUM_THREADS", threads},
    {"ACCELERATE_USE_CPU",  // without it, Accelerate treats each rank on a CPU as the only one
     [](const Facts& f) { return f.worker.gpus.empty() ? std::string("true") : std::string(); }},
    {"PYTHONUNBUFFERED", [](const Facts&) { return std::string("1"); }},
    {"GLOO_SOCKET_IFNAME", [](const Facts& f) { return f.place.interface; }},
    {"NCCL_SOCKET_IFNAME", [](const Facts& f) { return f.place.interface; }},
};
const Variable fixed[] = {
    {"RANK", [](const Facts& f) { return text(f.worker.rank); }},
    {"WORLD_SIZE", [](const Facts& f) { return text(f.prepare.world_size); }},
    {"LOCAL_RANK", [](const Facts& f) { return text(f.worker.local_rank); }},
    {"LOCAL_WORLD_SIZE", [](const Facts& f) { return text(f.launch.workers.size()); }},
    {"GROUP_RANK", [](const Facts& f) { return text(f.launch.node_rank); }},
    {"GROUP_WORLD_SIZE", [](const Facts& f) { return text(f.prepare.nodes.size()); }},
    {"NODE_RANK", [](const Facts& f) { return text(f.launch.node_rank); }},
    {"ROLE_RANK", [](const Facts& f) { return text(f.worker.rank); }},
    {"ROLE_WORLD_SIZE", [](const Facts& f) { return text(f.prepare.world_size); }},
    {"ROLE_NAME", [](const Facts&) { return std::string("default"); }},
    {"MASTER_ADDR", [](const Facts& f) { return f.launch.master_address; }},
    {"MASTER_PORT", [](const Facts& f) { return text(f.launch.master_port); }},
    {"TORCHELASTIC_RUN_ID", [](const Facts& f) { return f.prepare.run_id; }},
    {"TORCHELASTIC_RESTART_COUNT", restarts},
    {"TORCHELASTIC_MAX_RESTARTS", most_restarts},
    {"TORCHELASTIC_USE_AGENT_STORE", [](const Facts&) { return std::string("False"); }},
    {"TORCHELASTIC_ERROR_FILE", [](const Facts& f) { return f.place.error_file; }},
    {"RTRAIN_RUN_ID", [](const Facts& f) { return f.prepare.run_id; }},
    {"RTRAIN_RUN_NAME", [](const Facts& f) { return f.prepare.run_name; }},
    {"RTRAIN_ARRAY", [](const Facts& f) { return f.prepare.array; }},
    {"RTRAIN_ARRAY_INDEX",
     [](const Facts& f) { return f.prepare.array.empty() ? std::string() : text(f.prepare.array_index); }},
    {"RTRAIN_ATTEMPT", [](const Facts& f) { return attempt_text(f.prepare, f.launch.attempt.number); }},
    {"RTRAIN_NODE", [](const Facts& f) { return f.place.node; }},
    {"RTRAIN_USER", [](const Facts& f) { return f.prepare.user; }},
    {"RTRAIN_STORAGE_PATH", [](const Facts& f) { return f.prepare.storage_path; }},
    {"RTRAIN_RUN_PATH", [](const Facts& f) { return f.place.run_path; }},
    {"RTRAIN_WORKER_SOCKET", [](const Facts& f) { return f.place.socket; }},
    {"RTRAIN_WORKER_KEY", [](const Facts& f) { return f.place.key; }},
    {"RTRAIN_WORKER_LIB", [](const Facts& f) { return f.place.worker_library; }},
    {"RTRAIN_BINARY", own_program},
    {"RTRAIN_TOKEN", [](const Facts& f) { return f.launch.token; }},
    {"RTRAIN_STACK_SIGNAL", [](const Facts&) { return std::to_string(stack_signal); }},
    {"RTRAIN_DRIVER_FILE", [](const Facts& f) { return f.place.driver_file; }},
    {"RTRAIN_ADDRESS", [](const Facts& f) { return f.place.head_address; }},
    {"RTRAIN_CA", [](const Facts& f) { return f.place.head_ca; }},
    {"RTRAIN_SCRATCH_DIR", [](const Facts& f) { return f.place.scratch; }},
    {"RTRAIN_WORKING_DIR", [](const Facts& f) { return f.place.working_dir; }},
    {"RTRAIN_START_DIR", [](const Facts& f) { return f.place.start_dir; }},
    {"RTRAIN_CODE_LIST", [](const Facts& f) { return f.place.code_list; }},
    {"RTRAIN_DEVICES", [](const Facts& f) { return own_devices(f.launch, f.worker); }},
    {"RTRAIN_TRACKING", [](const Facts& f) { return comma_list(f.job.tracking); }},
    // Runs that this worker submits inherit these variables and its code. runtime/python reads them.
    {"RTRAIN_ENV_NAMES", [](const Facts& f) { return comma_list(names_of(f.job.env)); }},
    {"RTRAIN_SECRET_NAMES", [](const Facts& f) { return comma_list(f.job.secrets); }},
    {"RTRAIN_CODE_SHA256", [](const Facts& f) { return f.prepare.code_sha256; }},
    {"RTRAIN_BACKEND", [](const Facts& f) { return f.job.backend; }},
    {"RTRAIN_BACKEND_TIMEOUT_S",
     [](const Facts& f) {
         return text(static_cast<std::uint64_t>(std::max<std::int64_t>(f.job.backend_timeout_s, 0)));
     }},
    {"RTRAIN_STOP_GRACE_MS",
     [](const Facts& f) { return text(static_cast<std::uint64_t>(std::max<std::int64_t>(f.job.stop_grace_ms, 0))); }},
};

void set(Environment& into, const char* name, std::string value) {
    if (!value.empty()) into.insert_or_assign(name, std::move(value));
}

// Variables of the agent that jobs get, beside LC_*. Proxies are read in both cases.
const char* const passed_names[] = {"PATH",
                                    "HOME",
                                    "USER",
                                    "LOGNAME",
                                    "SHELL",
                                    "LANG",
                                    "LANGUAGE",
                                    "TZ",
                                    "http_proxy",
                                    "https_proxy",
                                    "no_proxy",
                                    "all_proxy",
                                    "HTTP_PROXY",
                                    "HTTPS_PROXY",
                                    "NO_PROXY",
                                    "ALL_PROXY",
                                    "SSL_CERT_FILE",
                                    "SSL_CERT_DIR",
                                    "REQUESTS_CA_BUNDLE",
                                    "CURL_CA_BUNDLE"};

// Variables that a launcher sets for its own ranks, and that a shell or systemd sets for this process. "*" leaves them
// out: a worker is a rank of its attempt and of nothing else. The attempt sets some of them anew.
const char* const own_to_a_process[] = {
    "RANK",
    "LOCAL_RANK",
    "NODE_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "CROSS_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "CROSS_SIZE",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TF_CONFIG",
    "RTRAIN_*",
    "TORCHELASTIC_*",
    "SLURM_*",
    "OMPI_*",
    "PMI_*",
    "PMIX_*",
    "MV2_*",
    "MPI_LOCAL*",
    "HOROVOD_*",
    "CUDA_VISIBLE_DEVICES",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "NOTIFY_SOCKET",
    "WATCHDOG_*",
    "LISTEN_*",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
};

bool is_named(const std::string& name, const std::string& pattern) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

}  // namespace

Environment passed_on(const Environment& own, const std::vector<std::string>& more) {
    Environment out;
    for (const auto& [name, value] : own) {
        const auto names_it = [&](const std::string& pattern) {
            return is_named(name, pattern) &&
                   (pattern != "*" || std::ranges::none_of(own_to_a_process, [&](const std::string& left_out) {
                        return is_named(name, left_out);
                    }));
        };
        if (is_named(name, "LC_*") || std::ranges::any_of(passed_names, names_it) ||
            std::ranges::any_of(more, names_it))
            out[name] = value;
    }
    return out;
}

std::string wrong_pass_env(const std::string& name) {
    const std::string bare = name.ends_with('*') ? name.substr(0, name.size() - 1) : name;
    if (name.empty() || name.find_first_of("=* \t") < bare.size())
        return "\"" + name + "\" is not the name of a variable, nor the beginning of names with a * behind it";
    for (const char* own : {"RTRAIN_", "TORCHELASTIC_"})
        if (bare.starts_with(own)) return name + " is rtrain's own: each attempt gets its values from its agent";
    return {};
}

std::string attempt_text(const Prepare& prepare, std::uint32_t number) {
    return prepare.run_id + "-a" + std::to_string(number);
}

namespace {

// Returns the workers whose devices `worker` sees: all of the node if each has one whole device, otherwise itself
// alone.
std::vector<LaunchWorker> shown_workers(const Launch& launch, const LaunchWorker& worker) {
    const auto one_whole = [](const LaunchWorker& launched) {
        return launched.gpus.size() == 1 && (launched.gpu_ticks.empty() || launched.gpu_ticks[0] == Amount::per_unit);
    };
    std::vector<LaunchWorker> shown{worker};
    if (std::all_of(launch.workers.begin(), launch.workers.end(), one_whole)) {
        shown = launch.workers;
        std::sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.local_rank < b.local_rank; });
    }
    return shown;
}

// Returns a worker's own devices, as their places among the visible ones.
std::string own_devices(const Launch& launch, const LaunchWorker& worker) {
    std::string list;
    std::size_t place = 0;
    for (const LaunchWorker& shown : shown_workers(launch, worker))
        for (std::size_t i = 0; i < shown.gpus.size(); ++i, ++place)
            if (shown.rank == worker.rank) list += (list.empty() ? "" : ",") + text(place);
    return list;
}

}  // namespace

std::string visible_devices(const Launch& launch, const LaunchWorker& worker, const std::vector<std::string>& names) {
    std::string list;
    for (const LaunchWorker& shown : shown_workers(launch, worker))
        for (const std::uint32_t device : shown.gpus)
            list += (list.empty() ? "" : ",") + (device < names.size() ? names[device] : std::to_string(device));
    return list;
}

Environment worker_environment(const Prepare& prepare, const Launch& launch, const LaunchWorker& worker,
                               const spec::Job& job, const WorkerPlace& place) {
    const Facts facts{prepare, launch, worker, job, place};
    Environment all;
    for (const auto& [name, value] : place.inherited)
        if (!name.starts_with("RTRAIN_") && !name.starts_with("TORCHELASTIC_")) all[name] = value;
    for (const Variable& variable : defaults)
        if (!all.contains(variable.name)) set(all, variable.name, variable.value(facts));
    if (!job.network_interface.empty())
        for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) all[name] = job.network_interface;
    set(all, "TMPDIR", place.tmpdir);
    if (!place.tool_path.empty()) all["PATH"] = place.tool_path;
    for (const auto& [name, value] : launch.secrets) all[name] = value;
    for (const auto& [name, value] : job.env) all[name] = value;
    for (const Variable& variable : fixed) set(all, variable.name, variable.value(facts));
    for (const auto& [name, value] : framework_environment(prepare, launch, worker, job)) set(all, name.c_str(), value);
    const bool any_gpu = std::any_of(launch.workers.begin(), launch.workers.end(),
                                     [](const LaunchWorker& launched) { return !launched.gpus.empty(); });
    if (any_gpu)
        all["CUDA_VISIBLE_DEVICES"] = visible_devices(launch, worker, place.devices);
    else if (!job.env.contains("CUDA_VISIBLE_DEVICES"))
        all["CUDA_VISIBLE_DEVICES"] = "";  // without an assigned device, none is visible
    return all;
}

}  // namespace rtrain::agent
