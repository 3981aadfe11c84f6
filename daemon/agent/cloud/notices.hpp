// Notices of a cloud that it takes this machine away: spot instances of AWS, preemptible ones of GCP, scheduled events
// of Azure. Asked for only where the firmware names that cloud, at the address that it keeps for its machines alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rtrain::agent {

enum class Cloud { none, aws, gcp, azure };

struct FirmwareNames {  // of /sys/class/dmi/id
    std::string sys_vendor, product_name, chassis_asset_tag;
};
FirmwareNames firmware_names(const std::string& dmi_directory);
Cloud cloud_of(const FirmwareNames& names);

struct CloudNotice {
    std::string why;
    std::int64_t left_ms = 0;  // until the machine goes
    bool operator==(const CloudNotice&) const = default;
};

// Each returns the notice that a cloud's answer holds. Nothing: the machine stays, or the answer is not the cloud's.
std::optional<CloudNotice> aws_notice(const std::string& instance_action, std::int64_t wall_ms);
std::optional<CloudNotice> gcp_notice(const std::string& preempted);
std::optional<CloudNotice> azure_notice(const std::string& scheduled_events, const std::string& machine,
                                        std::int64_t wall_ms);

// Where a cloud answers its machines. An agent asks there and nowhere else: no variable and no option names another
// place. Tests call this function with their own.
struct MetadataPlace {
    std::string host = "169.254.169.254";
    std::uint16_t port = 80;
};
// Asks, at most some seconds long; errors are no notice: the next question comes soon.
std::optional<CloudNotice> look_for_notice(Cloud cloud, const MetadataPlace& place, std::int64_t wall_ms);

}  // namespace rtrain::agent
