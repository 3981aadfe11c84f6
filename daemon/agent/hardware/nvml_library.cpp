// Opens NVML. A library's code runs with the rights of the process that opens it. So an agent that runs as root takes
// it only from a place that only root can write. The linker searches such places last, and LD_LIBRARY_PATH first. A
// user's directory in that (from a login shell or conda) would let the user's file run as root.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "daemon/agent/hardware/nvml.hpp"

namespace rtrain::agent {
namespace {

constexpr const char* system_directories[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                                              "/usr/local/nvidia/lib64",   "/usr/lib/wsl/lib",           "/usr/lib"};

template <class... Arguments>
bool bind(void* library, const char* name, std::function<int(Arguments...)>& function) {
    auto symbol = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    if (symbol) function = symbol;
    return symbol != nullptr;
}

bool bind_all(void* library, NvmlApi& api) {
    const bool bound[] = {
        bind(library, "nvmlInit_v2", api.init_v2),
        bind(library, "nvmlShutdown", api.shutdown),
        bind(library, "nvmlSystemGetDriverVersion", api.system_driver_version),
        bind(library, "nvmlDeviceGetCount_v2", api.device_count_v2),
        bind(library, "nvmlDeviceGetHandleByIndex_v2", api.device_by_index_v2),
        bind(library, "nvmlDeviceGetName", api.device_name),
        bind(library, "nvmlDeviceGetUUID", api.device_uuid),
        bind(library, "nvmlDeviceGetMemoryInfo", api.device_memory),
        bind(library, "nvmlDeviceGetPciInfo_v3", api.device_pci_v3),
        bind(library, "nvmlDeviceGetCpuAffinity", api.device_cpu_affinity),
        bind(library, "nvmlDeviceGetUtilizationRates", api.device_utilization),
        bind(library, "nvmlDeviceGetPowerUsage", api.device_power),
        bind(library, "nvmlDeviceGetTemperature", api.device_temperature),
        bind(library, "nvmlEventSetCreate", api.event_set_create),
        bind(library, "nvmlEventSetFree", api.event_set_free),
        bind(library, "nvmlDeviceRegisterEvents", api.register_events),
        bind(library, "nvmlEventSetWait_v2", api.event_wait_v2),
    };
    return std::all_of(std::begin(bound), std::end(bound), [](bool is_bound) { return is_bound; });
}

// Returns true if only root controls each step of the path, and of the links on it. In a directory where all may write,
// but rename only their own entries (/tmp), that holds for existing entries of root. A missing entry could be made by
// any user.
bool whole_way_is_roots(const std::filesystem::path& path, int links_left = 40) {
    std::filesystem::path way;
    bool open_place = false;
    for (const auto& part : path) {
        const std::filesystem::path before = way;
        way /= part;
        struct stat facts{};
        if (::lstat(way.c_str(), &facts) != 0) return errno == ENOENT && !open_place;
        if (facts.st_uid != 0) return false;
        if (S_ISLNK(facts.st_mode)) {
            std::error_code wrong;
            const std::filesystem::path target = before / std::filesystem::read_symlink(way, wrong);
            if (wrong || links_left == 0 || !whole_way_is_roots(target, links_left - 1)) return false;
            open_place = false;
            continue;
        }
        open_place = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
        if (open_place && !(S_ISDIR(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0)) return false;
    }
    return !open_place;
}

bool file_is_roots(const std::string& directory, const std::string& name) {
    return directory.starts_with('/') &&
           whole_way_is_roots(directory + "/" + name);  // otherwise the path is relative to the current directory
}

// Returns the argument of dlopen: the library's name, or its path in a system directory.
std::string place_of(const std::string& name) {
    const char* path = std::getenv("LD_LIBRARY_PATH");
    if (::geteuid() != 0 || !path || !*path || is_roots_alone(path, name) || name.find('/') != std::string::npos)
        return name;
    for (const char* directory : system_directories)
        if (const std::string place = std::string(directory) + "/" + name; ::access(place.c_str(), R_OK) == 0)
            return place;
    return std::string(system_directories[0]) + "/" + name;
}

}  // namespace

bool is_roots_alone(const std::string& library_path, const std::string& library) {
    for (std::size_t begin = 0; begin <= library_path.size();) {
        const std::size_t end = std::min(library_path.find_first_of(":;", begin), library_path.size());
        if (!file_is_roots(library_path.substr(begin, end - begin), library)) return false;
        begin = end + 1;
    }
    return true;
}

// Loads the library. It stays open until the process ends, since NVML has its own threads.
Result<NvmlApi> load_nvml(const std::string& name) {
    const std::string place = place_of(name);
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char* why = dlerror();
        return Error{ErrorCode::not_found, name + " cannot be loaded: " + (why ? why : "no reason given"),
                     "install the NVIDIA driver if this node has GPUs"};
    }
    NvmlApi api;
    if (!bind_all(library, api))
        return Error{ErrorCode::invalid, name + " lacks a function that rtrain needs: the driver is older than 450",
                     "update the NVIDIA driver"};
    bind(library, "nvmlDeviceGetTotalEccErrors", api.device_ecc_errors);
    if (!bind(library, "nvmlDeviceGetComputeRunningProcesses_v3", api.device_processes_v3))
        bind(library, "nvmlDeviceGetComputeRunningProcesses_v2", api.device_processes_v3);  // has the same structure
    return api;
}

}  // namespace rtrain::agent
