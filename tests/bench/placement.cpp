// Measures how long the verdict and the seats of a gang take: `bench_placement [nodes]` prints one JSON object of p50
// and p99 in microseconds. Nodes have 8 GPUs and are 60-85 % full, from a fixed generator, so that each run measures
// the same situation. Each round places a gang (timed), reserves its seats and updates the index (timed separately),
// and frees them.
#include "scheduler/placement/placement.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "scheduler/controller.hpp"

namespace {

using namespace rtrain;

struct Dice {
    std::uint32_t seed = 7;
    std::uint32_t operator()(std::uint32_t sides) { return (seed = seed * 1664525u + 1013904223u) / 65536u % sides; }
};

FreeIndex busy_cluster(std::uint32_t nodes) {
    FreeIndex index;
    Dice dice;
    for (std::uint32_t n = 0; n < nodes; ++n) {
        NodeView view{.id = {"node-" + std::to_string(100'000 + n)}};
        const std::uint32_t used = 5 + (dice(2) == 0 ? 0 : dice(3));  // out of 8: 62-87 %, 70 % on average
        view.labels["rack"] = "r" + std::to_string(n % 40);
        view.total = {{std::string(cpu_key), units(64)}};
        view.free = {{std::string(cpu_key), units(64 - 8 * used)}};
        for (std::uint32_t device = 0; device < 8; ++device) view.gpus_free.push_back(units(device < used ? 0 : 1));
        index.put(view);
    }
    return index;
}

GangRequest gang(Strategy strategy, std::uint32_t size, std::int64_t gpus = 1, std::int64_t cpus = 1) {
    GangRequest request;
    request.strategy = strategy;
    request.bundles.assign(
        size,
        Bundle{.demand = {{std::string(cpu_key), units(cpus)}, {std::string(gpu_key), units(gpus)}}, .selector = {}});
    return request;
}

// Measures the processor time of this thread, since the wall time includes other processes on a busy machine. A read
// takes 0.3 us.
class Stopwatch {
  public:
    double micros() const { return now() - begin_; }

  private:
    static double now() {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
    }
    double begin_ = now();
};

const char* separator = "{";

void print(const std::string& row, std::vector<double> micros) {
    std::sort(micros.begin(), micros.end());
    std::printf("%s\"%s\": {\"p50_us\": %.2f, \"p99_us\": %.2f}", separator, row.c_str(), micros[micros.size() / 2],
                micros[micros.size() * 99 / 100]);
    separator = ",\n ";
}

void measure(FreeIndex& index, const std::string& row, const GangRequest& request, int rounds) {
    std::vector<double> places, takes;
    const auto asked = index.prepare(request);
    for (int round = 0; round < rounds; ++round) {
        const Stopwatch place;
        const PlacementAnswer answer = index.place(*asked);
        places.push_back(place.micros());
        if (answer.verdict != Verdict::feasible_now) std::puts("the gang did not fit"), std::exit(1);
        const Stopwatch take;
        index.take(request, answer.seats);
        index.settle();
        takes.push_back(take.micros());
        index.give(request, answer.seats);
        index.settle();
    }
    print(row, places);
    print(row + ", taking the seats", takes);
}

void measure_scan(const FreeIndex& index, const std::string& row, const GangRequest& request, int rounds) {
    std::vector<double> places;
    for (int round = 0; round < rounds; ++round) {
        const Stopwatch watch;
        if (place(index.nodes(), request).verdict != Verdict::feasible_now) std::exit(1);
        places.push_back(watch.micros());
    }
    print(row, places);
}

void measure_refusal(FreeIndex& index) {
    const auto asked = index.prepare(gang(Strategy::pack, 60'000));
    std::vector<double> micros;
    for (int round = 0; round < 10'000; ++round) {
        const Stopwatch watch;
        if (index.verdict(*asked) != Verdict::pending) std::exit(1);
        micros.push_back(watch.micros());
    }
    print("a refusal", micros);
}

// Measures new verdicts for 100,000 waiting gangs of 100 shapes after one node has changed.
void measure_waiting(FreeIndex& index) {
    Dice dice;
    std::vector<UniformGang> waiting;
    for (std::uint32_t i = 0; i < 100'000; ++i) {
        const auto one = gang(static_cast<Strategy>(dice(4)), 1, 1 + dice(4), 1 + dice(25));
        waiting.push_back(*index.prepare(one));
        waiting.back().count = 30'000 + dice(10'000);
    }
    index.settle();
    std::vector<double> micros;
    for (std::uint32_t round = 0; round < 300; ++round) {
        NodeView node = index.nodes()[dice(static_cast<std::uint32_t>(index.nodes().size()))];
        node.gpus_free[7] = units(node.gpus_free[7].ticks == 0);
        const Stopwatch watch;
        index.put(node);
        std::size_t feasible = 0;
        for (const UniformGang& one : waiting) feasible += index.verdict(one) == Verdict::feasible_now;
        micros.push_back(watch.micros());
        if (feasible > 0) std::exit(1);
    }
    print("100000 waiting gangs after a node change", micros);
}

RunSubmitted submission(int number, std::int64_t cpus) {
    RunSubmitted event;
    event.name = "r" + std::to_string(number);
    event.user = "bench";
    event.submit_key = event.name;
    event.job_json = "{}";
    event.storage_path = "/runs";
    event.spec.gang.bundles = {Bundle{.demand = {{std::string(cpu_key), units(cpus)}}, .selector = {}}};
    return event;
}

// Measures the decision on a submission that starts at once, on 2,000 nodes with one free CPU each, while 1,000 runs of
// one user wait for more. No two of them have the same shape.
enum class Unlike { amounts, names };
void measure_unlike(const std::string& row, Unlike unlike) {
    constexpr int nodes = 2'000, runs = 1'000, rounds = 100;
    Cluster cluster;
    cluster.meta.cluster_id = "be9c4000";
    Time now{1'000};
    const auto tell = [&](const Event& event) { return decide(cluster, now, event); };
    for (int n = 0; n < nodes; ++n) {
        NodeRegistered node;
        node.node = {"node-" + std::to_string(100'000 + n)};
        node.address = "10.0.0.1";
        node.total = {{std::string(cpu_key), units(4)}};
        tell(node);
        tell(submission(n, 3));
    }
    for (int i = 0; i < runs; ++i) {
        RunSubmitted event = submission(nodes + i, 2);
        if (unlike == Unlike::amounts)
            event.spec.gang.bundles[0].demand[std::string(cpu_key)].ticks += i;
        else
            for (int n = 0; n < 100; ++n)
                event.spec.gang.nodes_only.insert({"node-" + std::to_string(100'000 + i + n)});
        tell(event);
    }
    std::vector<double> micros;
    for (int round = 0; round < rounds; ++round) {
        const RunSubmitted event = submission(nodes + runs + round, 1);
        const Stopwatch watch;
        const Decision decision = tell(event);
        micros.push_back(watch.micros());
        if (cluster.runs.at(*decision.created).state != RunState::starting) std::exit(1);
    }
    print(row, micros);
}

}  // namespace

int main(int argc, char** argv) {
    FreeIndex index = busy_cluster(argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 10'000);
    measure(index, "PACK 8", gang(Strategy::pack, 8), 3'000);
    measure(index, "PACK 64", gang(Strategy::pack, 64), 3'000);
    measure(index, "PACK 512", gang(Strategy::pack, 512), 1'000);
    measure(index, "PACK 4096", gang(Strategy::pack, 4'096), 300);
    measure(index, "SPREAD 4096", gang(Strategy::spread, 4'096), 300);
    measure(index, "STRICT_SPREAD 4096", gang(Strategy::strict_spread, 4'096), 300);
    measure_refusal(index);
    measure_waiting(index);
    measure_scan(index, "PACK 512 without the index", gang(Strategy::pack, 512), 100);
    measure_unlike("a submission, 1000 runs wait for amounts of their own", Unlike::amounts);
    measure_unlike("a submission, 1000 runs wait that name 100 nodes each", Unlike::names);
    std::puts("}");
}
