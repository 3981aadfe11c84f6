// The environment variables of other frameworks.
#include "daemon/agent/workers/frameworks.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json_text.hpp"

namespace rtrain::agent {
namespace {

using namespace protocol;

// TensorFlow needs a port for each worker, known to all before any starts. The ports lie between the rendezvous ports
// and the ephemeral ones: 64 for a node and attempt, by the master port, so that concurrent attempts differ. If a port
// is in use, the worker fails before the first report, and the attempt is tried again.
constexpr std::uint32_t first_port = 30'000, ports_per_node = 64, attempts_apart = 43;

std::uint32_t port_of(std::uint16_t master_port, std::size_t place_at_address) {
    const std::uint32_t place = static_cast<std::uint32_t>(place_at_address);
    return first_port + ((master_port % attempts_apart) * ports_per_node + place) % (attempts_apart * ports_per_node);
}

std::string address_of(const PeerNode& node, std::uint32_t port) {
    const bool six = node.address.find(':') != std::string::npos;
    return (six ? "[" + node.address + "]" : node.address) + ":" + std::to_string(port);
}

std::string tf_config(const Prepare& prepare, const Launch& launch, const LaunchWorker& worker) {
    std::vector<std::string> addresses(prepare.world_size);
    std::map<std::string, std::size_t> taken;  // by address, since several agents may share a machine
    for (const PeerNode& node : prepare.nodes)
        for (const std::uint32_t rank : node.ranks)
            if (rank < addresses.size())
                addresses[rank] = address_of(node, port_of(launch.master_port, taken[node.address]++));
    return json_text(
        nlohmann::json{{"cluster", {{"worker", addresses}}}, {"task", {{"type", "worker"}, {"index", worker.rank}}}});
}

}  // namespace

std::map<std::string, std::string> framework_environment(const Prepare& prepare, const Launch& launch,
                                                         const LaunchWorker& worker, const spec::Job& job) {
    if (job.backend == "tensorflow") return {{"TF_CONFIG", tf_config(prepare, launch, worker)}};
    if (job.backend == "xgboost")
        return {{"DMLC_TRACKER_URI", launch.master_address},
                {"DMLC_TRACKER_PORT", std::to_string(launch.master_port)},
                {"DMLC_NUM_WORKER", std::to_string(prepare.world_size)},
                {"DMLC_TASK_ID", std::to_string(worker.rank)},
                {"DMLC_ROLE", "worker"}};
    return {};
}

}  // namespace rtrain::agent
