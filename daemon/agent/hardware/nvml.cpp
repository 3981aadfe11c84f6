// Asking NVML. A device that has fallen off the bus answers with errors: it is left out, and the rest still counts.
#include "daemon/agent/hardware/nvml.hpp"

#include <dlfcn.h>

#include <cmath>
#include <limits>

namespace rtrain::agent {
namespace {

constexpr unsigned int name_size = 96;  // NVML's own bounds for names and uuids
constexpr unsigned int affinity_words = 64;
constexpr unsigned long long xid_event = 8;  // nvmlEventTypeXidCriticalError
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

template <class... Arguments>
bool bind(void* library, const char* name, std::function<int(Arguments...)>& function) {
    auto found = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    if (found) function = found;
    return found != nullptr;
}

template <class Read>
std::string text_of(Read read) {
    char text[name_size] = {};
    if (read(text, name_size) != 0) return "";
    text[name_size - 1] = 0;
    return text;
}

std::vector<std::uint32_t> bits_of(const std::vector<unsigned long>& words) {
    constexpr std::uint32_t width = sizeof(unsigned long) * 8;
    std::vector<std::uint32_t> bits;
    for (std::uint32_t bit = 0; bit < words.size() * width; ++bit)
        if (words[bit / width] >> (bit % width) & 1) bits.push_back(bit);
    return bits;
}

}  // namespace

// The library stays open until the end of the process: NVML keeps threads of its own.
Result<NvmlApi> load_nvml(const std::string& name) {
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char* why = dlerror();
        return Error{ErrorCode::not_found, name + " cannot be loaded: " + (why ? why : "no reason given"),
                     "install the NVIDIA driver if this node has GPUs"};
    }
    NvmlApi api;
    bool bound = bind(library, "nvmlInit_v2", api.init_v2) && bind(library, "nvmlShutdown", api.shutdown) &&
                 bind(library, "nvmlSystemGetDriverVersion", api.system_driver_version) &&
                 bind(library, "nvmlDeviceGetCount_v2", api.device_count_v2) &&
                 bind(library, "nvmlDeviceGetHandleByIndex_v2", api.device_by_index_v2) &&
                 bind(library, "nvmlDeviceGetName", api.device_name) &&
                 bind(library, "nvmlDeviceGetUUID", api.device_uuid) &&
                 bind(library, "nvmlDeviceGetMemoryInfo", api.device_memory) &&
                 bind(library, "nvmlDeviceGetPciInfo_v3", api.device_pci_v3) &&
                 bind(library, "nvmlDeviceGetCpuAffinity", api.device_cpu_affinity) &&
                 bind(library, "nvmlDeviceGetUtilizationRates", api.device_utilization) &&
                 bind(library, "nvmlDeviceGetPowerUsage", api.device_power) &&
                 bind(library, "nvmlDeviceGetTemperature", api.device_temperature) &&
                 bind(library, "nvmlEventSetCreate", api.event_set_create) &&
                 bind(library, "nvmlEventSetFree", api.event_set_free) &&
                 bind(library, "nvmlDeviceRegisterEvents", api.register_events) &&
                 bind(library, "nvmlEventSetWait_v2", api.event_wait_v2);
    if (!bound)
        return Error{ErrorCode::invalid, name + " lacks a function that rtrain needs: the driver is older than 450",
                     "update the NVIDIA driver"};
    return api;
}

Result<std::unique_ptr<Nvml>> Nvml::open(NvmlApi api) {
    if (int code = api.init_v2(); code != 0)
        return Error{ErrorCode::io, "NVML does not start: its error " + std::to_string(code),
                     "run nvidia-smi; a reboot helps after a driver update"};
    auto nvml = std::unique_ptr<Nvml>(new Nvml(std::move(api)));
    nvml->watch_xids();
    return nvml;
}

Nvml::~Nvml() {
    if (events_) api_.event_set_free(events_);
    api_.shutdown();
}

std::string Nvml::driver_version() const { return text_of(api_.system_driver_version); }

std::vector<GpuDevice> Nvml::devices() const {
    std::vector<GpuDevice> devices;
    unsigned int count = 0;
    if (api_.device_count_v2(&count) != 0) return devices;
    for (unsigned int index = 0; index < count; ++index) {
        NvmlDevice handle = nullptr;
        if (api_.device_by_index_v2(index, &handle) != 0) continue;
        GpuDevice device;
        device.index = index;
        device.uuid = text_of([&](char* text, unsigned int size) { return api_.device_uuid(handle, text, size); });
        device.name = text_of([&](char* text, unsigned int size) { return api_.device_name(handle, text, size); });
        if (device.uuid.empty() || device.name.empty()) continue;
        device.type = short_gpu_type(device.name);
        NvmlMemory memory{};
        if (api_.device_memory(handle, &memory) == 0) device.memory_bytes = static_cast<std::int64_t>(memory.total);
        NvmlPci pci{};
        if (api_.device_pci_v3(handle, &pci) == 0) device.pci_bus = pci.bus_id;
        std::vector<unsigned long> words(affinity_words);
        if (api_.device_cpu_affinity(handle, affinity_words, words.data()) == 0) device.near_cpus = bits_of(words);
        devices.push_back(std::move(device));
    }
    return devices;
}

std::vector<GpuStats> Nvml::stats() {
    collect_xids();
    std::vector<GpuStats> all;
    unsigned int count = 0;
    if (api_.device_count_v2(&count) != 0) return all;
    for (unsigned int index = 0; index < count; ++index) {
        NvmlDevice handle = nullptr;
        if (api_.device_by_index_v2(index, &handle) != 0) continue;
        GpuStats stats;
        stats.uuid = text_of([&](char* text, unsigned int size) { return api_.device_uuid(handle, text, size); });
        NvmlMemory memory{};
        NvmlUtilization utilization{};
        unsigned int milliwatts = 0, celsius = 0;
        if (stats.uuid.empty() || api_.device_memory(handle, &memory) != 0) continue;
        stats.memory_used_bytes = static_cast<std::int64_t>(memory.used);
        stats.memory_total_bytes = static_cast<std::int64_t>(memory.total);
        bool busy_known = api_.device_utilization(handle, &utilization) == 0;
        stats.utilization_ratio = busy_known ? utilization.gpu / 100.0 : unknown;
        stats.power_watts = api_.device_power(handle, &milliwatts) == 0 ? milliwatts / 1e3 : unknown;
        stats.temperature_celsius = api_.device_temperature(handle, 0, &celsius) == 0 ? celsius : unknown;
        stats.xids = xids_[handle];
        all.push_back(std::move(stats));
    }
    return all;
}

// Xids come as events. Where the driver has none (containers without the capability), counts stay empty.
void Nvml::watch_xids() {
    unsigned int count = 0;
    if (api_.device_count_v2(&count) != 0 || api_.event_set_create(&events_) != 0) return;
    for (unsigned int index = 0; index < count; ++index) {
        NvmlDevice handle = nullptr;
        if (api_.device_by_index_v2(index, &handle) == 0)
            static_cast<void>(api_.register_events(handle, xid_event, events_));
    }
}

void Nvml::collect_xids() {
    constexpr int most = 1'000;  // a device in trouble may flood
    NvmlEvent event{};
    for (int i = 0; events_ && i < most && api_.event_wait_v2(events_, &event, 0) == 0; ++i)
        if (event.type == xid_event) ++xids_[event.device][event.data];
}

}  // namespace rtrain::agent
