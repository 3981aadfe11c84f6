// See stop_signal.hpp.
#include "daemon/agent/workers/stop_signal.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "daemon/agent/hardware/processes.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;

constexpr std::size_t table_most = 256, ancestors_most = 64;
constexpr int tries = 3;  // the processes of a rank may change while they are read

Descriptor held(std::int64_t pid) {
    return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

bool has_ended(const Descriptor& process) {
    pollfd end{.fd = process.number(), .events = POLLIN, .revents = 0};
    return ::poll(&end, 1, 0) != 0;
}

void add(ProcessTable& table, std::int64_t pid) {
    if (auto facts = facts_of(pid)) table.insert_or_assign(pid, std::move(*facts));
}

// Reads the main process, the ancestors of the holder, and the processes that shells below the main process have
// started.
ProcessTable read_table(const ProcessId& main, const std::optional<ProcessId>& holder) {
    ProcessTable table;
    add(table, main.pid);
    if (holder && process_of(holder->pid) == *holder)
        for (std::int64_t pid = holder->pid; pid > 1 && table.size() < ancestors_most && !table.contains(pid);) {
            add(table, pid);
            pid = table.contains(pid) ? table.at(pid).parent : 0;
        }
    std::vector<std::int64_t> parents{main.pid};
    for (std::size_t i = 0; i < parents.size(); ++i) {
        const auto parent = table.find(parents[i]);
        if (parent == table.end() || parent->second.catches_sigterm || !is_shell(parent->second)) continue;
        for (const std::int64_t child : children_of(parents[i])) {
            if (table.size() >= table_most) return table;
            if (!table.contains(child)) add(table, child);
            parents.push_back(child);
        }
    }
    return table;
}

// Holds the processes of `line` one after the other, from the main process down, and signals the last one. While a
// parent is held and has not ended, its pid cannot be reused, so a process with this parent pid is its child.
bool signalled(const ProcessTable& table, const std::vector<std::int64_t>& line) {
    Descriptor parent;
    for (const std::int64_t pid : line) {
        const ProcessFacts& expected = table.at(pid);
        Descriptor process = held(pid);
        const auto now = process.open() ? facts_of(pid) : std::nullopt;
        if (!now || now->id != expected.id || now->user != expected.user) return false;
        if (parent.open() && (now->parent != expected.parent || has_ended(parent))) return false;
        parent = std::move(process);
    }
    return parent.open() && ::syscall(SYS_pidfd_send_signal, parent.number(), SIGTERM, nullptr, 0) == 0;
}

}  // namespace

void send_stop_signal(const ProcessId& main, const std::optional<ProcessId>& holder) {
    for (int i = 0; i < tries && still_runs(main); ++i) {
        const ProcessTable table = read_table(main, holder);
        const auto root = table.find(main.pid);
        if (root == table.end() || root->second.id != main) return;
        bool sent = false;
        for (const std::int64_t target : stop_targets(table, main.pid, holder ? holder->pid : 0))
            sent = signalled(table, line_of_descent(table, main.pid, target)) || sent;
        if (sent) return;
    }
}

}  // namespace rtrain::agent
