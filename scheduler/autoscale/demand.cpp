// See demand.hpp. Runs of one shape are counted together, so a long queue costs no more than its shapes.
#include "scheduler/autoscale/demand.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace rtrain {
namespace {

using Alike = std::pair<Demand, std::string>;

std::string key_of(const Bundle& bundle, Strategy strategy) {
    std::string key = std::to_string(static_cast<int>(strategy));
    for (const auto& [name, amount] : bundle.demand) key += "\n" + name + "=" + to_text(amount);
    for (const LabelCondition& condition : bundle.selector) key += "\n" + to_text(condition);
    return key;
}

// Counts the bundles of one gang by their demand.
std::map<std::string, Demand> of_gang(const GangRequest& gang) {
    std::map<std::string, Demand> parts;
    for (const Bundle& bundle : gang.bundles) {
        Demand& part = parts[key_of(bundle, gang.strategy)];
        if (part.bundles++ > 0) continue;
        part.demand = bundle.demand;
        part.selector = bundle.selector;
        part.strategy = gang.strategy;
    }
    return parts;
}

}  // namespace

std::vector<Demand> waiting_demand(const Cluster& cluster) {
    ClusterIndex scratch;
    const ClusterIndex& index = in_step(cluster, scratch);
    std::map<std::uint32_t, std::uint64_t> runs_of;  // key: the number of the shape
    for (const auto& [line, batches] : index.waiting()) {
        if (line.yields) break;  // yielding runs use only what is there
        for (const auto& [shape, batch] : batches) runs_of[shape] += batch.by_age.size();
    }
    std::map<std::string, Demand> all;
    for (const auto& [shape, runs] : runs_of)
        for (const auto& [key, part] : of_gang(index.shape(shape).gang)) {
            Demand& sum =
                all.try_emplace(key,
                                Demand{.demand = part.demand, .selector = part.selector, .strategy = part.strategy})
                    .first->second;
            sum.runs += runs;
            sum.bundles += runs * part.bundles;
            sum.largest = std::max(sum.largest, part.bundles);
        }
    std::vector<Demand> sorted;
    for (auto& [key, part] : all) sorted.push_back(std::move(part));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Demand& a, const Demand& b) { return a.bundles > b.bundles; });
    return sorted;
}

}  // namespace rtrain
