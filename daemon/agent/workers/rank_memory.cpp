// Reads /proc/PID/status and smaps_rollup: Documentation/filesystems/proc.rst of the kernel.
#include "daemon/agent/workers/rank_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/hardware/processes.hpp"

namespace rtrain::agent {
namespace {

constexpr std::size_t command_most = 60;  // number of shown characters of a command
constexpr std::size_t largest_most = 3;
constexpr std::int64_t pause_for_cost = 20;  // pause, as a multiple of the duration of the last exact measurement

std::string file_of(std::int64_t pid, const char* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

// Returns the sum of lines such as "RssAnon:  290 kB"; nullopt if there are none.
std::optional<std::int64_t> sum_of(const std::string& text, std::initializer_list<const char*> names) {
    std::optional<std::int64_t> sum;
    for (const std::string name : names) {
        const auto at = ("\n" + text).find("\n" + name + ":");
        if (at != std::string::npos)
            sum = sum.value_or(0) + 1'024 * std::strtoll(text.c_str() + at + name.size() + 1, nullptr, 10);
    }
    return sum;
}

// Returns an upper bound of the memory of the process: pages that it shares count in full.
std::int64_t bound_of(std::int64_t pid) {
    const auto status = read_whole(file_of(pid, "status"));
    return status ? sum_of(*status, {"RssAnon", "RssShmem", "VmSwap"}).value_or(0) : 0;
}

// Returns a process's share of memory. Kernels before 5.4 do not separate files and memory; there private dirty pages
// count as memory.
std::int64_t share_of(std::int64_t pid) {
    const auto rollup = read_whole(file_of(pid, "smaps_rollup"));
    if (!rollup || rollup->empty()) return bound_of(pid);
    if (rollup->find("\nPss_Anon:") == std::string::npos)
        return sum_of(*rollup, {"Private_Dirty", "SwapPss"}).value_or(0);
    return sum_of(*rollup, {"Pss_Anon", "Pss_Shmem", "SwapPss"}).value_or(0);
}

// Returns a text such as "python train.py --lr 1": the program without its folder, and its arguments.
std::string command_of(std::int64_t pid) {
    auto text = read_whole(file_of(pid, "cmdline"));
    if (!text || text->empty()) return "process " + std::to_string(pid);
    while (!text->empty() && text->back() == '\0') text->pop_back();
    const auto first = text->find('\0');
    if (const auto slash = text->rfind('/', first); slash != std::string::npos) text->erase(0, slash + 1);
    for (char& letter : *text)
        if (letter < ' ' || letter > '~') letter = letter == '\0' ? ' ' : '?';
    if (text->size() > command_most) *text = text->substr(0, command_most - 3) + "...";
    return *text;
}

}  // namespace

std::vector<std::int64_t> processes_of_worker(std::int64_t worker) {
    std::vector<std::int64_t> all = with_descendants(worker);
    const auto parent = parent_of(worker);
    if (!parent || *parent <= 1 || *parent == ::getpid()) return all;
    const bool has_shim = shim_of(worker) != worker;
    for (const std::int64_t sibling : children_of(*parent)) {
        if (sibling == worker || (!has_shim && ::getsid(static_cast<pid_t>(sibling)) != worker)) continue;
        const auto below = with_descendants(sibling);
        all.insert(all.end(), below.begin(), below.end());
    }
    return all;
}

std::int64_t memory_bound(const std::vector<std::int64_t>& processes) {
    std::int64_t bytes = 0;
    for (const std::int64_t pid : processes) bytes += bound_of(pid);
    return bytes;
}

RankMemory memory_of(const std::vector<std::int64_t>& processes, std::int64_t limit) {
    RankMemory memory;
    for (const std::int64_t pid : processes) {
        memory.largest.push_back({.pid = pid, .bytes = share_of(pid)});
        memory.bytes += memory.largest.back().bytes;
    }
    if (memory.bytes <= limit) return {.bytes = memory.bytes};
    std::sort(memory.largest.begin(), memory.largest.end(),
              [](const ProcessMemory& a, const ProcessMemory& b) { return a.bytes > b.bytes; });
    memory.largest.resize(std::min(memory.largest.size(), largest_most));
    std::erase_if(memory.largest, [](const ProcessMemory& process) { return process.bytes < 1 << 20; });
    for (ProcessMemory& process : memory.largest) process.command = command_of(process.pid);
    return memory;
}

RankMemory MeasuredRank::look(std::int64_t limit, std::int64_t now_ms) {
    const std::int64_t bound = memory_bound(processes);
    if (bound <= limit) return {.bytes = bound};
    // The exact amount grows at most as fast as the bound, unless a process writes to pages that it shares.
    const bool may_be_above = bound - bound_then_ > limit - exact_bytes_;
    if (now_ms < exact_again_ms_ && !may_be_above) return {.bytes = exact_bytes_};
    const auto from = std::chrono::steady_clock::now();
    RankMemory memory = memory_of(processes, limit);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - from);
    exact_bytes_ = memory.bytes;
    bound_then_ = bound;
    exact_again_ms_ = now_ms + took.count() * pause_for_cost;
    return memory;
}

}  // namespace rtrain::agent
