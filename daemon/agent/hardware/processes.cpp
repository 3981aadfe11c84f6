// Reads /proc/PID/stat: proc_pid_stat(5), /proc/PID/status: proc_pid_status(5), /proc/PID/task/TID/children:
// proc_tid_children(5).
#include "daemon/agent/hardware/processes.hpp"

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

constexpr std::size_t processes_most = 4'096, threads_most = 65'536;  // a job may make any number
constexpr std::size_t own_children_most = 256, own_threads_most = 64;
constexpr int depth_most = 1'024;

std::string proc(std::int64_t pid) { return "/proc/" + std::to_string(pid); }

void add_children(std::int64_t pid, std::vector<std::int64_t>& to, std::size_t most, std::size_t& threads_left) {
    std::error_code gone;
    for (std::filesystem::directory_iterator thread(proc(pid) + "/task", gone), end;
         !gone && thread != end && threads_left > 0; thread.increment(gone), --threads_left) {
        const auto text = read_whole(thread->path().string() + "/children");
        if (!text) continue;
        std::istringstream pids(*text);
        for (std::int64_t child = 0; to.size() < most && pids >> child;) to.push_back(child);
    }
}

struct Stat {
    char state = 'X';
    std::int64_t parent = 0;
    std::uint64_t start = 0;  // 0: there is no such process
    std::string name{};       // 15 bytes at most
};

// Fields 3, 4 and 22 of /proc/PID/stat. The second field, a name in brackets, may itself hold brackets and blanks.
Stat stat_of(std::int64_t pid) {
    constexpr int first_field = 5, start_field = 22;  // positions among the fields after the parent's pid
    Stat process;
    const auto text = read_whole(proc(pid) + "/stat");
    const auto name_begin = text ? text->find('(') : std::string::npos;
    const auto name_end = text ? text->rfind(')') : std::string::npos;
    if (name_begin == std::string::npos || name_end == std::string::npos) return process;
    std::istringstream values(text->substr(name_end + 1));
    std::string skipped;
    values >> process.state >> process.parent;
    for (int field = first_field; field < start_field; ++field) values >> skipped;
    if (!(values >> process.start)) return {};
    process.name = text->substr(name_begin + 1, name_end - name_begin - 1);
    return process;
}

// Returns the rest of a line of /proc/PID/status; empty if there is no such line.
std::string line_of(const std::string& status, const std::string& name) {
    const std::string begin = "\n" + name + ":";
    const auto at = status.find(begin);
    if (at == std::string::npos) return {};
    return status.substr(at + begin.size(), status.find('\n', at + 1) - at - begin.size());
}

// Returns the name of the executable. For a script that names its interpreter (`#!/bin/sh`) it is the interpreter's.
// For a program with several names (busybox) it is the name of the call.
std::string program_of(std::int64_t pid, const std::string& called) {
    std::error_code unreadable;
    const std::string name = std::filesystem::read_symlink(proc(pid) + "/exe", unreadable).filename().string();
    return unreadable || name == "busybox" ? called : name.substr(0, name.find(" (deleted)"));
}

}  // namespace

ProcessId process_of(std::int64_t pid) { return {.pid = pid, .start = pid > 0 ? stat_of(pid).start : 0}; }

bool still_runs(const ProcessId& process) {
    if (process.pid <= 0 || process.start == 0) return false;
    const Stat now = stat_of(process.pid);
    return now.start == process.start && now.state != 'Z' && now.state != 'X';
}

std::optional<ProcessFacts> facts_of(std::int64_t pid) {
    const Stat stat = stat_of(pid);
    const auto status = read_whole(proc(pid) + "/status");
    if (pid <= 0 || stat.start == 0 || !status) return std::nullopt;
    const std::uint64_t caught = std::strtoull(line_of(*status, "SigCgt").c_str(), nullptr, 16);
    return ProcessFacts{.id = {.pid = pid, .start = stat.start},
                        .parent = stat.parent,
                        .user = std::strtoll(line_of(*status, "Uid").c_str(), nullptr, 10),
                        .catches_sigterm = (caught >> (SIGTERM - 1) & 1) != 0,
                        .has_ended = stat.state == 'Z' || stat.state == 'X',
                        .program = program_of(pid, stat.name)};
}

std::vector<std::int64_t> children_of(std::int64_t pid) {
    std::vector<std::int64_t> children;
    std::size_t threads_left = own_threads_most;
    add_children(pid, children, own_children_most, threads_left);
    return children;
}

std::optional<std::int64_t> parent_of(std::int64_t pid) {
    const Stat process = stat_of(pid);
    return process.start == 0 ? std::nullopt : std::optional(process.parent);
}

std::vector<std::int64_t> with_descendants(std::int64_t pid) {
    std::vector<std::int64_t> all{pid};
    std::size_t threads_left = threads_most;
    for (std::size_t i = 0; i < all.size(); ++i) add_children(all[i], all, processes_most, threads_left);
    return all;
}

bool descends(std::int64_t pid, const std::set<std::int64_t>& roots) {
    for (int depth = 0; pid > 0 && depth < depth_most; ++depth) {
        if (roots.contains(pid)) return true;
        pid = parent_of(pid).value_or(0);
    }
    return false;
}

std::int64_t shim_of(std::int64_t worker) {
    using namespace std::string_view_literals;
    const auto parent = parent_of(worker);
    const auto command = parent ? read_whole(proc(*parent) + "/cmdline") : Result<std::string>(std::string());
    return command && command->find("\0__shim\0"sv) != std::string::npos ? *parent : worker;
}

}  // namespace rtrain::agent
