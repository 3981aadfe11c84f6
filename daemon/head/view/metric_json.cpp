// See metric_json.hpp.
#include "daemon/head/view/metric_json.hpp"

#include <cstdlib>
#include <optional>

#include "daemon/head/view/records_json.hpp"
#include "storage/base/json_text.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr const char* of_checkpoint = "checkpoint";  // beside the ranks of a row

json of_rank(const json& ranks, std::uint32_t rank) {
    const std::string name = std::to_string(rank);
    return ranks.is_object() && ranks.contains(name) && ranks[name].is_object() ? ranks[name] : json::object();
}

json chosen(const json& metrics, const std::string& key) {
    if (!metrics.is_object()) return json::object();
    if (key.empty()) return metrics;
    json out = json::object();
    if (metrics.contains(key)) out[key] = metrics[key];
    return out;
}

bool wanted(const RankChoice& choice, const std::string& rank) {
    return choice.all || choice.ranks.contains(static_cast<std::uint32_t>(std::strtoul(rank.c_str(), nullptr, 10)));
}

}  // namespace

nlohmann::json metrics_of(const state::MetricRow& row, std::uint32_t rank) {
    return of_rank(parsed_or_null(row.ranks_json), rank);
}

nlohmann::json metric_json(const state::MetricRow& row, const RankChoice& choice, const std::string& key) {
    json out = {{"attempt", row.attempt.number},
                {"index", row.index},
                {"time", wall_json(row.wall_ms)},
                {"position", row.position == 0 ? json() : json(row.position)}};
    const json ranks = parsed_or_null(row.ranks_json);
    const bool known = ranks.is_object();
    if (known && ranks.contains(of_checkpoint)) out["checkpoint"] = ranks[of_checkpoint];
    const auto only = choice.ranks.empty() ? std::optional<std::uint32_t>(0) : choice.ranks.only();
    if (!choice.all && only) {
        out["metrics"] = chosen(of_rank(ranks, *only), key);
        return out;
    }
    json& by_rank = out["metrics_by_rank"] = json::object();
    if (!known) return out;
    for (const auto& [rank, metrics] : ranks.items())
        if (rank != of_checkpoint && wanted(choice, rank)) by_rank[rank] = chosen(metrics, key);
    return out;
}

}  // namespace rtrain::head
