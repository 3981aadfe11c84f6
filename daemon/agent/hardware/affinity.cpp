#include "daemon/agent/hardware/affinity.hpp"

#include <algorithm>
#include <set>

namespace rtrain::agent {
namespace {

std::vector<std::uint32_t> near_gpus(const protocol::LaunchWorker& worker, const Inventory& inventory) {
    std::set<std::uint32_t> near;
    for (const std::uint32_t gpu : worker.gpus) {
        if (gpu >= inventory.devices.size() || inventory.devices[gpu].near_cpus.empty()) return {};
        near.insert(inventory.devices[gpu].near_cpus.begin(), inventory.devices[gpu].near_cpus.end());
    }
    return {near.begin(), near.end()};
}

std::vector<std::uint32_t> part(const std::vector<std::uint32_t>& all, std::size_t which, std::size_t parts) {
    // With fewer processors than ranks, all ranks share all processors.
    if (parts == 0 || which >= parts || all.size() < parts) return {};
    const std::size_t first = all.size() * which / parts, last = all.size() * (which + 1) / parts;
    return {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last)};
}

}  // namespace

std::vector<std::uint32_t> processors_for(const std::string& policy, const protocol::LaunchWorker& worker,
                                          std::size_t workers_here, const Inventory& inventory) {
    if (policy == "none") return {};
    if (policy == "even") return part(inventory.cpus, worker.local_rank, workers_here);
    return near_gpus(worker, inventory);
}

std::string processor_list(const std::vector<std::uint32_t>& processors) {
    std::string text;
    for (std::size_t i = 0; i < processors.size();) {
        std::size_t last = i;
        while (last + 1 < processors.size() && processors[last + 1] == processors[last] + 1) ++last;
        text += (text.empty() ? "" : ",") + std::to_string(processors[i]);
        if (last > i) text += "-" + std::to_string(processors[last]);
        i = last + 1;
    }
    return text;
}

}  // namespace rtrain::agent
