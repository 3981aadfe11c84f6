// Parses the messages of mm/oom_kill.c and mm/memcontrol.c, as Linux 4.19 to 6.18 writes them.
#include "daemon/agent/hardware/memory_kills.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t believed_ms = 10'000;

// Returns the number after `label`, as in "anon-rss:102016kB" or "limit 102400kB".
std::int64_t amount_after(const std::string& line, const std::string& label) {
    const auto at = line.find(label);
    return at == std::string::npos ? 0 : std::strtoll(line.c_str() + at + label.size(), nullptr, 10);
}

std::string decimal(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    std::string out = text;
    if (out.ends_with(".0")) out.resize(out.size() - 2);
    return out;
}

std::optional<std::string> read_kernel_log() {
    char space[64];
    const ssize_t length = ::readlink("/proc/self/ns/pid", space, sizeof space);
    // PROC_PID_INIT_INO of the kernel: the machine's own pid namespace.
    constexpr const char* of_the_machine = "pid:[4026531836]";
    if (length <= 0 || std::string(space, static_cast<std::size_t>(length)) != of_the_machine) return std::nullopt;
    const int log = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (log < 0) return std::nullopt;
    std::string all, record(8192, '\0');
    for (;;) {
        const ssize_t got = ::read(log, record.data(), record.size());  // one record at a time
        if (got > 0) all.append(record, 0, static_cast<std::size_t>(got));
        if (got == 0 || (got < 0 && errno != EPIPE && errno != EINTR)) break;  // EPIPE: records were overwritten
    }
    ::close(log);
    return all;
}

std::int64_t number_in(const char* file, const char* name) {
    const auto values = read_values(file);
    const auto entry = values.find(name);
    return entry == values.end() ? 0 : std::strtoll(entry->second.c_str(), nullptr, 10);
}

}  // namespace

std::vector<MemoryKill> memory_kills_in(const std::string& log) {
    std::vector<MemoryKill> kills;
    std::istringstream lines(log);
    std::int64_t group_limit = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.find("memory: usage ") != std::string::npos) group_limit = amount_after(line, "limit ");
        const auto at = line.find("Killed process ");
        if (at == std::string::npos) continue;
        const bool of_group = line.find("emory cgroup out of memory") != std::string::npos;
        if (!of_group && line.find("ut of memory") == std::string::npos) continue;
        MemoryKill kill{.pid = amount_after(line, "Killed process ")};
        if (kill.pid <= 0) continue;
        const auto open = line.find('(', at), close = line.find(") total-vm:", at);
        if (open != std::string::npos && close != std::string::npos && open < close)
            kill.name = line.substr(open + 1, close - open - 1);
        kill.used_kib = amount_after(line, "anon-rss:") + amount_after(line, "shmem-rss:");
        kill.limit_kib = of_group ? group_limit : 0;
        kills.push_back(std::move(kill));
    }
    return kills;
}

std::string amounts(std::int64_t used_kib, std::int64_t total_kib) {
    const bool large = total_kib >= 1 << 20;
    const double unit = large ? 1 << 20 : 1 << 10;
    return decimal(static_cast<double>(used_kib) / unit) + " of " + decimal(static_cast<double>(total_kib) / unit) +
           (large ? " GiB" : " MiB");
}

MemorySources memory_of_this_machine() {
    return {.log = read_kernel_log,
            .kills = [] { return static_cast<std::uint64_t>(number_in("/proc/vmstat", "oom_kill")); },
            .total_kib = [] { return number_in("/proc/meminfo", "MemTotal:"); }};
}

MemoryKills::MemoryKills(MemorySources sources) : sources_(std::move(sources)) {
    explained_ = next_explained_ = sources_.kills();
}

void MemoryKills::look(std::int64_t now_ms) {
    if (now_ms - looked_at_ms_ < believed_ms) return;
    looked_at_ms_ = now_ms;
    explained_ = std::max(explained_, next_explained_);
    next_explained_ = sources_.kills();
}

bool MemoryKills::counted(const MemoryDeath& death) const {
    if (!death.kills_in_group) return sources_.kills() > explained_;
    const auto known = explained_of_.find(death.attempt);
    return *death.kills_in_group > (known == explained_of_.end() ? 0 : known->second);
}

std::optional<std::string> MemoryKills::explain(const MemoryDeath& death) {
    if (!death.killed || (sources_.kills() == 0 && !death.kills_in_group)) return std::nullopt;
    const bool risen = counted(death);
    const auto log = sources_.log();
    const auto kills = memory_kills_in(log.value_or(""));
    const auto named = std::find_if(kills.rbegin(), kills.rend(), [&](const auto& k) { return k.pid == death.pid; });
    const bool exact = named != kills.rend();
    if (!exact && (!risen || (log && death.directly))) return std::nullopt;
    if (risen) ++(death.kills_in_group ? explained_of_[death.attempt] : explained_);
    if (!exact && kills.empty()) return amounts(death.peak_kib, sources_.total_kib());
    const MemoryKill& kill = exact ? *named : kills.back();
    if (kill.limit_kib == 0) return amounts(kill.used_kib, sources_.total_kib());
    return amounts(kill.used_kib, kill.limit_kib) + ", the limit of its control group";
}

std::string MemoryKills::meanwhile(const MemoryDeath& death) const {
    if (!counted(death)) return {};
    const auto kills = memory_kills_in(sources_.log().value_or(""));
    const std::string who = kills.empty()
                                ? "a process"
                                : "the process " + std::to_string(kills.back().pid) + " (" + kills.back().name + ")";
    return "memory ran out meanwhile, and the kernel killed " + who +
           (death.kills_in_group ? " of this run" : " on this node");
}

}  // namespace rtrain::agent
