// See stop_targets.hpp.
#include "daemon/agent/machine/stop_targets.hpp"

#include <algorithm>

namespace rtrain::agent {
namespace {

constexpr std::size_t depth_most = 64;  // a longer line of descent counts as none

constexpr const char* shells[] = {"sh",    "ash",  "bash",  "csh",  "dash", "fish", "ksh",
                                  "ksh93", "mksh", "rbash", "tcsh", "yash", "zsh"};

const ProcessFacts* find(const ProcessTable& table, std::int64_t pid) {
    const auto entry = table.find(pid);
    return entry == table.end() || entry->second.has_ended ? nullptr : &entry->second;
}

// Returns true if the process is a child of the parent. The table is not read atomically, so a pid may have been
// reused. A child never starts before its parent.
bool is_child(const ProcessFacts& process, const ProcessFacts& parent) {
    return process.parent == parent.id.pid && process.id.start >= parent.id.start && process.user == parent.user;
}

void add_below_shells(const ProcessTable& table, const ProcessFacts& process, std::size_t depth,
                      std::vector<std::int64_t>& targets) {
    const std::size_t before = targets.size();
    if (!process.catches_sigterm && is_shell(process) && depth < depth_most)
        for (const auto& [pid, other] : table)
            if (!other.has_ended && is_child(other, process)) add_below_shells(table, other, depth + 1, targets);
    if (targets.size() == before) targets.push_back(process.id.pid);
}

}  // namespace

bool is_shell(const ProcessFacts& process) {
    return std::find(std::begin(shells), std::end(shells), process.program) != std::end(shells);
}

std::vector<std::int64_t> line_of_descent(const ProcessTable& table, std::int64_t top, std::int64_t below) {
    std::vector<std::int64_t> line;
    const ProcessFacts* process = find(table, below);
    while (process && line.size() < depth_most) {
        line.push_back(process->id.pid);
        if (process->id.pid == top) {
            std::reverse(line.begin(), line.end());
            return line;
        }
        const ProcessFacts* parent = find(table, process->parent);
        process = parent && is_child(*process, *parent) ? parent : nullptr;
    }
    return {};
}

std::vector<std::int64_t> stop_targets(const ProcessTable& table, std::int64_t main, std::int64_t holder) {
    std::vector<std::int64_t> targets;
    const ProcessFacts* process = find(table, main);
    if (!process) return targets;
    const std::vector<std::int64_t> to_holder = line_of_descent(table, main, holder);
    if (to_holder.empty()) {
        add_below_shells(table, *process, 0, targets);
        return targets;
    }
    const auto catches = [&](std::int64_t pid) { return table.at(pid).catches_sigterm; };
    const auto target = std::find_if(to_holder.begin(), to_holder.end() - 1, catches);
    return {*target};
}

}  // namespace rtrain::agent
