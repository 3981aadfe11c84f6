// See metric_numbers.hpp.
#include "daemon/protocol/metric_numbers.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace rtrain::protocol {
namespace {

using nlohmann::json;

// Returns metrics["a/b"], else metrics["a"]["b"]; null if there is neither.
const json* nested(const json& metrics, const std::string& name) {
    if (!metrics.is_object()) return nullptr;
    if (const auto whole = metrics.find(name); whole != metrics.end()) return &*whole;
    for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1))
        if (const auto inner = metrics.find(name.substr(0, slash)); inner != metrics.end())
            if (const json* number = nested(*inner, name.substr(slash + 1))) return number;
    return nullptr;
}

bool not_finite(const json& value) {  // the text for such a number in reports
    return value == "NaN" || value == "Infinity" || value == "-Infinity";
}

}  // namespace

std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score) {
    std::map<std::string, double> out;
    const json metrics = parse_json(metrics_json);
    if (!metrics.is_object()) return out;
    for (const auto& [key, value] : metrics.items())
        if (value.is_number()) out[key] = value.get<double>();
    const json* number = score.empty() ? nullptr : nested(metrics, score);
    if (number != nullptr && number->is_number()) out[score] = number->get<double>();
    if (number != nullptr && not_finite(*number)) out[score] = std::numeric_limits<double>::quiet_NaN();
    return out;
}

}  // namespace rtrain::protocol
