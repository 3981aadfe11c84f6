// See trace.hpp. The generator's numbers come from the seed alone, so that two machines replay the same trace.
#include "tests/bench/trace.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <ostream>
#include <random>
#include <sstream>

namespace rtrain::bench {
namespace {

constexpr const char* header = "submit_s,workers,gpus_per_worker,run_s,queue,priority,limit_s";

[[noreturn]] void refuse(const std::string& name, std::size_t line, const std::string& why) {
    std::fprintf(stderr, "%s:%zu: %s\n  a row is %s\n", name.c_str(), line, why.c_str(), header);
    std::exit(4);
}

std::int64_t number(const std::string& text, std::int64_t least, const std::string& name, std::size_t line) {
    char* end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || value < least || value > 1'000'000'000'000)
        refuse(name, line, "\"" + text + "\" is not a whole number from " + std::to_string(least));
    return value;
}

// Teams with unlike shares that ask for unlike parts of the cluster: one for what its share says, one for more, one for
// less.
struct Team {
    const char* queue;
    std::int64_t share;
    double part;  // of the jobs
};
constexpr Team teams[] = {{"research", 5, 0.50}, {"product", 3, 0.35}, {"default", 2, 0.15}};

const char* team_at(double place) {
    for (const Team& team : teams)
        if ((place -= team.part) < 0) return team.queue;
    return teams[0].queue;
}

struct Size {
    std::uint32_t workers, gpus;
    double weight;
};

// Most jobs are small and short; most GPU hours are in the large ones.
std::vector<Size> sizes_of(const Profile& profile) {
    std::vector<Size> sizes{{1, 1, 40}, {1, 2, 8}, {1, 4, 8}, {1, 8, 12}, {2, 8, 10}, {4, 8, 8}, {8, 8, 5}, {16, 8, 3}};
    if (profile.name == "small")
        sizes = {{1, 1, 60}, {1, 2, 15}, {1, 4, 12}, {1, 8, 8}, {2, 8, 3}, {4, 8, 1.5}, {8, 8, 0.5}};
    if (profile.name == "large") sizes = {{1, 8, 20}, {2, 8, 20}, {4, 8, 20}, {8, 8, 20}, {16, 8, 10}, {32, 8, 4}};
    if (profile.nodes >= 512) {
        sizes.push_back({32, 8, 1.5});
        sizes.push_back({64, 8, 0.7});
        sizes.push_back({128, 8, 0.3});
    }
    std::erase_if(sizes, [&](const Size& size) { return size.workers * size.gpus > profile.nodes * 8 / 2; });
    return sizes;
}

}  // namespace

std::int64_t share_of(const std::string& queue) {
    for (const Team& team : teams)
        if (queue == team.queue) return team.share;
    return 1;
}

Trace read_trace(std::istream& in, const std::string& name) {
    Trace trace;
    std::string line;
    for (std::size_t at = 1; std::getline(in, line); ++at) {
        if (line.empty() || line[0] == '#' || line.rfind("submit", 0) == 0) continue;
        std::vector<std::string> cells;
        std::istringstream row(line);
        for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
        if (cells.size() < 6 || cells.size() > 7)
            refuse(name, at, "it has " + std::to_string(cells.size()) + " columns");
        TraceJob job;
        job.submit_s = number(cells[0], 0, name, at);
        job.workers = static_cast<std::uint32_t>(number(cells[1], 1, name, at));
        job.gpus = static_cast<std::uint32_t>(number(cells[2], 0, name, at));
        job.run_s = number(cells[3], 1, name, at);
        job.queue = cells[4].empty() ? "default" : cells[4];
        job.priority = static_cast<std::int32_t>(number(cells[5], 0, name, at));
        if (cells.size() == 7) job.limit_s = number(cells[6], 0, name, at);
        trace.push_back(job);
    }
    std::stable_sort(trace.begin(), trace.end(),
                     [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
    return trace;
}

void write_trace(std::ostream& out, const Trace& trace) {
    out << header << "\n";
    for (const TraceJob& job : trace)
        out << job.submit_s << "," << job.workers << "," << job.gpus << "," << job.run_s << "," << job.queue << ","
            << job.priority << "," << job.limit_s << "\n";
}

Trace draw_trace(const Profile& profile) {
    std::mt19937_64 chance(profile.seed);
    const auto uniform = [&] { return static_cast<double>(chance() >> 11) * 0x1p-53; };
    const auto sizes = sizes_of(profile);
    double weights = 0, gpu_seconds = 0;
    for (const Size& size : sizes) weights += size.weight;
    Trace trace(profile.jobs);
    for (TraceJob& job : trace) {
        double at = uniform() * weights;
        std::size_t pick = 0;
        while (pick + 1 < sizes.size() && (at -= sizes[pick].weight) >= 0) ++pick;
        job.workers = sizes[pick].workers;
        job.gpus = sizes[pick].gpus;
        // Durations are log-normal: a median of 10 minutes, some take a day.
        const double normal = std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
        job.run_s = std::clamp<std::int64_t>(static_cast<std::int64_t>(600 * std::exp(1.5 * normal)), 20, 86'400);
        // Limits are guesses: up to three times too long.
        job.limit_s = static_cast<std::int64_t>(static_cast<double>(job.run_s) * (1 + 2 * uniform())) + 60;
        job.queue = team_at(uniform());
        gpu_seconds += static_cast<double>(job.run_s) * job.workers * job.gpus;
    }
    const double span = gpu_seconds / (profile.nodes * 8.0) / profile.load;
    std::vector<std::int64_t> times(profile.jobs);
    for (std::int64_t& time : times) time = static_cast<std::int64_t>(uniform() * span);
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < times.size(); ++i) trace[i].submit_s = times[i];
    return trace;
}

}  // namespace rtrain::bench
