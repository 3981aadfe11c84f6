// Notices of a cloud that it will take this machine away: spot instances of AWS, preemptible ones of GCP, scheduled
// events of Azure. The agent requests them only if the firmware names that cloud, from the metadata address of that
// cloud.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rtrain::agent {

enum class Cloud { none, aws, gcp, azure };

struct FirmwareNames {  // the files of /sys/class/dmi/id
    std::string sys_vendor, product_name, chassis_asset_tag;
};
FirmwareNames firmware_names(const std::string& dmi_directory);
Cloud cloud_of(const FirmwareNames& names);

struct CloudNotice {
    std::string why;
    std::int64_t left_ms = 0;  // time until the machine is taken away
    bool operator==(const CloudNotice&) const = default;
};

// Each returns the notice in a cloud's answer. Returns nullopt if there is none, or if the answer is not the cloud's.
std::optional<CloudNotice> aws_notice(const std::string& instance_action, std::int64_t wall_ms);
std::optional<CloudNotice> gcp_notice(const std::string& preempted);
std::optional<CloudNotice> azure_notice(const std::string& scheduled_events, const std::string& machine,
                                        std::int64_t wall_ms);

// The address of the metadata server. An agent uses only the default; no variable and no option changes it. Tests pass
// their own.
struct MetadataPlace {
    std::string host = "169.254.169.254";
    std::uint16_t port = 80;
};
// Requests the notice, for some seconds at most. An error counts as no notice, since the request is repeated soon.
std::optional<CloudNotice> look_for_notice(Cloud cloud, const MetadataPlace& place, std::int64_t wall_ms);

}  // namespace rtrain::agent
