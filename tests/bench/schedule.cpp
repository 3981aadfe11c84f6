// Replays a job trace in virtual time through the real core, and through two plain policies for comparison: strict FIFO
// and first-fit (whoever fits starts). `bench_schedule TRACE.csv|--draw PROFILE [--nodes N] [--jobs N] [--seed N]
// [--load X] [--write FILE] [--json]`. scripts/bench schedule builds and runs it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <queue>

#include "scheduler/controller.hpp"
#include "tests/bench/plain_policies.hpp"
#include "tests/bench/trace.hpp"

namespace rtrain::bench {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Runs the core as the head does, with agents that answer at once.
class CoreReplay {
  public:
    CoreReplay(const Trace& trace, std::uint32_t nodes) : trace_(trace), waits_(trace.size(), -1) {
        cluster_.meta.cluster_id = "be9c4000";
        Queues queues;
        for (const TraceJob& job : trace) queues.rules[job.queue].share = share_of(job.queue);
        queues.rules.try_emplace(default_queue);
        if (queues.rules.size() > 1) tell(QueuesConfigured{.queues = queues, .by = "bench"});
        for (std::uint32_t i = 0; i < nodes; ++i) {
            NodeRegistered node;
            node.node = {"n" + std::to_string(10'000 + i)};
            node.address = "10.0.0.1";
            node.total[std::string(cpu_key)] = units(128);
            node.gpus = 8;
            tell(node);
        }
    }
    std::vector<std::int64_t> run() {
        std::size_t next = 0;
        while (next < trace_.size() || !ends_.empty()) {
            const auto wake = next_wake(cluster_);
            const std::int64_t arrival = next < trace_.size() ? trace_[next].submit_s * 1000 : INT64_MAX;
            const std::int64_t end = ends_.empty() ? INT64_MAX : ends_.top().first;
            if (wake && wake->ms < std::min(arrival, end)) {
                now_ = std::max(now_, *wake);
                tell(TimePassed{});
            } else if (end <= arrival) {
                now_ = {end};
                const AttemptId id = ends_.top().second;
                ends_.pop();
                tell(StopMetricReached{.attempt = id, .key = "done", .value = 1});
            } else {
                now_ = {arrival};
                tell(submission(next++));
            }
            settle();
        }
        return std::move(waits_);
    }
    std::uint64_t events() const { return events_; }

  private:
    void tell(const Event& event) {
        ++events_;
        for (Effect& effect : decide(cluster_, now_, event).act) effects_.push_back(std::move(effect));
    }
    void settle() {
        while (!effects_.empty()) {
            const std::vector<Effect> now = std::exchange(effects_, {});
            for (const Effect& effect : now) {
                if (const auto* prepare = std::get_if<PrepareNode>(&effect)) prepared(*prepare);
                if (const auto* launch = std::get_if<LaunchWorkers>(&effect)) launched(launch->attempt);
                if (const auto* stop = std::get_if<StopAttempt>(&effect))
                    tell(NodeEmptied{.attempt = stop->attempt, .node = stop->node});
            }
        }
    }
    void prepared(const PrepareNode& order) {
        NodePrepared event{.attempt = order.attempt, .incarnation = order.incarnation, .node = order.node};
        if (order.claim) {
            event.claimed_number = order.attempt.number;
            event.master_address = "10.0.0.1";
            event.master_port = 20'000;
        }
        tell(event);
    }
    void launched(AttemptId id) {
        const Attempt& attempt = cluster_.attempts.at(id);
        if (attempt.state != AttemptState::starting) return;  // another node's order was first
        tell(FirstReport{id});
        const std::size_t job = id.run.value - 1;
        waits_[job] = (now_.ms - trace_[job].submit_s * 1000) / 1000;
        ends_.emplace(now_.ms + trace_[job].run_s * 1000, id);
    }
    RunSubmitted submission(std::size_t index) const {
        const TraceJob& job = trace_[index];
        RunSubmitted event;
        event.name = "job-" + std::to_string(index);
        event.user = "bench";
        event.submit_key = std::to_string(index);
        event.job_json = "{}";
        event.storage_path = "/runs";
        Bundle bundle;
        bundle.demand[std::string(cpu_key)] = units(1);
        if (job.gpus > 0) bundle.demand[std::string(gpu_key)] = units(job.gpus);
        event.spec.gang.bundles.assign(job.workers, bundle);
        event.spec.queue = job.queue;
        event.spec.priority = job.priority;
        if (job.limit_s > 0) event.spec.wall_time_limit = Duration{job.limit_s * 1000};
        return event;
    }

    using End = std::pair<std::int64_t, AttemptId>;
    const Trace& trace_;
    Cluster cluster_;
    Time now_{0};
    std::vector<std::int64_t> waits_;
    std::vector<Effect> effects_;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
    std::uint64_t events_ = 0;
};

struct Row {
    std::string policy;
    double mean = 0, p99 = 0, longest = 0, longest_large = 0, utilisation = 0, fairness = 0, cpu_s = 0;
    std::map<std::string, std::pair<double, double>> classes;  // mean and p99 by size
};

double quantile(std::vector<std::int64_t> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return static_cast<double>(
        values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))]);
}
double mean(const std::vector<std::int64_t>& values) {
    double sum = 0;
    for (const std::int64_t value : values) sum += static_cast<double>(value);
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string class_of(std::uint32_t gpus) {
    return gpus <= 1 ? "a: 1 GPU" : gpus <= 8 ? "b: 2-8" : gpus <= 64 ? "c: 9-64" : "d: above 64";
}

// Returns the used fraction of the GPU seconds up to the last submission.
double utilisation(const Trace& trace, const std::vector<std::int64_t>& waits, std::uint32_t nodes) {
    const double end = static_cast<double>(trace.back().submit_s);
    double used = 0;
    for (std::size_t i = 0; i < trace.size(); ++i) {
        const double start = static_cast<double>(trace[i].submit_s + waits[i]);
        const double stop = std::min(end, start + static_cast<double>(trace[i].run_s));
        if (stop > start) used += (stop - start) * trace[i].workers * trace[i].gpus;
    }
    return used / (end * nodes * 8);
}

// Computes Jain's index over each queue's usage divided by its share, for the time in which runs of every queue waited:
// 1 if each queue had its share, 1/n if one had the whole cluster. Negative if there was no such time.
double fairness(const Trace& trace, const std::vector<std::int64_t>& waits) {
    struct Step {
        std::int64_t at;
        std::string queue;
        double waiting, used;
    };
    std::vector<Step> steps;
    std::map<std::string, double> waiting, used, had;
    for (std::size_t i = 0; i < trace.size(); ++i) {
        const TraceJob& job = trace[i];
        const double gpus = static_cast<double>(job.workers) * job.gpus;
        const std::int64_t start = job.submit_s + waits[i];
        steps.push_back({job.submit_s, job.queue, 1, 0});
        steps.push_back({start, job.queue, -1, gpus});
        steps.push_back({start + job.run_s, job.queue, 0, -gpus});
        waiting[job.queue] = 0;
    }
    std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.at < b.at; });
    std::int64_t last = 0;
    for (const Step& step : steps) {
        const auto waits_here = [](const auto& entry) { return entry.second > 0; };
        if (step.at > last && std::all_of(waiting.begin(), waiting.end(), waits_here))
            for (const auto& [queue, gpus] : used) had[queue] += gpus * static_cast<double>(step.at - last);
        last = step.at;
        waiting[step.queue] += step.waiting;
        used[step.queue] += step.used;
    }
    double sum = 0, squares = 0;
    for (const auto& [queue, gpu_seconds] : had) {
        const double by_share = gpu_seconds / static_cast<double>(share_of(queue));
        sum += by_share;
        squares += by_share * by_share;
    }
    return squares == 0 ? -1 : sum * sum / (static_cast<double>(waiting.size()) * squares);
}

