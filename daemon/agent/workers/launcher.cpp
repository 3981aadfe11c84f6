// Starts shims, which are children of the agent. The agent watches their descriptors and never blocks on them.
#include "daemon/agent/workers/launcher.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/write_all.hpp"
#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/hardware/processes.hpp"
#include "daemon/agent/workers/rank_memory.hpp"
#include "daemon/agent/workers/stop_signal.hpp"

namespace rtrain::agent {
namespace {

constexpr int ready_descriptor = 3, variables_descriptor = 4;  // descriptors of the shim

int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
void pidfd_kill(int pidfd) { ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

std::int64_t number(const std::map<std::string, std::string>& values, const char* name) {
    const auto entry = values.find(name);
    return entry == values.end() ? 0 : std::strtoll(entry->second.c_str(), nullptr, 10);
}

// Returns the process under `pid_name` in a worker's `started` file, with its start time.
ProcessId process_in(const std::map<std::string, std::string>& started, const char* pid_name, const char* start_name) {
    return {.pid = number(started, pid_name), .start = static_cast<std::uint64_t>(number(started, start_name))};
}

bool worker_still_runs(const std::map<std::string, std::string>& started) {
    const auto boot = started.find("boot_id");
    if (boot == started.end() || boot->second != this_boot()) return false;
    const ProcessId worker = process_in(started, "pid", "start_time");
    return worker.start != 0 && process_of(worker.pid) == worker;
}

// Returns true if the pid in the file still belongs to the shim. Pids are reused, in a restarted container even the
// same ones. Shims of older agents did not record their start times.
bool shim_is_meant(const std::map<std::string, std::string>& started) {
    const ProcessId shim = process_in(started, "shim", "shim_start_time");
    return shim.start == 0 ? worker_still_runs(started) : process_of(shim.pid) == shim;
}

std::int64_t wall_us() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

struct Pointers {  // pointers for exec; valid as long as the texts
    std::vector<std::string> texts;
    std::vector<char*> pointers;
    void close() {
        for (std::string& text : texts) pointers.push_back(text.data());
        pointers.push_back(nullptr);
    }
};

std::string assignment_of(const WorkerStart& w, const std::string& name) {
    const auto entry = w.environment.find(name);
    return name + "=" + (entry == w.environment.end() ? "" : entry->second);
}

Pointers arguments_of(const WorkerStart& w) {
    Pointers out;
    out.texts = {"rtrain",
                 "__shim",
                 w.directory,
                 w.out,
                 w.err,
                 w.cwd,
                 std::to_string(w.user.uid),
                 std::to_string(w.user.gid),
                 w.user.name,
                 std::to_string(w.wait_ms),
                 w.allow_setuid ? "allow-setuid" : "no-setuid",
                 assignment_of(w, "RTRAIN_ATTEMPT"),
                 assignment_of(w, "RTRAIN_NODE"),
                 "--"};
    out.texts.insert(out.texts.end(), w.program.begin(), w.program.end());
    out.close();
    return out;
}

struct Handed {  // descriptors for the shim, numbered above their final places
    int ready = -1, variables = -1;
};

// Starts the shim. Returns its pid, or -errno. It inherits only the two descriptors and no environment, since it runs
// as root if the agent does.
pid_t spawn_shim(const std::string& program, const WorkerStart& worker, const Handed& handed) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, handed.ready, ready_descriptor);
    ::posix_spawn_file_actions_adddup2(&actions, handed.variables, variables_descriptor);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, variables_descriptor + 1);
    Pointers arguments = arguments_of(worker);
    char* nothing[] = {nullptr};
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.pointers.data(), nothing);
    ::posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? pid : -error;
}

// Returns the cause of a worker whose shim could not prepare the record of its end, and so did not start it.
ExitCause not_begun(const WorkerStart& worker, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    return {.exit_code = 126,
            .never_started = true,
            .detail = "the agent cannot write into " + worker.directory + ": " + std::strerror(error) +
                      (full ? "; make room on the file system of the agent's --data directory" : "")};
}

}  // namespace

