// NVML, opened at run time, so that one build runs with and without a driver. This file declares the few types and
// functions in use. nvml.h guarantees that they never change (new ones get a _vN name).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agent/hardware/inventory.hpp"

namespace rtrain::agent {

using NvmlDevice = struct nvmlDevice_st*;
using NvmlEventSet = struct nvmlEventSet_st*;
struct NvmlMemory {
    unsigned long long total, free, used;  // bytes
};
struct NvmlUtilization {
    unsigned int gpu, memory;  // percent
};
struct NvmlProcess {
    unsigned int pid;
    unsigned long long memory;  // in bytes; all bits set: unknown
    unsigned int gpu_instance, compute_instance;
};
struct NvmlPci {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
struct NvmlEvent {
    NvmlDevice device;
    unsigned long long type, data;  // data: the Xid
    unsigned int gpu_instance, compute_instance;
};

// The library's functions under their own names. Tests replace them. The result 0 is success.
struct NvmlApi {
    std::function<int()> init_v2;
    std::function<int()> shutdown;
    std::function<int(char*, unsigned int)> system_driver_version;
    std::function<int(unsigned int*)> device_count_v2;
    std::function<int(unsigned int, NvmlDevice*)> device_by_index_v2;
    std::function<int(NvmlDevice, char*, unsigned int)> device_name;
    std::function<int(NvmlDevice, char*, unsigned int)> device_uuid;
    std::function<int(NvmlDevice, NvmlMemory*)> device_memory;
    std::function<int(NvmlDevice, NvmlPci*)> device_pci_v3;
    std::function<int(NvmlDevice, unsigned int, unsigned long*)> device_cpu_affinity;
    std::function<int(NvmlDevice, NvmlUtilization*)> device_utilization;
    std::function<int(NvmlDevice, unsigned int*)> device_power;             // milliwatts
    std::function<int(NvmlDevice, int, unsigned int*)> device_temperature;  // sensor 0, Celsius
    std::function<int(NvmlEventSet*)> event_set_create;
    std::function<int(NvmlEventSet)> event_set_free;
    std::function<int(NvmlDevice, unsigned long long, NvmlEventSet)> register_events;
    std::function<int(NvmlEventSet, NvmlEvent*, unsigned int)> event_wait_v2;
    // Empty if the driver is too old. Kind 0: corrected, 1: uncorrected. Counter 0: since the driver's load.
    std::function<int(NvmlDevice, int kind, int counter, unsigned long long*)> device_ecc_errors;
    std::function<int(NvmlDevice, unsigned int*, NvmlProcess*)> device_processes_v3;
};
// An agent that runs as root opens the library only from a place that only root can write (nvml_library.cpp).
Result<NvmlApi> load_nvml(const std::string& library = "libnvidia-ml.so.1");
// Returns true if only root can decide which file the linker finds under the name in a list such as LD_LIBRARY_PATH.
bool is_roots_alone(const std::string& library_path, const std::string& library);

class Nvml {
  public:
    static Result<std::unique_ptr<Nvml>> open(NvmlApi api);  // initialises NVML
    ~Nvml();
    Nvml(const Nvml&) = delete;

    std::string driver_version() const;
    std::vector<GpuDevice> devices() const;  // near_cpus from NVML; devices that do not answer are left out
    std::vector<GpuStats> stats();

  private:
    explicit Nvml(NvmlApi api) : api_(std::move(api)) {}
    void watch_xids();
    void collect_xids();
    std::string uuid_of(NvmlDevice device) const;
    std::optional<GpuStats> stats_of(NvmlDevice device);
    std::optional<std::uint64_t> ecc_errors(NvmlDevice device, int kind) const;
    std::optional<std::vector<GpuProcess>> processes(NvmlDevice device) const;

    NvmlApi api_;
    NvmlEventSet events_ = nullptr;
    std::map<NvmlDevice, std::string> known_;                               // uuids of devices that have answered
    std::map<std::string, std::map<std::uint64_t, std::uint64_t>> xids_{};  // key: uuid
};

}  // namespace rtrain::agent
