// Stands in for NVIDIA's libnvidia-ml.so.1 where there is no GPU (`scripts/gpu-check --cpu`,
// tests/monitoring): what the agent and the rows call, and no more. Memory in use is what living
// processes have written into files: as with a real driver, a process that is gone holds nothing.
//
// GPU_CHECK_STAND_IN names a folder with a file `count`; <uuid>/<pid> holds the bytes that the process has taken.
// Files that may be there: <uuid>.utilization (percent), <uuid>.corrected and <uuid>.uncorrected (memory errors),
// <uuid>.xids (numbers, one for each event), <uuid>.lost (the device has fallen off the bus).
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { success = 0, not_supported = 3, not_found = 6, too_small = 7, timed_out = 10, lost = 15, most_devices = 8 };
static const unsigned long long total_bytes = 80ull << 30;

struct nvmlDevice_st {
    unsigned int index;
    long xids_given;
};
typedef struct nvmlDevice_st* Device;
static struct nvmlDevice_st devices[most_devices];

typedef struct {
    unsigned long long total, free, used;
} Memory;
typedef struct {
    unsigned int gpu, memory;
} Utilization;
typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} Pci;

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
} Process;
typedef struct {
    Device device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} Event;

static const char* folder(void) {
    const char* named = getenv("GPU_CHECK_STAND_IN");
    return named ? named : "/nonexistent";
}

static long number_in(const char* path) {
    long value = 0;
    FILE* file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%ld", &value) != 1) value = 0;
    fclose(file);
    return value;
}

// Returns whether the process still holds memory of a device. A zombie holds none.
static int lives(const char* pid) {
    char path[300], state = 'Z';
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE* file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(file);
    return state != 'Z' && state != 'X';
}

int nvmlInit_v2(void) { return success; }
int nvmlShutdown(void) { return success; }

int nvmlSystemGetDriverVersion(char* text, unsigned int size) {
    snprintf(text, size, "0.0.0-stand-in");
    return success;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
    char path[4200];
    snprintf(path, sizeof path, "%s/count", folder());
    const long named = number_in(path);
    *count = named < 0 ? 0 : named > most_devices ? most_devices : (unsigned int)named;
    return success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
    unsigned int count = 0;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count) return not_found;
    devices[index].index = index;
    *device = &devices[index];
    return success;
}

int nvmlDeviceGetName(Device device, char* text, unsigned int size) {
    (void)device;
    snprintf(text, size, "NVIDIA StandIn 80GB");
    return success;
}

int nvmlDeviceGetUUID(Device device, char* text, unsigned int size) {
    snprintf(text, size, "GPU-57a4d140-0000-0000-0000-%012u", device->index);
    return success;
}

// Reads the number in the file <uuid><end>; 0 if there is no such file.
static void file_of(Device device, const char* end, char* path, size_t size) {
    char uuid[96];
    nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    snprintf(path, size, "%s/%s%s", folder(), uuid, end);
}

static long fact(Device device, const char* end) {
    char path[4400];
    file_of(device, end, path, sizeof path);
    return number_in(path);
}

static int is_lost(Device device) { return fact(device, ".lost") != 0; }

// Calls `each` for the living processes that hold memory of the device.
static void for_processes(Device device, void (*each)(void*, unsigned int, unsigned long long), void* with) {
    char path[4400];
    file_of(device, "", path, sizeof path);
    DIR* entries = opendir(path);
    for (struct dirent* entry; entries && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.' || !lives(entry->d_name)) continue;
        char file[4700];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        each(with, (unsigned int)strtoul(entry->d_name, NULL, 10), (unsigned long long)number_in(file));
    }
    if (entries) closedir(entries);
}

static void add_memory(void* to, unsigned int pid, unsigned long long bytes) {
    (void)pid;
    *(unsigned long long*)to += bytes;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
    if (is_lost(device)) return lost;
    memory->total = total_bytes;
    memory->used = 0;
    for_processes(device, add_memory, &memory->used);
    memory->free = memory->total - memory->used;
    return success;
}

struct listing {
    Process* processes;
    unsigned int room, count;
};

static void add_process(void* to, unsigned int pid, unsigned long long bytes) {
    struct listing* listing = to;
    if (listing->count < listing->room) listing->processes[listing->count] = (Process){pid, bytes, ~0u, ~0u};
    ++listing->count;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int* count, Process* processes) {
    struct listing listing = {processes, *count, 0};
    if (is_lost(device)) return lost;
    for_processes(device, add_process, &listing);
    *count = listing.count;
    return listing.count > listing.room ? too_small : success;
}

int nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, unsigned long long* errors) {
    if (is_lost(device)) return lost;
    if (counter != 0) return not_supported;
    *errors = (unsigned long long)fact(device, kind == 0 ? ".corrected" : ".uncorrected");
    return success;
}

int nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = device->index + 1;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return success;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
    if (is_lost(device)) return lost;
    utilization->gpu = (unsigned int)fact(device, ".utilization");
    utilization->memory = 0;
    return success;
}

int nvmlDeviceGetPowerUsage(Device device, unsigned int* milliwatts) {
    (void)device;
    *milliwatts = 70000;
    return success;
}

int nvmlDeviceGetTemperature(Device device, int sensor, unsigned int* celsius) {
    (void)device;
    (void)sensor;
    *celsius = 40;
    return success;
}

int nvmlDeviceGetMigMode(Device device, unsigned int* now, unsigned int* later) {
    (void)device;
    *now = *later = 0;
    return success;
}

// Functions that a driver in a container may lack; the agent works without them.
int nvmlDeviceGetCpuAffinity(Device device, unsigned int words, unsigned long* mask) {
    (void)device;
    (void)words;
    (void)mask;
    return not_supported;
}

int nvmlEventSetCreate(void** set) {
    *set = devices;
    return success;
}
int nvmlEventSetFree(void* set) {
    (void)set;
    return success;
}
int nvmlDeviceRegisterEvents(Device device, unsigned long long types, void* set) {
    (void)device;
    (void)types;
    (void)set;
    return success;
}

// Returns the next number in the file of any device; each number is returned once.
int nvmlEventSetWait_v2(void* set, Event* event, unsigned int milliseconds) {
    (void)set;
    (void)milliseconds;
    for (int index = 0; index < most_devices; ++index) {
        char path[4400];
        devices[index].index = (unsigned int)index;
        file_of(&devices[index], ".xids", path, sizeof path);
        FILE* file = fopen(path, "r");
        if (!file) continue;
        long xid = 0, at = 0;
        int there = fscanf(file, "%ld", &xid) == 1;
        for (; there && at < devices[index].xids_given; ++at) there = fscanf(file, "%ld", &xid) == 1;
        fclose(file);
        if (!there) continue;
        ++devices[index].xids_given;
        *event = (Event){&devices[index], 8, (unsigned long long)xid, ~0u, ~0u};
        return success;
    }
    return timed_out;
}
