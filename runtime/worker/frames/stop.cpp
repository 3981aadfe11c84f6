#include "runtime/worker/frames/stop.hpp"

#include <nlohmann/json.hpp>

#include "base/json_members.hpp"
#include "base/json_text.hpp"

namespace rtrain::worker {

// A report may have megabytes, and the head's loop calls this: only the numbers of these metrics are parsed.
std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json) {
    if (stop_at.empty()) return std::nullopt;
    std::map<std::string, double> numbers;
    const bool is_object = storage::each_member(metrics_json, [&](std::string_view name, std::string_view value) {
        for (const auto& [key, unused] : stop_at) {
            if (!storage::is_name(name, key)) continue;
            const auto number = value[0] != '-' && (value[0] < '0' || value[0] > '9') ? nlohmann::json()
                                                                                      : parse_json(std::string(value));
            number.is_number() ? (void)(numbers[key] = number.get<double>()) : (void)numbers.erase(key);
        }
    });
    if (!is_object) return std::nullopt;
    for (const auto& [key, value] : stop_at)
        if (const auto number = numbers.find(key); number != numbers.end() && number->second >= value)
            return std::pair{key, number->second};
    return std::nullopt;
}

}  // namespace rtrain::worker
