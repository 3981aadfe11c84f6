// Stands in for NVIDIA's libnvidia-ml.so.1 where `scripts/gpu-check --cpu` runs without a GPU: what the agent and the
// rows call, and no more. Memory in use is what living processes have written into files: as with a real driver, a
// process that is gone holds nothing.
//
// GPU_CHECK_STAND_IN names a folder with a file `count`; <uuid>/<pid> holds the bytes that the process has taken.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { success = 0, not_supported = 3, not_found = 6, most_devices = 8 };
static const unsigned long long total_bytes = 80ull << 30;

struct nvmlDevice_st {
    unsigned int index;
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

// A process that has ended and was not waited for yet holds no memory of a device any more.
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

int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
    char uuid[96], path[4400];
    nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    snprintf(path, sizeof path, "%s/%s", folder(), uuid);
    memory->total = total_bytes;
    memory->used = 0;
    DIR* entries = opendir(path);
    for (struct dirent* entry; entries && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.' || !lives(entry->d_name)) continue;
        char file[4700];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        memory->used += (unsigned long long)number_in(file);
    }
    if (entries) closedir(entries);
    memory->free = memory->total - memory->used;
    return success;
}

int nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = device->index + 1;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return success;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
    (void)device;
    utilization->gpu = utilization->memory = 0;
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

// What a driver in a container may lack, and the agent does without.
int nvmlDeviceGetCpuAffinity(Device device, unsigned int words, unsigned long* mask) {
    (void)device;
    (void)words;
    (void)mask;
    return not_supported;
}
int nvmlEventSetCreate(void** set) {
    (void)set;
    return not_supported;
}
int nvmlEventSetFree(void* set) {
    (void)set;
    return success;
}
int nvmlDeviceRegisterEvents(Device device, unsigned long long types, void* set) {
    (void)device;
    (void)types;
    (void)set;
    return not_supported;
}
int nvmlEventSetWait_v2(void* set, void* event, unsigned int milliseconds) {
    (void)set;
    (void)event;
    (void)milliseconds;
    return not_supported;
}
