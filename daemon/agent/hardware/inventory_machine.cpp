// Reads the machine: processors from hwloc, memory and quotas from /proc and cgroup v2, GPUs from NVML.
#include <hwloc.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "daemon/agent/hardware/nvml.hpp"

namespace rtrain::agent {
namespace {

struct Destroy {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
    void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<struct hwloc_topology, Destroy>;
using Bitmap = std::unique_ptr<struct hwloc_bitmap_s, Destroy>;

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// Returns the value after the colon in "MemTotal:  16316412 kB" or "model name : AMD EPYC".
std::string field_of(const std::string& path, const std::string& name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(name)) continue;
        std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
        return begin == std::string::npos ? "" : line.substr(begin);
    }
    return "";
}

// Returns the directories of this process's cgroup and its parents, the innermost first; empty without cgroup v2.
std::vector<std::string> cgroups() {
    std::vector<std::string> directories;
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("0::")) continue;
        std::string path = line.substr(3);
        while (path.size() > 1) {
            directories.push_back("/sys/fs/cgroup" + path);
            path.resize(path.rfind('/'));
        }
        directories.push_back("/sys/fs/cgroup");  // in a container the visible root has limits
    }
    return directories;
}

std::int64_t usable_memory() {
    std::int64_t bytes = 1'024 * std::strtoll(field_of("/proc/meminfo", "MemTotal").c_str(), nullptr, 10);
    for (const std::string& directory : cgroups()) {
        std::string limit = first_line(directory + "/memory.max");
        if (!limit.empty() && limit != "max")
            bytes = std::min<std::int64_t>(bytes, std::strtoll(limit.c_str(), nullptr, 10));
    }
    return bytes;
}

Amount usable_cpus(std::size_t processors) {
    Amount cpus = units(static_cast<std::int64_t>(processors));
    for (const std::string& directory : cgroups()) {
        std::istringstream words(first_line(directory + "/cpu.max"));  // "150000 100000", or "max 100000"
        std::int64_t quota = 0, period = 0;
        if (words >> quota >> period && period > 0) cpus = std::min(cpus, Amount{quota * Amount::per_unit / period});
    }
    return cpus;
}

// Finds the processors that both the affinity and the cpuset allow, and the machine's topology.
void find_processors(Hardware& hardware) {
    hwloc_topology_t handle = nullptr;
    RTRAIN_CHECK(hwloc_topology_init(&handle) == 0, "hwloc does not start");
    Topology topology(handle);
    Bitmap allowed(hwloc_bitmap_alloc());
    bool bound =
        hwloc_topology_load(handle) == 0 && hwloc_get_cpubind(handle, allowed.get(), HWLOC_CPUBIND_PROCESS) == 0;
    if (bound) {
        hwloc_bitmap_and(allowed.get(), allowed.get(), hwloc_topology_get_allowed_cpuset(handle));
        for (int cpu = hwloc_bitmap_first(allowed.get()); cpu >= 0; cpu = hwloc_bitmap_next(allowed.get(), cpu))
            hardware.allowed_cpus.push_back(static_cast<std::uint32_t>(cpu));
        hardware.facts["cores"] = std::to_string(std::max(1, hwloc_get_nbobjs_by_type(handle, HWLOC_OBJ_CORE)));
        hardware.facts["numa_nodes"] =
            std::to_string(std::max(1, hwloc_get_nbobjs_by_type(handle, HWLOC_OBJ_NUMANODE)));
    }
    std::size_t processors = hardware.allowed_cpus.size();
    if (processors == 0) processors = static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    hardware.cpus = usable_cpus(processors);
}

void find_facts(Hardware& hardware) {
    utsname names{};
    if (uname(&names) == 0) {
        hardware.facts["hostname"] = names.nodename;
        hardware.facts["kernel"] = std::string(names.sysname) + " " + names.release;
        hardware.facts["arch"] = names.machine;
    }
    std::string model = field_of("/proc/cpuinfo", "model name");
    if (!model.empty()) hardware.facts["cpu_model"] = model;
}

// Returns the process's NVML handle, opened at the first call; null without a driver.
Nvml* nvml(std::string* why_not) {
    static std::string reason;
    static const std::unique_ptr<Nvml> opened = [] {
        Result<NvmlApi> api = load_nvml();
        if (!api) {
            reason = api.error().code == ErrorCode::not_found ? "" : api.error().message;
            return std::unique_ptr<Nvml>();
        }
        Result<std::unique_ptr<Nvml>> started = Nvml::open(std::move(*api));
        if (!started) reason = started.error().message;
        return started ? std::move(started).value() : nullptr;
    }();
    if (why_not) *why_not = reason;
    return opened.get();
}

void keep_allowed(std::vector<std::uint32_t>& cpus, const std::vector<std::uint32_t>& allowed) {
    std::erase_if(cpus, [&](std::uint32_t cpu) { return !std::binary_search(allowed.begin(), allowed.end(), cpu); });
}

}  // namespace

Hardware find_hardware() {
    Hardware hardware;
    find_processors(hardware);
    find_facts(hardware);
    hardware.memory_bytes = usable_memory();
    std::string why_not;
    if (Nvml* gpus = nvml(&why_not)) {
        hardware.gpus = gpus->devices();
        hardware.facts["nvidia_driver"] = gpus->driver_version();
    }
    if (!why_not.empty()) hardware.facts["nvml"] = why_not;
    for (GpuDevice& device : hardware.gpus) keep_allowed(device.near_cpus, hardware.allowed_cpus);
    return hardware;
}

InventoryOptions wishes(const AgentOptions& options) {
    InventoryOptions inventory_options{.resources = {},
                                       .fake_gpus = options.fake_gpus,
                                       .accelerator_type = options.accelerator_type,
                                       .reserve_memory = options.reserve_memory,
                                       .visible_devices = {}};
    for (const auto& [name, amount] : options.resources)
        inventory_options.resources += (inventory_options.resources.empty() ? "" : ",") + name + "=" + to_text(amount);
    if (const char* visible = ::getenv("CUDA_VISIBLE_DEVICES")) inventory_options.visible_devices = visible;
    return inventory_options;
}

Result<Inventory> discover(const InventoryOptions& options) { return assemble(find_hardware(), options); }

std::int64_t available_memory() {
    return 1'024 * std::strtoll(field_of("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10);
}

std::vector<GpuStats> gpu_stats() {
    Nvml* gpus = nvml(nullptr);
    return gpus ? gpus->stats() : std::vector<GpuStats>();
}

}  // namespace rtrain::agent

// Debian's libhwloc.a calls libudev for the vendors of disks, which are not needed. These stubs answer "unknown", so
// that the binary does not need libudev. They are in this file so that every linker finds them before hwloc.
extern "C" {
struct udev;
struct udev_device;
udev* udev_new() { return nullptr; }
udev* udev_unref(udev*) { return nullptr; }
udev_device* udev_device_new_from_subsystem_sysname(udev*, const char*, const char*) { return nullptr; }
udev_device* udev_device_unref(udev_device*) { return nullptr; }
const char* udev_device_get_property_value(udev_device*, const char*) { return nullptr; }
}
