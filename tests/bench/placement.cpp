// How long a gang's verdict takes: `bench_placement [nodes] [gang] [rounds]` prints p50 and p99 in microseconds.
// Nodes have 8 GPUs and are 60-85 % full, from a fixed generator, so that two runs measure the same thing.

#include "scheduler/placement.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace rtrain;

std::uint32_t next(std::uint32_t& seed) { return seed = seed * 1664525u + 1013904223u; }

std::vector<NodeView> half_full_cluster(std::uint32_t nodes) {
    std::vector<NodeView> views;
    std::uint32_t seed = 7;
    for (std::uint32_t n = 0; n < nodes; ++n) {
        NodeView view{.id = {"node-" + std::to_string(100'000 + n)}};
        const std::uint32_t used = 5 + next(seed) / 1'000'000u % 3;  // 5-7 of 8
        view.total = {{std::string(cpu_key), units(64)}};
        view.free = {{std::string(cpu_key), units(64 - 8 * used)}};
        for (std::uint32_t device = 0; device < 8; ++device) view.gpus_free.push_back(units(device < used ? 0 : 1));
        views.push_back(std::move(view));
    }
    return views;
}

GangRequest gang(std::uint32_t size) {
    GangRequest request;
    request.bundles.assign(size,
                           Bundle{.demand = {{std::string(cpu_key), units(1)}, {std::string(gpu_key), units(1)}}});
    return request;
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int at, int fallback) {
        return static_cast<std::uint32_t>(argc > at ? std::atoi(argv[at]) : fallback);
    };
    const auto nodes = half_full_cluster(number(1, 1'000));
    const auto request = gang(number(2, 512));
    std::vector<double> micros;
    for (std::uint32_t round = 0; round < number(3, 300); ++round) {
        const auto begin = std::chrono::steady_clock::now();
        const PlacementAnswer answer = place(nodes, request);
        micros.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
        if (answer.verdict != Verdict::feasible_now) return std::puts("the gang did not fit"), 1;
    }
    std::sort(micros.begin(), micros.end());
    std::printf("{\"p50_us\": %.1f, \"p99_us\": %.1f}\n", micros[micros.size() / 2], micros[micros.size() * 99 / 100]);
}