Row measured(const std::string& policy, const Trace& trace, const std::vector<std::int64_t>& waits, std::uint32_t nodes,
             double cpu_s) {
    Row row{.policy = policy};
    row.cpu_s = cpu_s;
    for (const std::int64_t wait : waits)
        if (wait < 0) {
            std::fprintf(stderr, "%s: a job never started\n", policy.c_str());
            std::exit(1);
        }
    row.mean = mean(waits);
    row.p99 = quantile(waits, 0.99);
    row.longest = quantile(waits, 1);
    row.utilisation = utilisation(trace, waits, nodes);
    row.fairness = fairness(trace, waits);
    std::vector<std::size_t> by_size(trace.size());
    for (std::size_t i = 0; i < by_size.size(); ++i) by_size[i] = i;
    std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
        return trace[a].workers * trace[a].gpus > trace[b].workers * trace[b].gpus;
    });
    for (std::size_t i = 0; i < std::max<std::size_t>(by_size.size() / 10, 1); ++i)
        row.longest_large = std::max(row.longest_large, static_cast<double>(waits[by_size[i]]));
    std::map<std::string, std::vector<std::int64_t>> classes;
    for (std::size_t i = 0; i < trace.size(); ++i)
        classes[class_of(trace[i].workers * trace[i].gpus)].push_back(waits[i]);
    for (auto& [name, values] : classes) row.classes[name] = {mean(values), quantile(values, 0.99)};
    return row;
}

