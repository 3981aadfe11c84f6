// A node's offer: names of GPUs, options of the operator, and NVML with a driver that answers as real ones do.
#include "daemon/agent/hardware/inventory.hpp"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "daemon/agent/hardware/nvml.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

GpuDevice gpu(std::uint32_t index, const std::string& name) {
    GpuDevice device;
    device.index = index;
    device.uuid = "GPU-" + std::to_string(index) + "abc";
    device.name = name;
    device.type = short_gpu_type(name);
    return device;
}

Hardware machine(const std::vector<std::string>& gpu_names = {}) {
    Hardware hardware;
    hardware.cpus = units(16);
    hardware.memory_bytes = 64LL << 30;
    hardware.allowed_cpus = {0, 1, 2, 3};
    hardware.facts = {{"hostname", "n1"}, {"arch", "x86_64"}};
    for (const std::string& name : gpu_names)
        hardware.gpus.push_back(gpu(static_cast<std::uint32_t>(hardware.gpus.size()), name));
    return hardware;
}

NvmlDevice handle(std::uintptr_t number) { return reinterpret_cast<NvmlDevice>(number); }

int put(char* text, unsigned int size, const char* value) {
    std::strncpy(text, value, size);
    return 0;
}

// Two GPUs. The second has fallen off the bus and returns 15 (NVML_ERROR_GPU_IS_LOST) from every call.
NvmlApi driver_with_a_lost_gpu(int& xids_waiting) {
    auto lost = [](NvmlDevice device) { return device == handle(2) ? 15 : 0; };
    NvmlApi api;
    api.init_v2 = [] { return 0; };
    api.shutdown = [] { return 0; };
    api.system_driver_version = [](char* text, unsigned int size) { return put(text, size, "550.54.15"); };
    api.device_count_v2 = [](unsigned int* count) { return *count = 2, 0; };
    api.device_by_index_v2 = [](unsigned int index, NvmlDevice* device) { return *device = handle(index + 1), 0; };
    api.device_name = [lost](NvmlDevice device, char* text, unsigned int size) {
        return lost(device) ? 15 : put(text, size, "NVIDIA H100 80GB HBM3");
    };
    api.device_uuid = [lost](NvmlDevice device, char* text, unsigned int size) {
        return lost(device) ? 15 : put(text, size, "GPU-0abc");
    };
    api.device_memory = [lost](NvmlDevice device, NvmlMemory* memory) { return *memory = {80, 50, 30}, lost(device); };
    api.device_pci_v3 = [lost](NvmlDevice device, NvmlPci* pci) {
        return put(pci->bus_id, 32, "00000000:3B:00.0"), lost(device);
    };
    api.device_cpu_affinity = [](NvmlDevice, unsigned int, unsigned long* words) {
        return words[0] = 0b1010, words[1] = 1, 0;
    };
    api.device_utilization = [lost](NvmlDevice device, NvmlUtilization* busy) {
        return *busy = {73, 10}, lost(device);
    };
    api.device_power = [](NvmlDevice, unsigned int* milliwatts) { return *milliwatts = 312'500, 0; };
    api.device_temperature = [](NvmlDevice, int, unsigned int*) { return 3; };  // NVML_ERROR_NOT_SUPPORTED
    api.event_set_create = [](NvmlEventSet* set) { return *set = reinterpret_cast<NvmlEventSet>(1), 0; };
    api.event_set_free = [](NvmlEventSet) { return 0; };
    api.register_events = [lost](NvmlDevice device, unsigned long long, NvmlEventSet) { return lost(device); };
    api.event_wait_v2 = [&xids_waiting](NvmlEventSet, NvmlEvent* event, unsigned int) {
        if (xids_waiting == 0) return 10;  // NVML_ERROR_TIMEOUT
        --xids_waiting;
        *event = {handle(1), 8, 79, 0, 0};
        return 0;
    };
    return api;
}

}  // namespace

