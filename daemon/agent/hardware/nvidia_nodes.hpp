// The device files of NVIDIA's driver. The first program that uses a GPU makes them with a setuid program
// (nvidia-modprobe). Workers without new privileges cannot run that, so the agent makes the files before.
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

// Returns the device files. Pure. `devices`: /proc/devices; `params`: /proc/driver/nvidia/params; `gpus`:
// /proc/driver/nvidia/gpus/*/information. Empty without a driver, or if its ModifyDeviceFiles is 0.
std::vector<DeviceNode> nvidia_nodes(const std::string& devices, const std::string& params,
                                     const std::vector<std::string>& gpus);

// Makes the missing files below `dev`. Does not change existing ones. `proc`: "/proc". Succeeds without a driver.
Status make_nvidia_nodes(const std::string& proc, const std::string& dev);

}  // namespace rtrain::agent