void print(const std::vector<Row>& rows) {
    std::printf("%-10s %10s %10s %10s %14s %8s %9s %8s\n", "policy", "mean wait", "p99", "longest", "longest large",
                "used", "fairness", "CPU");
    for (const Row& row : rows)
        std::printf("%-10s %9.0fs %9.0fs %9.0fs %13.0fs %7.2f%% %9.3f %7.1fs\n", row.policy.c_str(), row.mean, row.p99,
                    row.longest, row.longest_large, row.utilisation * 100, row.fairness, row.cpu_s);
    std::printf("\nmean and p99 wait by size\n");
    for (const auto& [name, ignored] : rows.front().classes) {
        std::printf("  %-14s", name.c_str() + 3);
        for (const Row& row : rows)
            std::printf("  %s %.0fs / %.0fs", row.policy.c_str(), row.classes.at(name).first,
                        row.classes.at(name).second);
        std::printf("\n");
    }
    const Row &core = rows[0], &fifo = rows[1], &first = rows[2];
    std::printf(
        "\nmean wait %.2f x FIFO's (<= 0.25) · longest of the largest tenth %.2f x FIFO's (<= 1.5) · "
        "use %+.2f points against first-fit (>= -1) · CPU %.1f s (<= 10)\n",
        core.mean / std::max(fifo.mean, 1e-9), core.longest_large / std::max(fifo.longest_large, 1e-9),
        (core.utilisation - first.utilisation) * 100, core.cpu_s);
}

struct Options {
    Profile profile;
    std::string file, write;
};

double number(const std::string& word, const std::string& text, double least, double most) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && value >= least && value <= most) return value;
    std::fprintf(stderr, "%s %s: it is not a number from %g to %g\n", word.c_str(), text.c_str(), least, most);
    std::exit(2);
}

Options options_of(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&] {
            if (i + 1 < argc) return std::string(argv[++i]);
            std::fprintf(stderr, "%s needs a value\n", word.c_str());
            std::exit(2);
        };
        if (word == "--draw")
            options.profile.name = value();
        else if (word == "--nodes")
            options.profile.nodes = static_cast<std::uint32_t>(number(word, value(), 1, 100'000));
        else if (word == "--jobs")
            options.profile.jobs = static_cast<std::size_t>(number(word, value(), 1, 10'000'000));
        else if (word == "--seed")
            options.profile.seed = static_cast<std::uint64_t>(number(word, value(), 0, 1e15));
        else if (word == "--load")
            options.profile.load = number(word, value(), 0.01, 10);
        else if (word == "--write")
            options.write = value();
        else if (!word.starts_with("--") && options.file.empty())
            options.file = word;
        else {
            std::fprintf(stderr, "what is %s?\n", word.c_str());
            std::exit(2);
        }
    }
    return options;
}

Trace trace_of(const Options& options) {
    if (options.file.empty()) return draw_trace(options.profile);
    std::ifstream file(options.file);
    if (!file) {
        std::fprintf(stderr, "cannot read %s\n", options.file.c_str());
        std::exit(3);
    }
    return read_trace(file, options.file);
}

// Returns the first job that the cluster could never hold; null if there is none.
const TraceJob* too_large(const Trace& trace, std::uint32_t nodes) {
    const auto entry = std::find_if(trace.begin(), trace.end(), [&](const TraceJob& job) {
        return job.gpus > 0 && job.workers > std::uint64_t{nodes} * (gpus_per_node / job.gpus);
    });
    return entry == trace.end() ? nullptr : &*entry;
}

int bench(const Options& options) {
    const Trace trace = trace_of(options);
    if (trace.empty()) return std::puts("the trace is empty"), 4;
    if (const TraceJob* job = too_large(trace, options.profile.nodes)) {
        std::fprintf(
            stderr, "the job of second %lld needs %u x %u GPUs, which %u nodes of %u never have; say --nodes\n",
            static_cast<long long>(job->submit_s), job->workers, job->gpus, options.profile.nodes, gpus_per_node);
        return 4;
    }
    if (!options.write.empty()) {
        std::ofstream out(options.write);
        write_trace(out, trace);
    }
    const std::uint32_t nodes = options.profile.nodes;
    double begin = cpu_seconds();
    CoreReplay core(trace, nodes);
    const auto waits = core.run();
    std::vector<Row> rows{measured("core", trace, waits, nodes, cpu_seconds() - begin)};
    for (const Plain policy : {Plain::fifo, Plain::first_fit}) {
        begin = cpu_seconds();
        const auto plain = replay_plain(trace, nodes, policy);
        rows.push_back(
            measured(policy == Plain::fifo ? "FIFO" : "first-fit", trace, plain, nodes, cpu_seconds() - begin));
    }
    std::printf("%zu jobs, %u nodes x 8 GPUs, %llu events\n", trace.size(), nodes,
                static_cast<unsigned long long>(core.events()));
    print(rows);
    return 0;
}

}  // namespace
}  // namespace rtrain::bench

int main(int argc, char** argv) { return rtrain::bench::bench(rtrain::bench::options_of(argc, argv)); }
