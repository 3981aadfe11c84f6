// See notices.hpp.
#include "daemon/agent/cloud/notices.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/agent/cloud/plain_http.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;

constexpr std::int64_t gcp_left_ms = 30'000;     // time from `preempted` to the end of the machine
constexpr std::int64_t untold_left_ms = 30'000;  // for a started event of Azure, which contains no time
constexpr const char* azure_tag = "7783-7084-3265-9085-8269-3286-77";

std::string line_of(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

std::optional<std::int64_t> unix_ms(const std::string& text, const char* form) {
    std::tm parts{};
    if (::strptime(text.c_str(), form, &parts) == nullptr) return std::nullopt;
    return static_cast<std::int64_t>(::timegm(&parts)) * 1'000;
}

std::string text_in(const json& object, const char* name) {
    const auto entry = object.find(name);
    return entry != object.end() && entry->is_string() ? entry->get<std::string>() : "";
}

bool takes_machine(const json& event, const std::string& machine) {
    const std::string type = text_in(event, "EventType");
    if (type != "Preempt" && type != "Terminate" && type != "Redeploy" && type != "Reboot") return false;
    const auto resources = event.find("Resources");
    return resources != event.end() && resources->is_array() &&
           std::any_of(resources->begin(), resources->end(), [&](const json& resource) {
               return resource.is_string() && resource.get<std::string>() == machine;
           });
}

std::optional<std::string> fetched(const MetadataPlace& place, HttpQuestion question) {
    question.host = place.host;
    question.port = place.port;
    const std::optional<HttpAnswer> answer = fetch_plain_http(question);
    return answer && answer->status == 200 ? std::optional(answer->body) : std::nullopt;
}

}  // namespace

FirmwareNames firmware_names(const std::string& dmi_directory) {
    return {.sys_vendor = line_of(dmi_directory + "/sys_vendor"),
            .product_name = line_of(dmi_directory + "/product_name"),
            .chassis_asset_tag = line_of(dmi_directory + "/chassis_asset_tag")};
}

// Microsoft's own hypervisor has the same vendor. Only Azure has the tag.
Cloud cloud_of(const FirmwareNames& names) {
    if (names.sys_vendor == "Amazon EC2") return Cloud::aws;
    if (names.product_name == "Google Compute Engine") return Cloud::gcp;
    if (names.sys_vendor == "Microsoft Corporation" && names.chassis_asset_tag == azure_tag) return Cloud::azure;
    return Cloud::none;
}

std::optional<CloudNotice> aws_notice(const std::string& instance_action, std::int64_t wall_ms) {
    const json action = parse_json(instance_action);
    if (!action.is_object()) return std::nullopt;
    const auto at = unix_ms(text_in(action, "time"), "%Y-%m-%dT%H:%M:%SZ");
    const std::string what = text_in(action, "action");
    if (!at || what.empty()) return std::nullopt;
    return CloudNotice{.why = "AWS will " + what + " this spot instance",
                       .left_ms = std::max<std::int64_t>(*at - wall_ms, 0)};
}

std::optional<CloudNotice> gcp_notice(const std::string& preempted) {
    if (!preempted.starts_with("TRUE")) return std::nullopt;
    return CloudNotice{.why = "Google Cloud preempts this machine", .left_ms = gcp_left_ms};
}

std::optional<CloudNotice> azure_notice(const std::string& scheduled_events, const std::string& machine,
                                        std::int64_t wall_ms) {
    const json answer = parse_json(scheduled_events);
    if (!answer.is_object() || !answer.contains("Events") || !answer["Events"].is_array()) return std::nullopt;
    std::optional<CloudNotice> soonest;
    for (const json& event : answer["Events"]) {
        if (!event.is_object() || !takes_machine(event, machine)) continue;
        const auto at = unix_ms(text_in(event, "NotBefore"), "%a, %d %b %Y %H:%M:%S GMT");
        const std::int64_t left = at ? std::max<std::int64_t>(*at - wall_ms, 0) : untold_left_ms;
        if (!soonest || left < soonest->left_ms)
            soonest = CloudNotice{.why = "Azure: " + text_in(event, "EventType") + " of this machine", .left_ms = left};
    }
    return soonest;
}

std::optional<CloudNotice> look_for_notice(Cloud cloud, const MetadataPlace& place, std::int64_t wall_ms) {
    switch (cloud) {
        case Cloud::none:
            return std::nullopt;
        case Cloud::aws: {
            const auto token = fetched(place, {.method = "PUT",
                                               .target = "/latest/api/token",
                                               .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "60"}}});
            if (!token) return std::nullopt;
            const auto action = fetched(place, {.target = "/latest/meta-data/spot/instance-action",
                                                .headers = {{"X-aws-ec2-metadata-token", *token}}});
            return action ? aws_notice(*action, wall_ms) : std::nullopt;
        }
        case Cloud::gcp: {
            const auto preempted = fetched(place, {.target = "/computeMetadata/v1/instance/preempted",
                                                   .headers = {{"Metadata-Flavor", "Google"}}});
            return preempted ? gcp_notice(*preempted) : std::nullopt;
        }
        case Cloud::azure: {
            const auto name =
                fetched(place, {.target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
                                .headers = {{"Metadata", "true"}}});
            const auto events = fetched(place, {.target = "/metadata/scheduledevents?api-version=2020-07-01",
                                                .headers = {{"Metadata", "true"}}});
            return name && events ? azure_notice(*events, *name, wall_ms) : std::nullopt;
        }
    }
    return std::nullopt;
}

}  // namespace rtrain::agent
