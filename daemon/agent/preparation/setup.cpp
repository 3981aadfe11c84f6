// Runs a job's setup. A setup that was interrupted by the agent's death has no `done` and starts again.
#include "daemon/agent/preparation/setup.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "daemon/agent/preparation/unused.hpp"
#include "daemon/agent/workers/become_user.h"
#include "daemon/agent/workers/entrypoint.hpp"
#include "daemon/agent/workers/user_rights.hpp"
#include "daemon/security/security.hpp"
#include "storage/job_spec/job.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;

constexpr int look_every_ms = 200;
constexpr std::int64_t count_every_ms = 1'000;  // minimum interval; also at least ten times the duration of a count
constexpr std::size_t tail_bytes = 2'000, tail_lines = 8;

// Makes a virtual environment that also sees the packages of its interpreter, even if that is in a virtual environment
// too. Uses the interpreter's pip if it has one.
constexpr const char* make_venv = R"py(
import os, site, sys, sysconfig, venv
place = sys.argv[1]
try:
    import pip
    bring_pip = False
except ImportError:
    bring_pip = True
try:
    venv.EnvBuilder(system_site_packages=True, with_pip=bring_pip, symlinks=True).create(place)
except Exception as error:
    if not bring_pip:
        raise
    print("no pip:", error)
    venv.EnvBuilder(system_site_packages=True, with_pip=False, symlinks=True, clear=True).create(place)
beneath = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")] + site.getsitepackages()
lines = "".join("; site.addsitedir(%r)" % p for p in dict.fromkeys(beneath) if os.path.isdir(p))
packages = os.path.join(place, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
with open(os.path.join(packages, "_beneath.pth"), "w") as out:
    out.write("import site" + lines + "\n")
if not bring_pip:
    for name in ("pip", "pip3"):
        script = os.path.join(place, "bin", name)
        with open(script, "w") as out:
            out.write("#!/bin/sh\nexec '%s/bin/python' -m pip \"$@\"\n" % place)
        os.chmod(script, 0o755)
)py";

struct Command {
    std::vector<std::string> program;
    std::map<std::string, std::string> environment;
    std::string directory, log_file, cgroup;
    WorkerUser user{};
    bool allow_setuid = false;
};

