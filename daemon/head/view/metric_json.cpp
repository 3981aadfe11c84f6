// See metric_json.hpp.
#include "daemon/head/view/metric_json.hpp"

#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/json_members.hpp"
#include "base/json_text.hpp"
#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr const char* of_checkpoint = "checkpoint";  // name of the member of a row that is not a rank

bool wanted(const RankChoice& choice, const std::string& rank) {
    return choice.all || choice.ranks.contains(static_cast<std::uint32_t>(std::strtoul(rank.c_str(), nullptr, 10)));
}

// Appends a rank's metrics, or only the metric `key`. If a name occurs twice, the last value counts, as everywhere in
// JSON.
void append_metrics(std::string& out, std::string_view metrics, const std::string& key) {
    if (key.empty()) return storage::append_on_one_line(out, metrics.starts_with('{') ? metrics : "{}");
    std::string_view chosen;
    storage::each_member(metrics, [&](std::string_view name, std::string_view value) {
        if (storage::is_name(name, key)) chosen = value;
    });
    out += '{';
    if (!chosen.empty()) {
        out += json_text(json(key)) + ':';
        storage::append_on_one_line(out, chosen);
    }
    out += '}';
}

}  // namespace

std::string metric_text(const state::MetricRow& row, const RankChoice& choice, const std::string& key) {
    const auto only = choice.ranks.empty() ? std::optional<std::uint32_t>(0) : choice.ranks.only();
    const bool of_one = !choice.all && only;
    std::string_view checkpoint, of_rank = "{}";
    std::string by_rank;
    storage::each_member(row.ranks_json, [&](std::string_view name, std::string_view value) {
        if (name == of_checkpoint) {
            checkpoint = value;
        } else if (of_one && name == std::to_string(*only)) {
            of_rank = value;
        } else if (!of_one && wanted(choice, std::string(name))) {
            by_rank += (by_rank.empty() ? "\"" : ",\"") + std::string(name) + "\":";
            append_metrics(by_rank, value, key);
        }
    });
    std::string out = R"({"attempt":)" + std::to_string(row.attempt.number) + R"(,"index":)" +
                      std::to_string(row.index) + R"(,"time":)" + json_text(wall_json(row.wall_ms)) +
                      R"(,"position":)" + (row.position == 0 ? "null" : std::to_string(row.position));
    if (!checkpoint.empty()) storage::append_on_one_line(out += R"(,"checkpoint":)", checkpoint);
    if (of_one)
        append_metrics(out += R"(,"metrics":)", of_rank, key);
    else
        out += R"(,"metrics_by_rank":{)" + by_rank + '}';
    return out + '}';
}

nlohmann::json metric_json(const state::MetricRow& row) { return parsed_or_null(metric_text(row, {}, "")); }

nlohmann::json metrics_of(const state::MetricRow& row) { return metric_json(row).value("metrics", json::object()); }

}  // namespace rtrain::head