int sealed_environment(const std::map<std::string, std::string>& environment) {
    std::string text;
    for (const auto& [name, value] : environment) text.append(name + "=" + value.c_str()).push_back('\0');
    const int memory = ::memfd_create("rtrain-environment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0) return -errno;
    int error = storage::write_all(memory, text);
    ::explicit_bzero(text.data(), text.size());
    constexpr int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    if (error == 0 && ::fcntl(memory, F_ADD_SEALS, all) == 0) return memory;
    if (error == 0) error = errno;
    ::close(memory);
    return -error;
}

void write_place(const WorkerStart& worker) {
    std::string text;
    if (!worker.cgroup.empty()) text += "cgroup " + worker.cgroup + "\n";
    if (!worker.processors.empty()) text += "processors " + worker.processors + "\n";
    if (text.empty()) return;
    const std::string file = worker.directory + "/place";
    if (!write_whole(file, text, 0600, Durable::no)) ::unlink(file.c_str());
}

struct Launcher::Child {
    WorkerStart worker;
    pid_t shim = -1;
    bool ours = true;  // a child of this process, which must reap it
    int pidfd = -1, ready = -1;
    std::int64_t pid = 0;
    ~Child() {
        if (pidfd >= 0) ::close(pidfd);
        if (ready >= 0) ::close(ready);
    }
};

Launcher::Launcher(net::Loop& loop, std::string shim, WorkerEvents events)
    : loop_(loop), shim_(std::move(shim)), events_(std::move(events)), memory_(memory_of_this_machine()) {}

Launcher::~Launcher() {
    for (auto& [name, child] : children_) {
        if (child->ready >= 0) loop_.unwatch(child->ready);
        if (child->pidfd >= 0) loop_.unwatch(child->pidfd);
    }
}

void Launcher::fail_start(const WorkerStart& worker, const std::string& why) {
    ExitCause cause{.exit_code = 126, .never_started = true, .detail = why};
    loop_.post([this, key = worker.attempt, rank = worker.rank, cause] { events_.ended(key, rank, cause, wall_us()); });
}

void Launcher::start(const WorkerStart& worker) {
    const Name name{worker.attempt, worker.rank};
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return fail_start(worker, std::string("the agent has no descriptor left: ") + std::strerror(errno));
    const int variables = sealed_environment(worker.environment);
    if (variables < 0) {
        ::close(ends[0]);
        ::close(ends[1]);
        return fail_start(worker,
                          std::string("the agent cannot hand over the environment: ") + std::strerror(-variables));
    }
    const Handed handed{.ready = ::fcntl(ends[1], F_DUPFD_CLOEXEC, variables_descriptor + 1),
                        .variables = ::fcntl(variables, F_DUPFD_CLOEXEC, variables_descriptor + 1)};
    write_place(worker);
    auto child = std::make_unique<Child>();
    child->worker = worker;
    child->worker.environment.clear();  // contains secrets, which are not kept in memory during the worker's life
    child->ready = ends[0];
    child->shim = handed.ready < 0 || handed.variables < 0 ? -EMFILE : spawn_shim(shim_, worker, handed);
    for (const int descriptor : {handed.ready, handed.variables, variables, ends[1]})
        if (descriptor >= 0) ::close(descriptor);
    if (child->shim < 0)
        return fail_start(worker, std::string("the shim could not be started: ") + std::strerror(-child->shim));
    child->pidfd = pidfd_open(child->shim);
    children_[name] = std::move(child);
    watch_start(name);
    watch_end(name);
}

void Launcher::watch_start(const Name& name) {
    loop_.watch_readable(children_[name]->ready, [this, name] {
        const auto entry = children_.find(name);
        if (entry == children_.end()) return;
        Child& child = *entry->second;
        char byte = 0;
        const bool started = ::read(child.ready, &byte, 1) == 1;
        loop_.unwatch(child.ready);
        ::close(std::exchange(child.ready, -1));
        if (!started) return;  // the record of its end has the reason
        child.pid = number(read_values(child.worker.directory + "/started"), "pid");
        events_.started(name.first, name.second, child.pid);
    });
}

void Launcher::watch_end(const Name& name) {
    const int pidfd = children_[name]->pidfd;
    if (pidfd < 0) return loop_.post([this, name] { over(name); });
    loop_.watch_readable(pidfd, [this, name] { over(name); });
}

void Launcher::over(const Name& name) {
    const auto entry = children_.find(name);
    if (entry == children_.end()) return;
    if (entry->second->ready >= 0) {  // if both descriptors became ready, the start is handled first
        Child& child = *entry->second;
        char byte = 0;
        const bool started = ::read(child.ready, &byte, 1) == 1;
        loop_.unwatch(child.ready);
        ::close(std::exchange(child.ready, -1));
        if (started) child.pid = number(read_values(child.worker.directory + "/started"), "pid");
        if (started) events_.started(name.first, name.second, child.pid);
    }
    const std::unique_ptr<Child> child = std::move(entry->second);
    children_.erase(entry);
    if (child->pidfd >= 0) loop_.unwatch(child->pidfd);
    int status = 0;
    const bool reaped = child->ours && child->shim > 0 && ::waitpid(child->shim, &status, WNOHANG) == child->shim;
    const auto values = read_values(child->worker.directory + "/exit");
    if (!values.empty()) {
        return events_.ended(name.first, name.second, cause_of_end(*child, values), number(values, "wall_us"));
    }
    const auto started = read_values(child->worker.directory + "/started");
    if (started.empty() && reaped && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return events_.ended(name.first, name.second, not_begun(child->worker, WEXITSTATUS(status)), wall_us());
    if (worker_still_runs(started))
        ::kill(static_cast<pid_t>(-number(started, "pid")), SIGKILL);  // kills its process group too
    const ExitCause cause{.signal = SIGKILL, .detail = "its shim (the worker's parent process) was killed"};
    events_.ended(name.first, name.second, cause, wall_us());
}

ExitCause Launcher::cause_of_end(const Child& child, const std::map<std::string, std::string>& exit) {
    ExitCause cause = cause_of_exit(exit, child.worker.program, child.worker.err);
    if (cause.success() || cause.never_started) return cause;
    const MemoryDeath death{.attempt = child.worker.attempt,
                            .pid = number(read_values(child.worker.directory + "/started"), "pid"),
                            .killed = cause.signal == SIGKILL || cause.exit_code == 128 + SIGKILL,
                            .directly = cause.signal == SIGKILL,
                            .peak_kib = number(exit, "rss_kib"),
                            .kills_in_group = events_.oom_kills(child.worker.attempt)};
    if (const auto evidence = memory_.explain(death)) {
        cause.out_of_memory = true;
        cause.detail = *evidence;
    } else if (const std::string other = memory_.meanwhile(death); !cause.signal && !other.empty()) {
        cause.detail += (cause.detail.empty() ? "" : "; ") + other;
    }
    return cause;
}

std::optional<std::int64_t> Launcher::adopt(AttemptKey attempt, std::uint32_t rank, const std::string& directory,
                                            const std::string& err) {
    const Name name{attempt, rank};
    const auto started = read_values(directory + "/started");
    auto child = std::make_unique<Child>();
    child->worker = {.attempt = attempt, .rank = rank, .directory = directory, .err = err};
    child->ours = false;
    child->pid = number(started, "pid");
    const bool ended = !read_values(directory + "/exit").empty();
    const bool same_boot = started.contains("boot_id") && started.at("boot_id") == this_boot();
    child->shim = static_cast<pid_t>(number(started, "shim"));
    if (!ended && same_boot) child->pidfd = pidfd_open(child->shim);
    if (child->pidfd >= 0 && !shim_is_meant(started)) ::close(std::exchange(child->pidfd, -1));
    children_[name] = std::move(child);
    watch_end(name);
    if (started.empty()) return std::nullopt;
    return number(started, "pid");
}

void Launcher::watch_forked(const WorkerStart& worker, pid_t sentinel) {
    const Name name{worker.attempt, worker.rank};
    const auto started = read_values(worker.directory + "/started");
    auto child = std::make_unique<Child>();
    child->worker = worker;
    child->worker.environment.clear();
    child->ours = false;
    child->pid = number(started, "pid");
    child->shim = sentinel;
    child->pidfd = pidfd_open(sentinel);
    if (child->pidfd >= 0 && !shim_is_meant(started)) ::close(std::exchange(child->pidfd, -1));
    const std::int64_t pid = child->pid;
    children_[name] = std::move(child);
    events_.started(name.first, name.second, pid);
    watch_end(name);
}

void Launcher::stop(AttemptKey attempt, std::uint32_t rank, const std::optional<ProcessId>& holder) {
    const auto entry = children_.find({attempt, rank});
    if (entry == children_.end()) return;
    const auto started = read_values(entry->second->worker.directory + "/started");
    if (worker_still_runs(started)) send_stop_signal(process_in(started, "pid", "start_time"), holder);
}

void Launcher::kill(AttemptKey attempt, std::uint32_t rank, Kill what) {
    const auto entry = children_.find({attempt, rank});
    if (entry == children_.end()) return;
    const auto started = read_values(entry->second->worker.directory + "/started");
    const std::int64_t pid = number(started, "pid");
    const auto below = what == Kill::descendants && worker_still_runs(started) ? processes_of_worker(pid)
                                                                               : std::vector<std::int64_t>{};
    if (worker_still_runs(started))
        ::kill(static_cast<pid_t>(-pid), SIGKILL);
    else if (started.empty() && entry->second->pidfd >= 0)
        pidfd_kill(entry->second->pidfd);  // the worker's pid is unknown; the worker dies with its shim
    for (const std::int64_t process : below) ::kill(static_cast<pid_t>(process), SIGKILL);
}

std::string end_of(const std::string& file, std::size_t most) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return {};
    std::string tail(most, '\0');
    const off_t end = ::lseek(descriptor, 0, SEEK_END);
    const ssize_t got =
        ::pread(descriptor, tail.data(), tail.size(), std::max<off_t>(0, end - static_cast<off_t>(most)));
    ::close(descriptor);
    tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return tail;
}

std::string last_line(const std::string& file) {
    std::string tail = end_of(file, 4096);
    while (!tail.empty() && std::strchr(" \t\r\n", tail.back())) tail.pop_back();
    const auto newline = tail.rfind('\n');
    return (newline == std::string::npos ? tail : tail.substr(newline + 1)).substr(0, 300);
}

// Looks for an address in use, in the words of libc, of Python's errno and of torch's TCPStore. The machine believes it
// before the first report only.
bool has_address_in_use(const std::string& err_file) {
    const std::string tail = end_of(err_file, 64 << 10);
    for (const char* values : {"Address already in use", "address already in use", "EADDRINUSE"})
        if (tail.find(values) != std::string::npos) return true;
    return false;
}

ExitCause cause_of_exit(const std::map<std::string, std::string>& values, const std::vector<std::string>& program,
                        const std::string& err_file) {
    ExitCause cause;
    const int error = static_cast<int>(number(values, "error"));
    if (values.contains("signal"))
        cause.signal = static_cast<std::int32_t>(number(values, "signal"));
    else
        cause.exit_code = static_cast<std::int32_t>(number(values, "code"));
    if (error != 0) {
        const std::string name = program.empty() ? "" : program.front();
        cause.never_started = true;
        cause.detail = error == ENOENT ? "the entrypoint '" + name + "' does not exist on this node"
                       : error == EACCES
                           ? "the entrypoint '" + name + "' may not be executed (permission denied)"
                           : "the entrypoint '" + name + "' could not be started: " + std::strerror(error);
        return cause;
    }
    if (cause.exit_code == 0) return cause;
    if (!cause.signal) cause.detail = last_line(err_file);
    cause.address_in_use = has_address_in_use(err_file);
    const bool of_shell = !program.empty() && (program.front() == "sh" || program.front() == "/bin/sh");
    const bool not_found = cause.exit_code == 127 && cause.detail.find("not found") != std::string::npos;
    const bool not_allowed = cause.exit_code == 126 && cause.detail.find("ermission denied") != std::string::npos;
    cause.never_started = of_shell && (not_found || not_allowed);
    return cause;
}

namespace {

// Returns true if the process carries both entries. A shim, and a worker before exec, have no environment, so their
// arguments are read.
bool carries(const std::string& process, const std::string& attempt_entry, const std::string& node_entry) {
    const auto environment = read_whole(process + "/environ");
    if (environment && has_entry(*environment, attempt_entry) && has_entry(*environment, node_entry)) return true;
    const auto arguments = read_whole(process + "/cmdline");
    return arguments && has_entry(*arguments, "__shim") && has_entry(*arguments, attempt_entry) &&
           has_entry(*arguments, node_entry);
}

}  // namespace

bool has_entry(const std::string& environment, const std::string& entry) {
    return ('\0' + environment).find('\0' + entry + '\0') != std::string::npos;
}

std::map<std::string, std::string> user_variables(const WorkerUser& user) {
    if (user.uid < 0) return {};
    return {{"HOME", user.home}, {"USER", user.name}, {"LOGNAME", user.name}};
}

std::size_t kill_strays(const std::string& attempt_text, const std::string& node) {
    const std::string attempt_entry = "RTRAIN_ATTEMPT=" + attempt_text, node_entry = "RTRAIN_NODE=" + node;
    std::size_t killed = 0;
    DIR* processes = ::opendir("/proc");
    if (!processes) return 0;
    while (const dirent* entry = ::readdir(processes)) {
        const long pid = std::strtol(entry->d_name, nullptr, 10);
        if (pid <= 1 || pid == ::getpid()) continue;
        if (!carries(std::string("/proc/") + entry->d_name, attempt_entry, node_entry)) continue;
        if (::kill(static_cast<pid_t>(pid), SIGKILL) == 0) ++killed;
    }
    ::closedir(processes);
    return killed;
}

}  // namespace rtrain::agent
