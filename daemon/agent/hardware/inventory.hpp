// The node's inventory: CPUs, memory, GPUs, labels, facts. `discover` reads the machine. All later steps are pure
// (`assemble`) and are tested as such.
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
    std::uint32_t index = 0;  // NVML's index, in the order of PCI addresses
    std::string uuid;         // a value for CUDA_VISIBLE_DEVICES that is valid in any order; fake ones: "FAKE-0"
    std::string name;         // NVML's name: "NVIDIA A100-SXM4-80GB"
    std::string type;         // the short type: "A100"
    std::int64_t memory_bytes = 0;
    std::string pci_bus;  // "00000000:3B:00.0"
    // The near processors that this process may use; never empty on a real machine.
    std::vector<std::uint32_t> near_cpus;
    bool fake = false;
    bool operator==(const GpuDevice&) const = default;
};

struct InventoryOptions {                        // from the command line and the environment; empty: no override
    std::string resources;                       // "CPU=8,memory=16Gi,GPU=2,custom=2"
    std::string fake_gpus;                       // "8xA100"
    std::string accelerator_type;                // replaces the type from the GPUs' names
    std::int64_t reserve_memory = 0;             // bytes that are not offered
    std::optional<std::string> visible_devices;  // the agent's CUDA_VISIBLE_DEVICES, which a batch system may set
};

struct Hardware {  // the hardware before options are applied
    Amount cpus;   // usable processors, or fewer if the cgroup has a quota
    std::int64_t memory_bytes = 0;
    std::vector<std::uint32_t> allowed_cpus;
    std::vector<GpuDevice> gpus;
    std::map<std::string, std::string> facts;
};

struct Inventory {
    Resources total;  // without GPU
    std::uint32_t gpus = 0;
    std::string gpu_model;         // NVML's name of the first device; "" without GPUs
    std::string accelerator_type;  // the most frequent one; "" without GPUs
    Labels labels;
    std::map<std::string, std::string> facts;
    std::vector<GpuDevice> devices;  // devices[i] is the scheduler's device i
    std::vector<std::uint32_t> cpus;
    bool operator==(const Inventory&) const = default;
};

struct GpuProcess {  // a process that computes on a device
    std::int64_t pid = 0;
    std::int64_t memory_bytes = 0;  // 0 if the driver does not report it
    bool operator==(const GpuProcess&) const = default;
};
struct GpuStats {
    std::string uuid;
    bool answers = true;           // false: the device answered before, and now only its Xid errors are known
    double utilization_ratio = 0;  // 0-1
    std::int64_t memory_used_bytes = 0, memory_total_bytes = 0;
    double power_watts = 0, temperature_celsius = 0;                  // NaN if the device does not report it
    std::map<std::uint64_t, std::uint64_t> xids{};                    // Xid error number: count since the agent's start
    std::optional<std::uint64_t> ecc_corrected{}, ecc_uncorrected{};  // errors since the driver was loaded
    std::optional<std::vector<GpuProcess>> processes{};
};

InventoryOptions wishes(const AgentOptions& options);  // includes this process's environment
// From hwloc, /proc, cgroup v2, and NVML if its library is present.
Hardware find_hardware();
Result<Inventory> assemble(const Hardware& hardware, const InventoryOptions& options);
Result<Inventory> discover(const InventoryOptions& options);
std::int64_t available_memory();    // bytes, by the kernel's estimate; 0 if it cannot be read
std::vector<GpuStats> gpu_stats();  // the present values; empty without NVML; not thread-safe

// Returns "A100" for "NVIDIA A100-SXM4-80GB". README-inventory.md has the rule.
std::string short_gpu_type(const std::string& nvml_name);
Result<Resources> parse_resources(const std::string& text);
Result<std::vector<GpuDevice>> parse_fake_gpus(const std::string& text);

}  // namespace rtrain::agent
