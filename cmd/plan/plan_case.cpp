// Answers cases: questions about placements, such as "Does this gang fit on these nodes?". A faulty case gets the
// answer "invalid" with the reason.
#include "cmd/plan/plan_case.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/text/suggest.hpp"
#include "scheduler/model/records.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain::cmd {

Error invalid(std::string message) {
    return {.code = ErrorCode::invalid, .message = std::move(message), .next = "docs/cli.md, plan"};
}

std::string text_of(const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : json_text(value);
}

namespace {

using nlohmann::json;

Result<LabelSelector> selector_from(const json& value) {
    LabelSelector selector;
    if (!value.is_object()) return invalid("a label selector must be a map");
    for (const auto& [key, inner] : value.items()) {
        Result<LabelCondition> condition = parse_label_condition(key, text_of(inner));
        if (!condition) return invalid("label " + key + ": " + condition.error().message);
        selector.push_back(*condition);
    }
    return selector;
}

Status read_selectors(const json& request, GangRequest& gang) {
    if (!request.contains("bundle_label_selector") || request["bundle_label_selector"].is_null()) return Done{};
    const json& given = request["bundle_label_selector"];
    const json list = given.is_object() ? json::array({given}) : given;
    if (!list.is_array() || (list.size() > 1 && list.size() != gang.bundles.size()))
        return invalid("bundle_label_selector needs one selector, or one for each of the " +
                       std::to_string(gang.bundles.size()) + " bundles");
    for (std::size_t i = 0; i < gang.bundles.size() && !list.empty(); ++i) {
        Result<LabelSelector> selector = selector_from(list.size() == 1 ? list[0] : list[i]);
        if (!selector) return selector.error();
        gang.bundles[i].selector = *selector;
    }
    return Done{};
}

Status read_placed(const json& request, GangRequest& gang) {
    if (!request.contains("placed") || request["placed"].is_null()) return Done{};
    if (!request["placed"].is_object()) return invalid("placed must be a map of bundle to node");
    for (const auto& [index, node] : request["placed"].items()) {
        const bool number = !index.empty() && index.size() < 8 && index.find_first_not_of("0123456789") == index.npos;
        if (!number || std::stoul(index) >= gang.bundles.size())
            return invalid("placed names bundle \"" + index + "\", which is not among the bundles");
        gang.placed[static_cast<std::uint32_t>(std::stoul(index))].value = text_of(node);
    }
    return Done{};
}

}  // namespace