TEST_CASE("NVML's product names become the short types that people write") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"NVIDIA A100-SXM4-80GB", "A100"},
        {"NVIDIA A100 80GB PCIe", "A100"},
        {"A100-SXM4-40GB", "A100"},
        {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100"},
        {"GRID A100-10C", "A100"},
        {"NVIDIA A100X", "A100X"},
        {"NVIDIA H100 80GB HBM3", "H100"},
        {"NVIDIA H100 PCIe", "H100"},
        {"NVIDIA H100 NVL", "H100"},
        {"NVIDIA H200", "H200"},
        {"NVIDIA H200 NVL", "H200"},
        {"NVIDIA H20", "H20"},
        {"NVIDIA H800", "H800"},
        {"NVIDIA GH200 480GB", "GH200"},
        {"NVIDIA B200", "B200"},
        {"NVIDIA GB200", "GB200"},
        {"NVIDIA B300 SXM6 AC", "B300"},
        {"Tesla T4", "T4"},
        {"Tesla V100-SXM2-16GB", "V100"},
        {"Tesla V100-PCIE-32GB", "V100"},
        {"Tesla V100-DGXS-32GB", "V100"},
        {"Tesla P100-PCIE-16GB", "P100"},
        {"Tesla P4", "P4"},
        {"Tesla K80", "K80"},
        {"Tesla M60", "M60"},
        {"NVIDIA L4", "L4"},
        {"NVIDIA L40", "L40"},
        {"NVIDIA L40S", "L40S"},
        {"NVIDIA A10", "A10"},
        {"NVIDIA A10G", "A10G"},
        {"NVIDIA A16", "A16"},
        {"NVIDIA A2", "A2"},
        {"NVIDIA A30", "A30"},
        {"NVIDIA A40", "A40"},
        {"NVIDIA GB10", "GB10"},
        {"NVIDIA GeForce RTX 3090", "RTX3090"},
        {"NVIDIA GeForce RTX 4090", "RTX4090"},
        {"NVIDIA GeForce RTX 4090 D", "RTX4090D"},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", "RTX4090"},
        {"GeForce RTX 2080 Ti", "RTX2080Ti"},
        {"NVIDIA GeForce RTX 4070 Ti SUPER", "RTX4070TiSUPER"},
        {"NVIDIA GeForce GTX 1080 Ti", "GTX1080Ti"},
        {"NVIDIA RTX A6000", "RTXA6000"},
        {"NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000"},
        {"Quadro RTX 8000", "RTX8000"},
        {"Quadro P6000", "P6000"},
        {"NVIDIA TITAN RTX", "TITANRTX"},
        {"NVIDIA TITAN V", "TITANV"},
        {"Orin (nvgpu)", "Orin"},
        {"NVIDIA", "NVIDIA"},
        {"", "GPU"},
    };
    for (const auto& [name, type] : table) {
        CAPTURE(name);
        CHECK(short_gpu_type(name) == type);
    }
}

TEST_CASE("a node offers what it has, and its accelerator as a resource and a label") {
    Inventory inventory = *assemble(machine({"NVIDIA H200", "NVIDIA H200"}), {});
    CHECK(inventory.total ==
          Resources{{"CPU", units(16)}, {"memory", units(64LL << 30)}, {"accelerator_type:H200", units(1)}});
    CHECK(inventory.gpus == 2);
    CHECK(inventory.gpu_model == "NVIDIA H200");
    CHECK(inventory.accelerator_type == "H200");
    CHECK(inventory.labels == Labels{{"accelerator_type", "H200"}, {"hostname", "n1"}, {"arch", "x86_64"}});
    CHECK(inventory.devices[1].near_cpus == std::vector<std::uint32_t>{0, 1, 2, 3});
    CHECK(assemble(machine(), {})->labels.count("accelerator_type") == 0);
}

TEST_CASE("a node with two kinds of GPU offers both; its label is the more frequent") {
    Inventory inventory = *assemble(machine({"Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"}), {});
    CHECK(inventory.total.count("accelerator_type:T4") == 1);
    CHECK(inventory.total.count("accelerator_type:A100") == 1);
    CHECK(inventory.accelerator_type == "A100");
}