struct Ending {
    std::string why;  // empty: exit code 0
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

// Turns the child into the command, as its user. Between fork and exec: system calls only.
[[noreturn]] void exec_as_user(const Command& command, const char* program, char** arguments, char** environment,
                               int log, int group) {
    ::setsid();
    // Without it the process group alone ends the command.
    if (group >= 0 && ::write(group, "0", 1) < 0) ::close(group);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(log, 1);
    ::dup2(log, 2);
    const auto gid = static_cast<gid_t>(command.user.gid);
    if (command.user.uid >= 0 && ::setgroups(1, &gid) != 0) ::_exit(126);
    if (::become_user(command.user.uid, command.user.gid, command.allow_setuid ? 1 : 0) != 0) ::_exit(126);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the agent; the next agent starts the setup again
    ::closefrom(3);
    if (::chdir(command.directory.c_str()) != 0) ::_exit(126);
    ::execve(program, arguments, environment);
    ::_exit(127);
}

std::string ended_as(int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    if (WIFEXITED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
    return "was killed by signal " + std::to_string(WTERMSIG(status));
}

std::int64_t steady_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// The conditions that end the commands of a setup.
struct Bounds {
    std::int64_t deadline_ms = 0, bytes_most = 0;
    const std::atomic<bool>& cancelled;
    std::string place{};  // the directory whose bytes are counted
    std::int64_t next_count_ms = 0;
};

// Returns why the setup must end; empty if it may continue.
std::string why_end(Bounds& bounds) {
    if (bounds.cancelled) return "was given up";
    const std::int64_t now = steady_ms();
    if (now > bounds.deadline_ms) return "took longer than it may";
    if (now < bounds.next_count_ms) return "";
    const std::int64_t bytes = storage::bytes_below(bounds.place), took = steady_ms() - now;
    bounds.next_count_ms = now + std::max<std::int64_t>(count_every_ms, 10 * took);
    if (bytes <= bounds.bytes_most) return "";
    return "has made more than " + std::to_string(bounds.bytes_most >> 20) +
           " MiB, which is what a setup may have on the disk of this node now";
}

// Waits for the child. Kills its whole group when a bound is exceeded.
std::string wait_for(pid_t child, Bounds& bounds) {
    const int watched = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
    std::string why;
    for (;;) {
        pollfd readable{.fd = watched, .events = POLLIN, .revents = 0};
        siginfo_t ended{};
        if (::poll(&readable, 1, look_every_ms) > 0) break;
        if (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
            break;  // the kernel returned no descriptor to wait on
        if (why = why_end(bounds); !why.empty()) break;
    }
    ::kill(-child, SIGKILL);  // also kills processes that the command left behind
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    ::close(watched);
    return why.empty() ? ended_as(status) : why;
}

Ending run_command(const Command& command, Bounds& bounds) {
    const int log = ::open(command.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (log < 0) return {"cannot write " + command.log_file + ": " + std::strerror(errno)};
    std::vector<std::string> program = command.program, words;
    for (const auto& [name, value] : command.environment) words.push_back(name + "=" + value);
    const std::vector<char*> arguments = pointers(program), environment = pointers(words);
    const storage::Descriptor group(
        command.cgroup.empty() ? -1 : ::open((command.cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    const pid_t child = ::fork();
    if (child == 0)
        exec_as_user(command, program.front().c_str(), const_cast<char**>(arguments.data()),
                     const_cast<char**>(environment.data()), log, group.number());
    ::close(log);
    if (child < 0) return {std::string("cannot be started: ") + std::strerror(errno)};
    return {wait_for(child, bounds)};
}

void append_line(const std::string& log_file, const std::string& line) {
    const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (log < 0) return;
    const std::string text = line + "\n";
    // The line is for people; an error does not matter.
    if (::write(log, text.data(), text.size()) < 0) static_cast<void>(errno);
    ::close(log);
}

std::string last_lines(const std::string& log_file) {
    auto text = read_whole(log_file);
    if (!text || text->empty()) return "";
    std::string tail = text->size() > tail_bytes ? text->substr(text->size() - tail_bytes) : *text;
    while (!tail.empty() && tail.back() == '\n') tail.pop_back();
    std::size_t begin = tail.size();
    for (std::size_t lines = 0; lines < tail_lines && begin != std::string::npos && begin > 0; ++lines)
        begin = tail.rfind('\n', begin - 1);
    return begin == std::string::npos || begin == 0 ? tail : tail.substr(begin + 1);
}

// Removes a setup after renaming it, since a process that an earlier command left may still write there and disturb the
// removal. The next check for unused files removes the rest.
void discard(const std::string& place) {
    const fs::path path = place;
    const std::string gone =
        (path.parent_path() / (gone_prefix + path.filename().string() + "-" + security::random_hex(8))).string();
    if (::rename(place.c_str(), gone.c_str()) == 0) remove_tree(gone);
}

// Gives `tree` to the user. The tree is walked by names, so no process of the user may be able to reach it yet.
Status give_to(const WorkerUser& user, const std::string& tree) {
    if (::chmod(tree.c_str(), 0700) != 0) return Error{ErrorCode::io, "closing " + tree + " to other users", ""};
    if (user.uid < 0) return Done{};
    const auto uid = static_cast<uid_t>(user.uid);
    const auto gid = static_cast<gid_t>(user.gid);
    std::error_code failed;
    bool given = ::lchown(tree.c_str(), uid, gid) == 0;
    for (const auto& entry : fs::recursive_directory_iterator(tree, failed))
        given = ::lchown(entry.path().c_str(), uid, gid) == 0 && given;
    if (given && !failed) return Done{};
    return Error{ErrorCode::io, "giving " + tree + " to user " + user.name, ""};
}

// Makes the place. It is closed to others until all of it has its owner.
Status make_place(const SetupOrder& order, const std::string& place) {
    discard(place);
    if (Status status = make_directory(fs::path(place).parent_path(), 0711); !status) return status;
    if (::mkdir(place.c_str(), 0700) != 0)
        return Error{ErrorCode::io, "making " + place + ": " + std::strerror(errno), ""};
    const Status work = order.code_archive.empty() ? make_directory(place + "/work", 0700)
                                                   : spec::unpack_archive(order.code_archive, place + "/work");
    if (!work) return work;
    if (Status status = make_directory(place + "/venv", 0700); !status) return status;
    for (const char* name : {"/work", "/venv"})
        if (Status given = give_to(order.user, place + name); !given) return given;
    if (::chmod(place.c_str(), 0711) != 0) return Error{ErrorCode::io, "opening " + place + " to its user", ""};
    return Done{};
}

std::string path_of(const SetupOrder& order) {
    for (const auto* names : {&order.variables, &order.inherited})
        if (const auto path = names->find("PATH"); path != names->end()) return path->second;
    return "/usr/local/bin:/usr/bin:/bin";
}

std::map<std::string, std::string> environment_of(const SetupOrder& order) {
    std::map<std::string, std::string> out = order.variables;
    for (const auto& [name, value] : order.inherited)
        if (!name.starts_with("RTRAIN_") && !name.starts_with("PYTHON")) out.insert({name, value});
    out["PATH"] = path_of(order);
    out.insert({"PIP_DISABLE_PIP_VERSION_CHECK", "1"});
    for (const auto& [name, value] : user_variables(order.user))
        if (!order.variables.contains(name)) out[name] = value;
    return out;
}

// Reads the result with the user's rights, since the user may have replaced venv/bin/python.
SetupResult result_of(const SetupOrder& order, const std::string& place) {
    SetupResult out{.why = "", .working_dir = place + "/work", .virtual_env = place + "/venv"};
    const UserRights rights(order.user);
    const UserRights::Worn worn(rights);
    std::error_code unseen;
    if (!worn.taken() || !fs::exists(out.virtual_env + "/bin/python", unseen)) out.virtual_env.clear();
    return out;
}

// Finds the interpreter. PATH may be the job's, so its folders are read with the user's rights.
std::string interpreter_of(const SetupOrder& order) {
    const UserRights::Worn worn(UserRights(order.user));
    return worn.taken() ? program_on_path(order.interpreter, path_of(order)) : "";
}

std::string key_of_layout(const std::string& layout, const SetupOrder& order) {
    std::string text = layout + "\n" + order.command + '\0' + order.code_sha256 + '\0' + interpreter_of(order) + '\0' +
                       std::to_string(order.user.uid);
    for (const auto& [name, value] : order.variables) text += '\0' + name + "=" + value;
    return security::sha256_hex(text).substr(0, 32);
}

}  // namespace

std::string setup_key(const SetupOrder& order) { return key_of_layout("2", order); }
std::string former_setup_key(const SetupOrder& order) { return key_of_layout("1", order); }

std::optional<SetupResult> kept_setup(const std::string& setups_dir, const SetupOrder& order) {
    const std::string place = setups_dir + "/" + setup_key(order);
    const std::lock_guard lock(setups_mutex);
    std::error_code unseen;
    if (!fs::exists(place + "/done", unseen)) return std::nullopt;
    used_now(place + "/done");
    return result_of(order, place);
}

SetupResult carry_out(const std::string& setups_dir, const SetupOrder& order, const SetupBounds& given,
                      const std::atomic<bool>& cancelled) {
    if (auto kept = kept_setup(setups_dir, order)) {
        append_line(order.log_file, "setup: done before on this node, kept in " + setups_dir + "/" + setup_key(order));
        return *kept;
    }
    const std::string place = setups_dir + "/" + setup_key(order);
    if (Status status = make_place(order, place); !status) {
        discard(place);
        return {.why = status.error().message};
    }
    Bounds bounds{.deadline_ms = steady_ms() + given.patience_ms,
                  .bytes_most = given.bytes_most,
                  .cancelled = cancelled,
                  .place = place};
    Command command{.program = {},
                    .environment = environment_of(order),
                    .directory = place + "/work",
                    .log_file = order.log_file,
                    .cgroup = order.cgroup,
                    .user = order.user,
                    .allow_setuid = order.allow_setuid};
    const auto failed = [&](const std::string& what, const std::string& why) {
        const std::string tail = last_lines(order.log_file);
        discard(place);
        return SetupResult{.why = what + " " + why + (tail.empty() ? "" : "; its last lines:\n" + tail)};
    };
    const std::string python = interpreter_of(order);
    if (python.empty()) {
        append_line(order.log_file,
                    "setup: there is no " + order.interpreter + " here, so there is no virtual environment");
    } else {
        command.program = {python, "-c", make_venv, place + "/venv"};
        if (const Ending ending = run_command(command, bounds); !ending.why.empty())
            return failed("making a virtual environment over " + python, ending.why);
        command.environment["VIRTUAL_ENV"] = place + "/venv";
        command.environment["PATH"] = place + "/venv/bin:" + path_of(order);
    }
    command.program = {"/bin/sh", "-c", order.command};
    if (const Ending ended = run_command(command, bounds); !ended.why.empty())
        return failed("`" + order.command + "`", ended.why);
    if (Status kept = write_whole(place + "/done", order.command + "\n", 0600, Durable::yes); !kept)
        return failed("keeping the mark that it is done", kept.error().message);
    return result_of(order, place);
}

}  // namespace rtrain::agent
