// See trace.hpp. The generator's numbers come from the seed alone, so that two machines replay the same trace.
#include "tests/bench/trace.hpp"

#include <algorithm>
#include <charconv>
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

struct Range {
    std::int64_t least, most;
};
constexpr Range seconds{0, 10'000'000'000}, run_seconds{1, 10'000'000'000};
constexpr Range workers{1, 1'000'000}, gpus_per_worker{0, gpus_per_node}, priorities{0, 100};

std::int64_t number(const std::string& text, Range range, const std::string& name, std::size_t line) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, value);
    if (fault != std::errc{} || rest != end || value < range.least || value > range.most)
        refuse(name, line,
               "\"" + text + "\" is not a whole number from " + std::to_string(range.least) + " to " +
                   std::to_string(range.most));
    return value;
}

// Teams whose shares and demands differ: one demands its share, one more, and one less.
struct Team {
    const char* queue;
    std::int64_t share;
    double part;  // as a fraction of the jobs
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

// Durations are log-normal.
struct Kind {
    const char* name;
    double median_s, sigma;
    std::int64_t longest_s;
    std::vector<Size> sizes;
};

// mixed: most jobs are small and short, most GPU hours are in large ones, some take a day. small: interactive
// experiments. large: training of an hour to a week.
const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all{
        {.name = "mixed",
         .median_s = 600,
         .sigma = 1.5,
         .longest_s = 86'400,
         .sizes = {{1, 1, 40}, {1, 2, 8}, {1, 4, 8}, {1, 8, 12}, {2, 8, 10}, {4, 8, 8}, {8, 8, 5}, {16, 8, 3}}},
        {.name = "small",
         .median_s = 240,
         .sigma = 1.2,
         .longest_s = 14'400,
         .sizes = {{1, 1, 60}, {1, 2, 15}, {1, 4, 12}, {1, 8, 8}, {2, 8, 3}, {4, 8, 1.5}, {8, 8, 0.5}}},
        {.name = "large",
         .median_s = 3'600,
         .sigma = 1.8,
         .longest_s = 604'800,
         .sizes = {{1, 8, 20}, {2, 8, 20}, {4, 8, 20}, {8, 8, 20}, {16, 8, 10}, {32, 8, 4}}}};
    return all;
}

const Kind& kind_of(const Profile& profile) {
    for (const Kind& kind : kinds())
        if (profile.name == kind.name) return kind;
    std::fprintf(stderr, "--draw %s: there is no such profile; there are mixed, small and large\n",
                 profile.name.c_str());
    std::exit(2);
}

std::vector<Size> sizes_of(const Profile& profile) {
    std::vector<Size> sizes = kind_of(profile).sizes;
    if (profile.nodes >= 512) {
        sizes.push_back({32, 8, 1.5});
        sizes.push_back({64, 8, 0.7});
        sizes.push_back({128, 8, 0.3});
    }
    std::erase_if(sizes, [&](const Size& size) {
        return size.workers * size.gpus > std::max(profile.nodes * gpus_per_node / 2, 1U);
    });
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
        job.submit_s = number(cells[0], seconds, name, at);
        job.workers = static_cast<std::uint32_t>(number(cells[1], workers, name, at));
        job.gpus = static_cast<std::uint32_t>(number(cells[2], gpus_per_worker, name, at));
        job.run_s = number(cells[3], run_seconds, name, at);
        job.queue = cells[4].empty() ? "default" : cells[4];
        job.priority = static_cast<std::int32_t>(number(cells[5], priorities, name, at));
        if (cells.size() == 7) job.limit_s = number(cells[6], seconds, name, at);
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
    const Kind& kind = kind_of(profile);
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
        const double normal = std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
        job.run_s = static_cast<std::int64_t>(kind.median_s * std::exp(kind.sigma * normal));
        job.run_s = std::clamp<std::int64_t>(job.run_s, 20, kind.longest_s);
        // Limits are guesses: up to three times too long.
        job.limit_s = static_cast<std::int64_t>(static_cast<double>(job.run_s) * (1 + 2 * uniform())) + 60;
        job.queue = team_at(uniform());
        gpu_seconds += static_cast<double>(job.run_s) * job.workers * job.gpus;
    }
    const double span = gpu_seconds / (profile.nodes * double{gpus_per_node}) / profile.load;
    std::vector<std::int64_t> times(profile.jobs);
    for (std::int64_t& time : times) time = static_cast<std::int64_t>(uniform() * span);
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < times.size(); ++i) trace[i].submit_s = times[i];
    return trace;
}

}  // namespace rtrain::bench
