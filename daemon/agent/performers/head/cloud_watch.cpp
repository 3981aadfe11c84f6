#include "daemon/agent/performers/head/cloud_watch.hpp"

#include <optional>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t notice_every_ms = 5'000;
constexpr const char* firmware = "/sys/class/dmi/id";

}  // namespace

void CloudWatch::begin() {
    cloud_ = cloud_of(firmware_names(firmware));
    if (cloud_ != Cloud::none) look();
}

void CloudWatch::look() {
    background_.offload([cloud = cloud_, now = wall_ms()] { return look_for_notice(cloud, MetadataPlace{}, now); },
                        [](const Error&) { return std::optional<CloudNotice>(); },
                        [this](const std::optional<CloudNotice>& notice) { answered(notice); });
}

// Handles an answer. The requests continue after a notice: a notice with an earlier end shortens the time
// (ReclaimAsked), a later one has no effect.
void CloudWatch::answered(const std::optional<CloudNotice>& notice) {
    if (notice) {
        if (!state_.reclaim) warn(notice->why + ", in " + std::to_string(notice->left_ms) + " ms: the node is drained");
        inputs_.enqueue(ReclaimAsked{.why = notice->why, .grace_ms = notice->left_ms, .ends = false});
    }
    background_.after(notice_every_ms, [this] { look(); });
}

}  // namespace rtrain::agent
