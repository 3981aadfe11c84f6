// What this node has and offers: CPUs, memory, GPUs, labels, facts. `discover` asks the machine; everything after that
// is pure and tested as such (`assemble`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/agent/base/options.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain::agent {

struct GpuDevice {
    std::uint32_t index = 0;  // as NVML counts: by PCI address
    std::string uuid;         // what CUDA_VISIBLE_DEVICES understands whatever the order; fake ones: "FAKE-0"
    std::string name;         // NVML's: "NVIDIA A100-SXM4-80GB"
    std::string type;         // short: "A100"
    std::int64_t memory_bytes = 0;
    std::string pci_bus;                   // "00000000:3B:00.0"
    std::vector<std::uint32_t> near_cpus;  // of those this process may use; never empty on a real machine
    bool fake = false;
    bool operator==(const GpuDevice&) const = default;
};

struct InventoryOptions {                        // as given on the command line and in the environment; empty: as found
    std::string resources;                       // "CPU=8,memory=16Gi,GPU=2,custom=2"
    std::string fake_gpus;                       // "8xA100"
    std::string accelerator_type;                // instead of the one read from the GPUs' names
    std::int64_t reserve_memory = 0;             // bytes that are not offered
    std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES of the agent: what a batch system gave us
};

struct Hardware {  // as found, before anybody's wishes
    Amount cpus;   // processors we may run on, or fewer where the cgroup has a quota
    std::int64_t memory_bytes = 0;
    std::vector<std::uint32_t> allowed_cpus;
    std::vector<GpuDevice> gpus;
    std::map<std::string, std::string> facts;
};

struct Inventory {
    Resources total;  // without GPU
    std::uint32_t gpus = 0;
    std::string gpu_model;         // NVML's name of the first device; "" without
    std::string accelerator_type;  // the most frequent one; "" without
    Labels labels;
    std::map<std::string, std::string> facts;
    std::vector<GpuDevice> devices;  // devices[i] is what the scheduler calls device i
    std::vector<std::uint32_t> cpus;
    bool operator==(const Inventory&) const = default;
};

struct GpuProcess {  // that computes on a device
    std::int64_t pid = 0;
    std::int64_t memory_bytes = 0;  // 0 where the driver does not tell
    bool operator==(const GpuProcess&) const = default;
};
struct GpuStats {
    std::string uuid;
    bool answers = true;           // false: it did before, and now only its Xid errors are known
    double utilization_ratio = 0;  // 0-1
    std::int64_t memory_used_bytes = 0, memory_total_bytes = 0;
    double power_watts = 0, temperature_celsius = 0;  // NaN where the device does not tell
    std::map<std::uint64_t, std::uint64_t> xids{};    // Xid error number: how often since the agent's start
    std::optional<std::uint64_t> ecc_corrected{}, ecc_uncorrected{};  // errors since the driver was loaded
    std::optional<std::vector<GpuProcess>> processes{};
};

InventoryOptions wishes(const AgentOptions& options);  // and of this process's environment
Hardware find_hardware();                              // hwloc, /proc, cgroup v2, NVML where its library is
Result<Inventory> assemble(const Hardware& hardware, const InventoryOptions& options);
Result<Inventory> discover(const InventoryOptions& options);
std::vector<GpuStats> gpu_stats();  // now; empty without NVML. From one thread at a time

// "NVIDIA A100-SXM4-80GB" is "A100": the rule is in README-inventory.md.
std::string short_gpu_type(const std::string& nvml_name);
Result<Resources> parse_resources(const std::string& text);
Result<std::vector<GpuDevice>> parse_fake_gpus(const std::string& text);

}  // namespace rtrain::agent
