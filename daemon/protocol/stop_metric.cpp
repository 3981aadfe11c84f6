// See stop_metric.hpp.
#include "daemon/protocol/stop_metric.hpp"

#include <nlohmann/json.hpp>

namespace rtrain::protocol {

std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json) {
    if (stop_at.empty()) return std::nullopt;
    const auto metrics = nlohmann::json::parse(metrics_json, nullptr, false);
    if (!metrics.is_object()) return std::nullopt;
    for (const auto& [key, value] : stop_at) {
        const auto found = metrics.find(key);
        if (found != metrics.end() && found->is_number() && found->get<double>() >= value)
            return std::pair{key, found->get<double>()};
    }
    return std::nullopt;
}

}  // namespace rtrain::protocol
