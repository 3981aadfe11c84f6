// Outputs towards workers: their start, their words.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/staged_files.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/hardware/affinity.hpp"
#include "daemon/agent/hardware/nvidia_nodes.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/service.hpp"
#include "daemon/agent/workers/entrypoint.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "daemon/agent/workers/stacks.hpp"
#include "daemon/agent/workers/user_rights.hpp"
#include "daemon/security/security.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;
constexpr std::int64_t scratch_every_ms = 5'000;

// Rank 0 hosts the rendezvous store. A rank that dials it before it listens is sent away and, with PyTorch's store,
// comes again only after half a second and more: so rank 0 gets a little lead, and the whole gang starts sooner.
constexpr std::int64_t rendezvous_lead_ms = 100;

// The network card that has this address; empty: none, or not a numeric IPv4 address.
std::string interface_of(const std::string& address) {
    in_addr wanted{};
    ifaddrs* all = nullptr;
    if (::inet_pton(AF_INET, address.c_str(), &wanted) != 1 || ::getifaddrs(&all) != 0) return {};
    std::string name;
    for (const ifaddrs* one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
        const auto* at = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
        if (at->sin_addr.s_addr == wanted.s_addr) name = one->ifa_name;
    }
    ::freeifaddrs(all);
    return name;
}

// `python` is the job's interpreter, also where the system has only `python3`. Returns the PATH of the workers.
std::string path_with_python(const std::string& path, const std::string& interpreter, const std::string& tools) {
    std::string python = program_on_path(interpreter, path);
    if (python.empty() && program_on_path("python", path).empty()) python = program_on_path("python3", path);
    if (python.empty() || (interpreter == "python3" && !program_on_path("python", path).empty())) return path;
    const std::string script = "#!/bin/sh\nexec '" + python + "' \"$@\"\n";
    if (python.find('\'') != std::string::npos || !make_directory(tools, 0755)) return path;
    if (!write_whole(tools + "/python", script, 0755, Durable::no)) return path;
    return tools + ":" + path;
}

std::string run_path_of(const AttemptGear& gear) {
    if (gear.store->local()) return gear.store->local_path(gear.prepare.run_name);
    const std::string& storage = gear.prepare.storage_path;
    return (storage.empty() || storage.ends_with('/') ? storage : storage + "/") + gear.prepare.run_name;
}

json ranks_by_node(const protocol::Prepare& prepare) {
    json out = json::object();
    for (const protocol::PeerNode& node : prepare.nodes) out[node.node] = node.ranks;
    return out;
}

}  // namespace

Status Service::listen_to_workers() {
    auto workers = WorkerServer::listen(loop_, socket_path_, [this](Input input) { feed(std::move(input)); });
    if (!workers) return workers.error();
    workers_ = std::move(*workers);
    workers_->answer_readers([this](AttemptKey key, std::uint32_t rank) { return welcome_of(key, rank); });
    return Done{};
}

void Service::admit(AttemptKey key, const Held& one) {
    WorkerIdentity identity{.attempt = key, .key = one.gear->key, .uid = one.gear->user.uid};
    for (const protocol::LaunchWorker& worker : one.launch.workers) identity.ranks.insert(worker.rank);
    identity.holder_file = [this, key](std::uint32_t rank) { return files_.worker(key, rank) + "/holder"; };
    workers_->admit(attempt_text(one.gear->prepare, one.number), std::move(identity));
}

void Service::on(const StartWorkers& out) {
    const AttemptKey key = key_of(out.launch.attempt);
    Held* one = held(key);
    if (!one) return;
    one->launch = out.launch;
    one->launch.secrets.clear();
    one->number = out.launch.attempt.number;
    measure_scratch();
    admit(key, *one);
    std::vector<std::uint32_t> ranks;
    for (const protocol::LaunchWorker& worker : out.launch.workers) ranks.push_back(worker.rank);
    if (!inventory_.devices.empty() && ::geteuid() == 0)  // its modules may be there since a moment ago
        if (Status made = make_nvidia_nodes("/proc", "/dev"); !made) warn(made.error().message);
    Status ready = make_directory(files_.logs(key), 0711);
    const auto logs_max = static_cast<std::uint64_t>(one->gear->job.logs_max_bytes);
    if (ready) logs_->follow(out.launch.attempt, ranks, logs_max);
    Held with_secrets = *one;
    with_secrets.launch = out.launch;
    for (const protocol::LaunchWorker& worker : out.launch.workers) {
        if (ready) ready = start_worker(with_secrets, worker);
        if (!ready)
            feed(WorkerEnded{
                key,
                worker.rank,
                {.exit_code = 126, .never_started = true, .detail = identity_.node + ": " + ready.error().message},
                wall_ms() * 1000});
    }
}

