#include "runtime/worker/frames/stop.hpp"

#include <nlohmann/json.hpp>

#include "storage/base/json_text.hpp"

namespace rtrain::worker {

std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json) {
    if (stop_at.empty()) return std::nullopt;
    const auto metrics = parse_json(metrics_json);
    if (!metrics.is_object()) return std::nullopt;
    for (const auto& [key, value] : stop_at) {
        const auto entry = metrics.find(key);
        if (entry != metrics.end() && entry->is_number() && entry->get<double>() >= value)
            return std::pair{key, entry->get<double>()};
    }
    return std::nullopt;
}

}  // namespace rtrain::worker
