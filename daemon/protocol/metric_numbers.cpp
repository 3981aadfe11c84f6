// See metric_numbers.hpp.
#include "daemon/protocol/metric_numbers.hpp"

#include <limits>
#include <optional>
#include <string_view>

#include "base/json_members.hpp"

namespace rtrain::protocol {
namespace {

using storage::each_member, storage::is_name, storage::name_of, storage::number_of;

// Returns the text of metrics["a/b"], else of metrics["a"]["b"]; nullopt if there is neither. Reads each level once.
std::optional<std::string_view> nested(std::string_view metrics, std::string_view name) {
    std::optional<std::string_view> whole;
    std::map<std::size_t, std::string_view> inner;  // by the length of the name's beginning
    each_member(metrics, [&](std::string_view quoted, std::string_view value) {
        if (is_name(quoted, name)) {
            whole = value;
        } else if (value.starts_with('{')) {
            const std::string key = name_of(quoted);
            if (name.starts_with(key) && name.substr(key.size()).starts_with('/')) inner[key.size()] = value;
        }
    });
    if (whole) return whole;
    for (const auto& [length, object] : inner)
        if (const auto value = nested(object, name.substr(length + 1))) return value;
    return std::nullopt;
}

bool not_finite(std::string_view value) {  // the text for such a number in reports
    return value == R"("NaN")" || value == R"("Infinity")" || value == R"("-Infinity")";
}

}  // namespace

std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score) {
    std::map<std::string, double> out;
    const bool is_object = each_member(metrics_json, [&](std::string_view quoted, std::string_view value) {
        const auto number = number_of(value);
        if (number && out.size() < checkpoint_numbers_most) out[name_of(quoted)] = *number;
    });
    if (!is_object) return {};
    const auto text = score.empty() ? std::nullopt : nested(metrics_json, score);
    if (!text) return out;
    if (const auto number = number_of(*text)) out[score] = *number;
    if (not_finite(*text)) out[score] = std::numeric_limits<double>::quiet_NaN();
    return out;
}

}  // namespace rtrain::protocol