Status Service::start_worker(const Held& one, const protocol::LaunchWorker& worker) {
    const AttemptGear& gear = *one.gear;
    const AttemptKey key = key_of(gear.prepare.attempt);
    WorkerStart start{.attempt = key,
                      .rank = worker.rank,
                      .directory = files_.worker(key, worker.rank),
                      .out = files_.log(key, worker.rank, "out"),
                      .err = files_.log(key, worker.rank, "err"),
                      .user = gear.user,
                      .wait_ms = worker.rank == 0 ? 0 : rendezvous_lead_ms,
                      .program = gear.job.entrypoint,
                      .allow_setuid = options_.allow_setuid};
    if (!gear.job.setup.empty() && !gear.setup)
        return Error{ErrorCode::not_found, "what setup: made is no longer there", "the next attempt makes it anew"};
    if (Status made = make_directory(start.directory, 0711); !made) return made;
    auto cwd = start_directory(gear, facts(), worker.rank);
    if (!cwd) return cwd.error();
    start.cwd = *cwd;
    if (Status made = make_scratch(files_.scratch(key), gear.user); !made) return made;
    const WorkerPlace place = place_of(one, start);
    {
        const UserRights::Worn worn(UserRights(gear.user));  // venv/bin is the user's
        if (worn.taken()) start.program = without_shell_layer(std::move(start.program), place.tool_path);
    }
    start.environment = worker_environment(gear.prepare, one.launch, worker, gear.job, place);
    if (gear.setup && !gear.setup->virtual_env.empty()) start.environment["VIRTUAL_ENV"] = gear.setup->virtual_env;
    for (const auto& [name, value] : user_variables(gear.user))
        if (!gear.job.env.contains(name)) start.environment[name] = value;
    start.processors =
        processor_list(processors_for(gear.job.cpu_affinity, worker, one.launch.workers.size(), inventory_));
    if (cgroups_)
        if (const auto group = cgroups_->make(key)) start.cgroup = *group;
    launcher_->start(start);
    return Done{};
}

// Where the worker finds what it is told of in its environment.
WorkerPlace Service::place_of(const Held& one, const WorkerStart& start) const {
    const AttemptGear& gear = *one.gear;
    const AttemptKey key = start.attempt;
    WorkerPlace place{.node = identity_.node,
                      .run_path = run_path_of(gear),
                      .socket = socket_path_,
                      .key = gear.key,
                      .worker_library = worker_library_,
                      .scratch = files_.scratch(key),
                      .working_dir = gear.setup ? gear.working_dir : "",
                      .start_dir = start.cwd,
                      .code_list = start.directory + code_list_name,
                      .error_file = start.cwd + "/.torchelastic-error.json",
                      .driver_file = gear.driver_file.empty() ? "" : files_.driver(key),
                      .head_address = host_port(identity_),
                      .head_ca = identity_.ca,
                      .inherited = inherited_};
    for (const GpuDevice& device : inventory_.devices)
        place.devices.push_back(device.fake || device.uuid.empty() ? std::to_string(place.devices.size())
                                                                   : device.uuid);
    for (const protocol::PeerNode& node : gear.prepare.nodes)
        if (node.node == identity_.node) place.interface = interface_of(node.address);
    const auto path = inherited_.find("PATH");
    place.tool_path = path == inherited_.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
    const std::string venv = gear.setup ? gear.setup->virtual_env : "";
    if (!venv.empty()) place.tool_path = venv + "/bin:" + place.tool_path;  // it has a `python`
    if (venv.empty())
        place.tool_path = path_with_python(place.tool_path, gear.job.interpreter, files_.attempt(key) + "/bin");
    return place;
}

// As long as there are attempts: a walk over their scratch directories, on the pool, with a pause after it.
void Service::measure_scratch() {
    if (options_.scratch_quota <= 0 || measuring_scratch_ || held_.empty()) return;
    measuring_scratch_ = true;
    std::map<AttemptKey, std::string> places;
    for (const auto& [key, one] : held_) places[key] = files_.scratch(key);
    offload(
        [places] {
            ScratchMeasured measured;
            for (const auto& [key, place] : places) measured.bytes[key] = storage::bytes_below(place);
            return measured;
        },
        [](const Error&) { return ScratchMeasured{}; },
        [this](ScratchMeasured measured) {
            feed(std::move(measured));
            loop_.after(scratch_every_ms, [this] {
                measuring_scratch_ = false;
                measure_scratch();
            });
        });
}

void Service::on(const SignalWorker& out) { launcher_->signal(out.attempt, out.rank, out.signal); }