Result<GangRequest> request_from(const json& request) {
    if (!request.is_object()) return invalid("there is no \"request\"");
    GangRequest gang;
    const std::string word = request.contains("strategy") ? text_of(request["strategy"]) : "";
    const auto placement = strategy(word);
    if (!placement) {
        const std::string near = nearest(word, {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"});
        return invalid("strategy \"" + word + "\" is none of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD" +
                       (near.empty() ? "" : "; did you mean " + near + "?"));
    }
    gang.strategy = *placement;
    if (!request.contains("bundles") || !request["bundles"].is_array())
        return invalid("request needs a list of bundles");
    for (const json& bundle : request["bundles"]) {
        Result<Resources> demand = exact_resources(bundle, "bundle " + std::to_string(gang.bundles.size()));
        if (!demand) return demand.error();
        gang.bundles.push_back({.demand = std::move(*demand), .selector = {}});
    }
    if (Status done = read_selectors(request, gang); !done) return done.error();
    gang.driver = request.value("driver", json()) == json(true);
    if (request.contains("topology") && !request["topology"].is_null()) {
        if (!request["topology"].is_object() || !request["topology"].contains("label"))
            return invalid("topology needs a \"label\"");
        gang.topology_label = text_of(request["topology"]["label"]);
    }
    if (Status done = read_placed(request, gang); !done) return done.error();
    return gang;
}

namespace {

// Adds devices to the seats of bundles that stay in place, as far as the allocations name them.
void fill_placed(const DescribedCluster& cluster, const GangRequest& request, PlacementAnswer& answer) {
    std::map<NodeId, std::size_t> next;
    for (const auto& [bundle, node] : request.placed) {
        const auto own = cluster.own_gpus.find(node);
        const std::size_t at = next[node]++;
        if (bundle < answer.seats.size() && own != cluster.own_gpus.end() && at < own->second.size() &&
            answer.seats[bundle].gpus.empty())
            answer.seats[bundle].gpus = own->second[at];
    }
}

}  // namespace

// Places the gang on its soft target first. If the gang does not fit there, the soft target has no effect.
PlacementAnswer answer_case(const DescribedCluster& cluster, const GangRequest& request,
                            const std::string& soft_target) {
    const bool together =
        request.strategy == Strategy::pack || request.strategy == Strategy::strict_pack || request.bundles.size() == 1;
    if (!soft_target.empty() && together && request.placed.empty()) {
        GangRequest there = request;
        there.nodes_only = {NodeId{soft_target}};
        PlacementAnswer answer = place(cluster.now, there);
        if (answer.verdict == Verdict::feasible_now) return answer;
    }
    PlacementAnswer answer = place(cluster.now, request);
    if (answer.verdict == Verdict::feasible_now) {
        fill_placed(cluster, request, answer);
        return answer;
    }
    answer = explain_placement(cluster.now, request);
    if (answer.verdict == Verdict::invalid || cluster.own_gpus.empty()) return answer;
    const PlacementAnswer later = place(cluster.later, request);
    answer.verdict = later.verdict == Verdict::feasible_now ? Verdict::pending : Verdict::infeasible;
    answer.proved = answer.proved && later.proved;
    return answer;
}

json answer_json(const PlacementAnswer& answer) {
    json value = {{"verdict", to_text(answer.verdict)}, {"reasons", json::array()}, {"proved", answer.proved}};
    for (const NodeReason& reason : answer.reasons)
        value["reasons"].push_back({{"node", reason.node.value}, {"text", reason.text}});
    if (!answer.nearest_change.empty()) value["nearest_change"] = answer.nearest_change;
    if (answer.verdict != Verdict::feasible_now) return value;
    value["placement"] = json::object();
    for (std::size_t i = 0; i < answer.seats.size(); ++i) {
        json seat = {{"node", answer.seats[i].node.value}, {"gpu", json::object()}};
        for (const GpuShare& share : answer.seats[i].gpus)
            seat["gpu"][std::to_string(share.device)] =
                static_cast<double>(share.amount.ticks) / static_cast<double>(Amount::per_unit);
        value["placement"][std::to_string(i)] = seat;
    }
    return value;
}

namespace {

// Joins all errors of a case into one text.
Error joined(const Problems& wrong) {
    std::string text;
    for (const Problem& problem : wrong) text += (text.empty() ? "" : "; ") + problem.message;
    return invalid(std::move(text));
}

}  // namespace

std::string answer_line(const std::string& line) {
    json answer;
    json id;
    const auto refuse = [&](const Error& error) {
        answer = {{"verdict", "invalid"}, {"reasons", {{{"node", ""}, {"text", error.message}}}}, {"proved", true}};
    };
    Result<json> question = parse_exact(line);
    if (question && !question->is_object()) question = invalid("a case must be a JSON object");
    if (question) {
        id = question->value("id", json());
        Problems wrong;
        const DescribedCluster cluster = cluster_from(*question, wrong);
        const json& asked = (*question)["request"];
        Result<GangRequest> request = request_from(asked);
        if (!wrong.empty())
            refuse(joined(wrong));
        else if (!request)
            refuse(request.error());
        else
            answer = answer_json(answer_case(cluster, *request, text_of(asked.value("soft_target", json("")))));
    } else {
        refuse(question.error());
    }
    answer["id"] = id;
    answer["schema_version"] = 1;
    return json_text(answer);
}

}  // namespace rtrain::cmd
