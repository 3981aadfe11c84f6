// The device files of NVIDIA's driver. The first program that uses a GPU makes them by a setuid program
// (nvidia-modprobe), which workers without new privileges cannot: the agent makes them before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::agent {

struct DeviceNode {
    std::string name;  // below /dev
    std::uint32_t major = 0, minor = 0, uid = 0, gid = 0, mode = 0;
    bool operator==(const DeviceNode&) const = default;
};

// Pure. `devices`: /proc/devices; `params`: /proc/driver/nvidia/params; `gpus`: /proc/driver/nvidia/gpus/*/information.
// Empty where there is no driver, or where its ModifyDeviceFiles is 0.
std::vector<DeviceNode> nvidia_nodes(const std::string& devices, const std::string& params,
                                     const std::vector<std::string>& gpus);

// Makes those that are missing below `dev`; what is there stays as it is. `proc`: "/proc". Done where there is no
// driver.
Status make_nvidia_nodes(const std::string& proc, const std::string& dev);

}  // namespace rtrain::agent
