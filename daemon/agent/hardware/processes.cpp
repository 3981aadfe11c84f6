// See processes.hpp. /proc/PID/stat: proc_pid_stat(5). /proc/PID/task/TID/children: proc_tid_children(5).
#include "daemon/agent/hardware/processes.hpp"

#include <filesystem>
#include <sstream>
#include <string_view>

#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

constexpr std::size_t processes_most = 4'096, threads_most = 65'536;  // a job may make as many as it likes
constexpr int depth_most = 1'024;

std::string proc(std::int64_t pid) { return "/proc/" + std::to_string(pid); }

void add_children(std::int64_t pid, std::vector<std::int64_t>& to, std::size_t& threads_left) {
    std::error_code gone;
    for (std::filesystem::directory_iterator thread(proc(pid) + "/task", gone), end;
         !gone && thread != end && threads_left > 0; thread.increment(gone), --threads_left) {
        const auto text = read_whole(thread->path().string() + "/children");
        if (!text) continue;
        std::istringstream pids(*text);
        for (std::int64_t child = 0; to.size() < processes_most && pids >> child;) to.push_back(child);
    }
}

}  // namespace

// After the name in brackets, which may itself hold brackets and blanks: the state, then the parent.
std::optional<std::int64_t> parent_of(std::int64_t pid) {
    const auto text = read_whole(proc(pid) + "/stat");
    const auto name_end = text ? text->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream values(text->substr(name_end + 1));
    std::string state;
    std::int64_t parent = 0;
    if (!(values >> state >> parent)) return std::nullopt;
    return parent;
}

std::vector<std::int64_t> with_descendants(std::int64_t pid) {
    std::vector<std::int64_t> all{pid};
    std::size_t threads_left = threads_most;
    for (std::size_t i = 0; i < all.size(); ++i) add_children(all[i], all, threads_left);
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