void Service::on(const DumpStacks& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    for (const std::uint32_t rank : out.ranks)
        loop_.offload([target = StackTarget{.attempt = attempt_text(one->gear->prepare, one->number),
                                            .node = identity_.node,
                                            .rank = rank,
                                            .log = files_.log(out.attempt, rank, "err"),
                                            .why = out.why}] { ask_for_stacks(target); },
                      [] {});
}

std::string Service::context_json(const Held& one, std::uint32_t rank) const {
    const protocol::Prepare& prepare = one.gear->prepare;
    std::uint32_t local_rank = 0;
    for (const protocol::LaunchWorker& worker : one.launch.workers)
        if (worker.rank == rank) local_rank = worker.local_rank;
    json context{{"run_id", prepare.run_id},
                 {"run_name", prepare.run_name},
                 {"attempt", one.number},
                 {"reports_before", one.begin.reports_before},
                 {"world_rank", rank},
                 {"world_size", prepare.world_size},
                 {"local_rank", local_rank},
                 {"local_world_size", one.launch.workers.size()},
                 {"node_rank", one.launch.node_rank},
                 {"node", identity_.node},
                 {"storage_path", prepare.storage_path},
                 {"run_path", run_path_of(*one.gear)},
                 {"user", prepare.user},
                 {"checkpoint_upload", one.gear->job.upload},
                 {"scratch_dir", files_.scratch(key_of(prepare.attempt))},
                 {"world_ranks_by_node", ranks_by_node(prepare)}};
    if (prepare.workers_before > 0) {
        context["previous_world_size"] = prepare.workers_before;
        context["previous_end"] = prepare.ended_before;
    }
    return context.dump();
}

std::optional<worker::Welcome> Service::welcome_of(AttemptKey key, std::uint32_t rank) {
    const Held* one = held(key);
    if (!one) return std::nullopt;
    worker::Welcome welcome{.context_json = context_json(*one, rank)};
    if (!one->begin.checkpoint_path.empty())
        welcome.checkpoint = worker::ResumeFrom{.path = one->begin.checkpoint_path,
                                                .directory = one->launch.from,
                                                .metrics_json = one->begin.checkpoint_metrics};
    return welcome;
}

void Service::on(const WelcomeWorker& out) {
    auto welcome = welcome_of(out.attempt, out.rank);
    if (!welcome) return;
    welcome->next_index = out.next_index;
    welcome->next_broadcast = out.next_broadcast;
    const Held* one = held(out.attempt);
    std::set<std::uint32_t> ranks;
    for (const protocol::LaunchWorker& worker : one->launch.workers) ranks.insert(worker.rank);
    const bool alone = ranks.size() == one->gear->prepare.world_size && one->gear->job.stop.empty();
    workers_->welcome(out.attempt, out.rank, *welcome, ranks, alone ? Rounds::by_ranks : Rounds::by_agent);
}

void Service::on(const ToWorker& out) { workers_->send(out.attempt, out.rank, out.message); }

// What a worker names as its files is moved, and removed, by an agent that may be root: a directory that the agent did
// not make for this rank is nobody's checkpoint. The barrier stays whole.
void Service::refuse_foreign_stage(WorkerSaid& said) {
    auto* report = std::get_if<worker::Report>(&said.message);
    if (!report || !report->checkpoint) return;
    const Held* one = held(said.attempt);
    if (one && is_stage_of(*one->gear, said.rank, report->checkpoint->path)) return;
    report->checkpoint_error = "rank " + std::to_string(said.rank) + " names '" + report->checkpoint->path +
                               "' as its checkpoint, which is not a directory that " + identity_.node +
                               " made for it; give report() a Checkpoint, and it is copied";
    report->error_reason = "storage_refused";
    report->checkpoint.reset();
}

// The rank waits for it within its report, and a storage may hang: neither this thread nor uploads keep it waiting.
void Service::on(const MakeStage& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    offload_at(
        apart_from_uploads(one->gear->prepare.storage_path),
        [gear = one->gear, rank = out.rank, unique = security::random_hex(16), expected = one->staged_bytes] {
            return make_stage(*gear, rank, unique, expected);
        },
        [this, out, gear = one->gear](const Result<std::string>& place) {
            if (!held(out.attempt))  // it ended meanwhile, and what it had staged is removed
                return loop_.offload_at(gear->prepare.storage_path, [gear] { drop_staging(*gear); }, [] {});
            if (!place)
                warn("no staging directory for rank " + std::to_string(out.rank) + ": " + place.error().message);
            worker::Staged staged{.path = place ? *place : ""};
            if (!place) {
                staged.error = identity_.node + ": " + place.error().message;
                staged.reason = storage_reason(place.error().code);
            }
            workers_->send(out.attempt, out.rank, staged);
        });
}

}  // namespace rtrain::agent