TEST_CASE("wishes replace what was found: --resources, --fake-gpus, --accelerator-type") {
    InventoryOptions options{.resources = "CPU=2.5,memory=1.5Gi,licence=2",
                             .fake_gpus = "8xA100",
                             .accelerator_type = "",
                             .visible_devices = std::nullopt};
    Inventory inventory = *assemble(machine({"Tesla T4"}), options);
    CHECK(inventory.total == Resources{{"CPU", Amount{25'000}},
                                       {"memory", units(3LL << 29)},
                                       {"licence", units(2)},
                                       {"accelerator_type:A100", units(1)}});
    CHECK(inventory.gpus == 8);
    CHECK(inventory.devices[7].uuid == "FAKE-7");
    options.accelerator_type = "X9";
    options.resources = "GPU=3,CPU=0";
    inventory = *assemble(machine(), options);
    CHECK(inventory.gpus == 3);
    CHECK(inventory.labels["accelerator_type"] == "X9");
    CHECK(inventory.total.count("accelerator_type:A100") == 0);
    CHECK(inventory.total.count("CPU") == 0);
}

TEST_CASE("a node offers its memory without --reserve-memory") {
    const std::int64_t GiB = std::int64_t{1} << 30;
    CHECK(amount_of(assemble(machine(), {.reserve_memory = 4 * GiB})->total, memory_key) == units(60 * GiB));
    const auto wished = assemble(machine(), {.resources = "memory=16Gi", .reserve_memory = 4 * GiB});
    CHECK(amount_of(wished->total, memory_key) == units(12 * GiB));
    const auto all = assemble(machine(), {.reserve_memory = 64 * GiB});
    REQUIRE_FALSE(all);
    CHECK(all.error().message.find("--reserve-memory") == 0);
}

TEST_CASE("GPUs that a batch system did not give us are not offered") {
    Hardware hardware = machine({"NVIDIA L4", "NVIDIA L4", "NVIDIA L4"});
    auto indices = [&](const std::string& visible) {
        std::vector<std::uint32_t> seen;
        InventoryOptions options;
        options.visible_devices = visible;
        Inventory inventory = *assemble(hardware, options);
        for (const GpuDevice& device : inventory.devices) seen.push_back(device.index);
        return seen;
    };
    CHECK(indices("2,0") == std::vector<std::uint32_t>{2, 0});
    CHECK(indices("GPU-1a") == std::vector<std::uint32_t>{1});
    CHECK(indices("").empty());
    CHECK(indices("0,-1,2") == std::vector<std::uint32_t>{0});
}

TEST_CASE("a wish that cannot be is refused with the flag, the reason and an example") {
    auto refused = [](InventoryOptions options) {
        Result<Inventory> inventory = assemble(machine({"Tesla T4"}), options);
        REQUIRE_FALSE(inventory.ok());
        CHECK(inventory.error().code == ErrorCode::usage);
        CHECK(inventory.error().next.find("for example --") == 0);
        return inventory.error().message;
    };
    InventoryOptions none;
    for (const char* text : {"CPU", "CPU=", "=3", "CPU=-1", "CPU=1,CPU=2", "CPU=1,", "memory=16Gb", "memory=99999999Ti",
                             "a b=1", "CPU=0.00001", "CPU=1e3"}) {
        CAPTURE(text);
        none.resources = text;
        CHECK(refused(none).find("--resources") == 0);
    }
    none.resources = "CPU=-1,disk,memory=16Gb,tpu=1,tpu=2";
    for (const char* part : {"CPU: \"-1\"", "\"disk\" is not NAME=AMOUNT", "memory: ", "tpu is given twice"})
        CHECK(refused(none).find(part) != std::string::npos);
    none.resources = "x=500000000000000";
    CHECK(refused(none) == "--resources x=500000000000000: 500000000000000 x, an amount is from 0 to 400000000000000");
    none.resources = "GPU=2";
    CHECK(refused(none).find("this node has 1") != std::string::npos);
    none.resources = "GPU=0.5";
    CHECK(refused(none).find("whole GPUs") != std::string::npos);
    none.resources = "";
    for (const char* text : {"A100", "8", "x", "8x", "-1xA100", "99999xA100", "8xA 100"}) {
        CAPTURE(text);
        none.fake_gpus = text;
        CHECK(refused(none).find("--fake-gpus") == 0);
    }
    none.fake_gpus = "";
    none.accelerator_type = "A 100";
    CHECK(refused(none).find("--accelerator-type") == 0);
}

TEST_CASE("this machine has a processor and memory, and no driver is no error") {
    Inventory inventory = *discover({});
    CHECK(inventory.total.at("CPU") > Amount{0});
    CHECK(inventory.total.at("memory") > units(1 << 20));
    CHECK_FALSE(inventory.cpus.empty());
    CHECK_FALSE(inventory.facts.at("hostname").empty());
    CHECK(gpu_stats().size() >= inventory.devices.size());
    CHECK(load_nvml("libno-such-driver.so.1").error().code == ErrorCode::not_found);
}

TEST_CASE("a GPU that fell off the bus is left out, and the others still answer") {
    int xids_waiting = 0;
    std::unique_ptr<Nvml> nvml = Nvml::open(driver_with_a_lost_gpu(xids_waiting)).value();
    CHECK(nvml->driver_version() == "550.54.15");
    std::vector<GpuDevice> devices = nvml->devices();
    REQUIRE(devices.size() == 1);
    CHECK(devices[0].type == "H100");
    CHECK(devices[0].pci_bus == "00000000:3B:00.0");
    CHECK(devices[0].near_cpus == std::vector<std::uint32_t>{1, 3, 64});
    std::vector<GpuStats> stats = nvml->stats();
    REQUIRE(stats.size() == 1);
    CHECK(stats[0].utilization_ratio == 0.73);
    CHECK(stats[0].memory_used_bytes == 30);
    CHECK(stats[0].power_watts == 312.5);
    CHECK(std::isnan(stats[0].temperature_celsius));
}

TEST_CASE("Xid errors are counted by number from the start of the agent") {
    int xids_waiting = 2;
    std::unique_ptr<Nvml> nvml = Nvml::open(driver_with_a_lost_gpu(xids_waiting)).value();
    CHECK(nvml->stats().at(0).xids == std::map<std::uint64_t, std::uint64_t>{{79, 2}});
    xids_waiting = 1;
    CHECK(nvml->stats().at(0).xids == std::map<std::uint64_t, std::uint64_t>{{79, 3}});
}

TEST_CASE("a device that is lost later is told of with its Xid errors alone") {
    int xids_waiting = 0;
    bool lost = false;
    NvmlApi api = driver_with_a_lost_gpu(xids_waiting);
    api.device_memory = [&lost](NvmlDevice device, NvmlMemory* memory) {
        if (lost || device == handle(2)) return 15;
        return *memory = {100, 70, 30}, 0;
    };
    const std::unique_ptr<Nvml> nvml = Nvml::open(std::move(api)).value();
    REQUIRE(nvml->stats().at(0).answers);
    lost = true;
    xids_waiting = 1;
    const std::vector<GpuStats> stats = nvml->stats();
    REQUIRE(stats.size() == 1);
    CHECK_FALSE(stats[0].answers);
    CHECK(stats[0].uuid == nvml->devices().at(0).uuid);
    CHECK(stats[0].xids == std::map<std::uint64_t, std::uint64_t>{{79, 1}});
}

TEST_CASE("memory errors and processes come from drivers that tell, and are left open by others") {
    int none = 0;
    NvmlApi api = driver_with_a_lost_gpu(none);
    CHECK_FALSE(Nvml::open(api).value()->stats().at(0).processes);
    api.device_ecc_errors = [](NvmlDevice, int kind, int counter, unsigned long long* errors) {
        *errors = kind == 1 ? 4 : 0;
        return counter == 0 && kind == 1 ? 0 : 3;  // NVML_ERROR_NOT_SUPPORTED
    };
    api.device_processes_v3 = [](NvmlDevice, unsigned int* count, NvmlProcess* processes) {
        if (*count < 2) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
        *count = 2;
        processes[0] = {4'711, 1 << 20, 0, 0};
        processes[1] = {4'712, ~0ull, 0, 0};
        return 0;
    };
    const GpuStats stats = Nvml::open(std::move(api)).value()->stats().at(0);
    CHECK(stats.ecc_uncorrected == 4);
    CHECK_FALSE(stats.ecc_corrected);
    CHECK(stats.processes == std::vector<GpuProcess>{{.pid = 4'711, .memory_bytes = 1 << 20}, {.pid = 4'712}});
}

TEST_CASE("an agent that is root takes NVML from where root alone can have put it") {
    constexpr const char* name = "libnvidia-ml.so.1";
    CHECK(is_roots_alone("/usr/lib", name));
    CHECK_FALSE(is_roots_alone("", name));
    CHECK_FALSE(is_roots_alone("/usr/lib:", name));  // the current directory
    CHECK_FALSE(is_roots_alone("lib", name));
    CHECK_FALSE(is_roots_alone("/tmp", name));                // any user may put a library there
    CHECK_FALSE(is_roots_alone("/tmp/rtrain-none/x", name));  // or make that directory
    const Folder folder;
    if (::geteuid() != 0) {
        CHECK_FALSE(is_roots_alone(folder.path, name));
        return;
    }
    CHECK(is_roots_alone(folder.path, name));
    CHECK(is_roots_alone("/usr/lib;" + folder.path, name));
    const std::string file = folder.path + "/" + name, of_user = folder.path + "/user";
    std::filesystem::create_directory(of_user);
    std::filesystem::create_symlink(of_user + "/own.so", file);
    REQUIRE(::chown(of_user.c_str(), 65'534, 65'534) == 0);
    CHECK_FALSE(is_roots_alone(folder.path, name));  // through the link
    CHECK_FALSE(is_roots_alone(of_user, name));
    CHECK_FALSE(is_roots_alone("/usr/lib:" + of_user, name));
    std::filesystem::remove(file);
    CHECK(is_roots_alone(folder.path, name));
    std::filesystem::permissions(folder.path, std::filesystem::perms(0770));
    CHECK_FALSE(is_roots_alone(folder.path, name));  // a group may write there
}

TEST_CASE("a driver that does not start is an error with a way on") {
    int none = 0;
    NvmlApi api = driver_with_a_lost_gpu(none);
    api.init_v2 = [] { return 18; };  // NVML_ERROR_LIB_RM_VERSION_MISMATCH
    Error refused = Nvml::open(std::move(api)).error();
    CHECK(refused.message.find("18") != std::string::npos);
    CHECK_FALSE(refused.next.empty());
}
