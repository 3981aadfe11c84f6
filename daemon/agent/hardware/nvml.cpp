// Reads NVML. A device that has fallen off the bus returns errors. It is left out, and the others are still read.
#include "daemon/agent/hardware/nvml.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace rtrain::agent {
namespace {

constexpr unsigned int name_size = 96;  // NVML's bounds for names and uuids
constexpr unsigned int affinity_words = 64;
constexpr unsigned long long xid_event = 8;                    // nvmlEventTypeXidCriticalError
constexpr int corrected = 0, uncorrected = 1, since_load = 0;  // NVML_MEMORY_ERROR_TYPE_*, NVML_VOLATILE_ECC
constexpr unsigned int processes_of_device_most = 1'024;       // per device; further ones are not counted
constexpr unsigned long long memory_most = ~0ull >> 1;         // larger values are NVML_VALUE_NOT_AVAILABLE
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

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

std::string Nvml::uuid_of(NvmlDevice device) const {
    return text_of([&](char* text, unsigned int size) { return api_.device_uuid(device, text, size); });
}

std::optional<std::uint64_t> Nvml::ecc_errors(NvmlDevice device, int kind) const {
    unsigned long long errors = 0;
    if (!api_.device_ecc_errors || api_.device_ecc_errors(device, kind, since_load, &errors) != 0) return std::nullopt;
    return errors;
}

std::optional<std::vector<GpuProcess>> Nvml::processes(NvmlDevice device) const {
    if (!api_.device_processes_v3) return std::nullopt;
    unsigned int count = processes_of_device_most;
    std::vector<NvmlProcess> read(count);
    if (api_.device_processes_v3(device, &count, read.data()) != 0) return std::nullopt;
    std::vector<GpuProcess> all;
    for (unsigned int i = 0; i < std::min(count, processes_of_device_most); ++i)
        all.push_back({read[i].pid, read[i].memory > memory_most ? 0 : static_cast<std::int64_t>(read[i].memory)});
    return all;
}

// Returns nullopt if the device does not answer.
std::optional<GpuStats> Nvml::stats_of(NvmlDevice device) {
    GpuStats stats;
    stats.uuid = uuid_of(device);
    NvmlMemory memory{};
    NvmlUtilization utilization{};
    unsigned int milliwatts = 0, celsius = 0;
    if (stats.uuid.empty() || api_.device_memory(device, &memory) != 0) return std::nullopt;
    known_[device] = stats.uuid;
    stats.memory_used_bytes = static_cast<std::int64_t>(memory.used);
    stats.memory_total_bytes = static_cast<std::int64_t>(memory.total);
    const bool busy_known = api_.device_utilization(device, &utilization) == 0;
    stats.utilization_ratio = busy_known ? utilization.gpu / 100.0 : unknown;
    stats.power_watts = api_.device_power(device, &milliwatts) == 0 ? milliwatts / 1e3 : unknown;
    stats.temperature_celsius = api_.device_temperature(device, 0, &celsius) == 0 ? celsius : unknown;
    stats.ecc_corrected = ecc_errors(device, corrected);
    stats.ecc_uncorrected = ecc_errors(device, uncorrected);
    stats.processes = processes(device);
    return stats;
}

// Returns the values of all devices. A device that has fallen off the bus is included with its Xid errors; 79 is the
// error for that.
std::vector<GpuStats> Nvml::stats() {
    collect_xids();
    std::vector<GpuStats> all;
    std::set<std::string> lost;
    for (const auto& [device, uuid] : known_) lost.insert(uuid);
    unsigned int count = 0;
    if (api_.device_count_v2(&count) != 0) count = 0;
    for (unsigned int index = 0; index < count; ++index) {
        NvmlDevice handle = nullptr;
        if (api_.device_by_index_v2(index, &handle) != 0) continue;
        auto stats = stats_of(handle);
        if (!stats) continue;
        stats->xids = xids_[stats->uuid];
        lost.erase(stats->uuid);
        all.push_back(std::move(*stats));
    }
    for (const std::string& uuid : lost)
        all.push_back({.uuid = uuid,
                       .answers = false,
                       .power_watts = unknown,
                       .temperature_celsius = unknown,
                       .xids = xids_[uuid]});
    return all;
}

// Subscribes to Xid events. Without support (containers without the capability) the counts stay empty.
void Nvml::watch_xids() {
    unsigned int count = 0;
    const bool listens = api_.event_set_create(&events_) == 0;
    if (!listens) events_ = nullptr;
    if (api_.device_count_v2(&count) != 0) return;
    for (unsigned int index = 0; index < count; ++index) {
        NvmlDevice handle = nullptr;
        if (api_.device_by_index_v2(index, &handle) != 0) continue;
        if (const std::string uuid = uuid_of(handle); !uuid.empty()) known_[handle] = uuid;
        if (listens) static_cast<void>(api_.register_events(handle, xid_event, events_));
    }
}

void Nvml::collect_xids() {
    constexpr int most = 1'000;  // a faulty device may send many
    NvmlEvent event{};
    for (int i = 0; events_ && i < most && api_.event_wait_v2(events_, &event, 0) == 0; ++i)
        if (event.type == xid_event && known_.contains(event.device)) ++xids_[known_[event.device]][event.data];
}

}  // namespace rtrain::agent
