// Questions to placement, read strictly: an amount that is not exact, a node that is not there, a word that is not
// known make the case invalid, with the reason.
#include "cmd/plan_case.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cmd/suggest.hpp"
#include "scheduler/records.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Error invalid(std::string message) {
    return {.code = ErrorCode::invalid, .message = std::move(message), .next = "docs/cli.md, plan"};
}

// "1.50e1" to "15": parse_amount reads plain decimals.
std::string plain_decimal(const std::string& text) {
    const auto mark = text.find_first_of("eE");
    std::string digits = text.substr(0, mark);
    long exponent = 0;
    if (mark != text.npos) {
        if (digits.find_first_not_of("-.0123456789") != digits.npos) return text;
        exponent = std::strtol(text.c_str() + mark + 1, nullptr, 10);
        if (exponent > 400 || exponent < -400) exponent = exponent > 0 ? 400 : -400;
    }
    const bool negative = digits.starts_with("-");
    if (negative) digits.erase(0, 1);
    if (digits.find_first_not_of("0.") == digits.npos && !digits.empty()) return "0";
    auto point = digits.find('.');
    if (point == digits.npos && exponent == 0) return text;
    if (point != digits.npos)
        digits.erase(point, 1);
    else
        point = digits.size();
    const long place = static_cast<long>(point) + exponent;
    if (place < 0) digits.insert(0, static_cast<std::size_t>(-place), '0');
    if (place > static_cast<long>(digits.size())) digits.append(static_cast<std::size_t>(place) - digits.size(), '0');
    const std::size_t whole = place < 0 ? 0 : static_cast<std::size_t>(place);
    std::string fraction = digits.substr(whole);
    while (fraction.ends_with("0")) fraction.pop_back();
    std::string front = digits.substr(0, whole);
    if (front.empty()) front = "0";
    return (negative ? "-" : "") + front + (fraction.empty() ? "" : "." + fraction);
}

Result<Amount> amount(const json& value, const std::string& what) {
    if (!value.is_string() && !value.is_number()) return invalid(what + " is not a number");
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    Result<Amount> parsed = parse_amount(plain_decimal(text));
    if (!parsed) return invalid(what + ": " + parsed.error().message);
    return parsed;
}

Result<Resources> resources(const json& value, const std::string& what) {
    if (!value.is_object()) return invalid(what + " must be a map of amounts");
    Resources found;
    for (const auto& [key, inner] : value.items()) {
        Result<Amount> one = amount(inner, what + "." + key);
        if (!one) return one.error();
        if (one->ticks > 0) found[key] = *one;
    }
    return found;
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Result<NodeState> state_of(const json& node, const std::string& id) {
    if (!node.contains("state")) return NodeState::ready;
    const std::string word = text_of(node["state"]);
    if (word == "ready") return NodeState::ready;
    if (word == "draining") return NodeState::draining;
    if (word == "quarantined") return NodeState::quarantined;
    if (word == "lost" || word == "dead") return NodeState::lost;
    return invalid("node " + id + ": state \"" + word + "\" is none of ready, draining, quarantined, lost, dead");
}

Result<NodeView> node_from(const json& node) {
    if (!node.is_object() || !node.contains("id") || !node["id"].is_string())
        return invalid("each of nodes needs an \"id\"");
    const std::string id = node["id"].get<std::string>();
    NodeView view;
    view.id.value = id;
    Result<NodeState> state = state_of(node, id);
    if (!state) return state.error();
    view.state = *state;
    if (node.contains("labels")) {
        if (!node["labels"].is_object()) return invalid("node " + id + ": labels must be a map");
        for (const auto& [key, inner] : node["labels"].items()) view.labels[key] = text_of(inner);
    }
    Result<Resources> total = resources(node.value("resources", json::object()), "node " + id + ": resources");
    if (!total) return total.error();
    const Amount gpus = amount_of(*total, gpu_key);
    if (gpus.ticks % Amount::per_unit != 0) return invalid("node " + id + ": GPU is a number of whole devices");
    if (gpus.ticks / Amount::per_unit > 4096) return invalid("node " + id + ": more than 4096 GPUs");
    total->erase(std::string(gpu_key));
    view.total = *total;
    view.free = std::move(*total);
    view.gpus_free.assign(static_cast<std::size_t>(gpus.ticks / Amount::per_unit), units(1));
    return view;
}

Status take_device(NodeView& node, std::size_t device, Amount wanted) {
    if (device >= node.gpus_free.size())
        return invalid("an allocation names GPU " + std::to_string(device) + " of node " + node.id.value +
                       ", which has " + std::to_string(node.gpus_free.size()));
    if (wanted > node.gpus_free[device])
        return invalid("allocations take more of GPU " + std::to_string(device) + " of node " + node.id.value +
                       " than there is");
    node.gpus_free[device] = node.gpus_free[device] - wanted;
    return Done{};
}

// An allocation that says how many GPUs but not which: whole devices first to last, a fraction on the fullest that
// takes it.
Status take_any_device(NodeView& node, Amount wanted) {
    while (wanted.ticks >= Amount::per_unit) {
        std::size_t device = 0;
        while (device < node.gpus_free.size() && node.gpus_free[device] != units(1)) ++device;
        if (Status taken = take_device(node, device, units(1)); !taken) return taken;
        wanted = wanted - units(1);
    }
    if (wanted.ticks == 0) return Done{};
    std::size_t best = node.gpus_free.size();
    for (std::size_t i = 0; i < node.gpus_free.size(); ++i) {
        const bool takes = node.gpus_free[i] >= wanted;
        if (takes && (best == node.gpus_free.size() || node.gpus_free[i] < node.gpus_free[best])) best = i;
    }
    return take_device(node, best, wanted);
}

Status allocate(std::vector<NodeView>& nodes, const json& allocation) {
    if (!allocation.is_object() || !allocation.contains("node")) return invalid("each of allocations needs a \"node\"");
    // What the gang itself holds is free to it; what stays in place is told by request.placed.
    if (allocation.contains("own") && allocation["own"] == true) return Done{};
    const std::string id = text_of(allocation["node"]);
    NodeView* node = nullptr;
    for (NodeView& candidate : nodes)
        if (candidate.id.value == id) node = &candidate;
    if (node == nullptr) return invalid("an allocation names node " + id + ", which is not among nodes");
    Result<Resources> taken = resources(allocation.value("resources", json::object()), "allocation on " + id);
    if (!taken) return taken.error();
    const Amount gpus = amount_of(*taken, gpu_key);
    taken->erase(std::string(gpu_key));
    for (const auto& [key, wanted] : *taken)
        if (wanted > amount_of(node->free, key))
            return invalid("allocations take more " + key + " of node " + id + " than there is");
    subtract(node->free, *taken);
    if (!allocation.contains("gpu")) return gpus.ticks > 0 ? take_any_device(*node, gpus) : Status(Done{});
    if (!allocation["gpu"].is_object())
        return invalid("allocation on " + id + ": gpu must be a map of device to amount");
    for (const auto& [device, inner] : allocation["gpu"].items()) {
        Result<Amount> wanted = amount(inner, "allocation on " + id + ": gpu." + device);
        if (!wanted) return wanted.error();
        if (device.empty() || device.size() > 4 || device.find_first_not_of("0123456789") != device.npos)
            return invalid("allocation on " + id + ": GPU \"" + device + "\" is not a device number");
        if (Status done = take_device(*node, std::stoul(device), *wanted); !done) return done;
    }
    return Done{};
}

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

Result<std::vector<NodeView>> nodes_from(const json& question) {
    std::vector<NodeView> nodes;
    std::set<std::string> ids;
    for (const json& node : question.value("nodes", json::array())) {
        Result<NodeView> view = node_from(node);
        if (!view) return view.error();
        if (!ids.insert(view->id.value).second) return invalid("node " + view->id.value + " is there twice");
        nodes.push_back(std::move(*view));
    }
    for (const json& allocation : question.value("allocations", json::array()))
        if (Status done = allocate(nodes, allocation); !done) return done.error();
    return nodes;
}

Result<GangRequest> request_from(const json& request) {
    if (!request.is_object()) return invalid("there is no \"request\"");
    GangRequest gang;
    const std::string word = request.contains("strategy") ? text_of(request["strategy"]) : "";
    const auto wanted = strategy(word);
    if (!wanted) {
        const std::string near = nearest(word, {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"});
        return invalid("strategy \"" + word + "\" is none of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD" +
                       (near.empty() ? "" : "; did you mean " + near + "?"));
    }
    gang.strategy = *wanted;
    if (!request.contains("bundles") || !request["bundles"].is_array())
        return invalid("request needs a list of bundles");
    for (const json& bundle : request["bundles"]) {
        Result<Resources> demand = resources(bundle, "bundle " + std::to_string(gang.bundles.size()));
        if (!demand) return demand.error();
        gang.bundles.push_back({.demand = std::move(*demand), .selector = {}});
    }
    if (Status done = read_selectors(request, gang); !done) return done.error();
    if (request.contains("topology") && !request["topology"].is_null()) {
        if (!request["topology"].is_object() || !request["topology"].contains("label"))
            return invalid("topology needs a \"label\"");
        gang.topology_label = text_of(request["topology"]["label"]);
    }
    if (Status done = read_placed(request, gang); !done) return done.error();
    return gang;
}

// A soft target is asked first and alone; where the gang does not fit there, it changes nothing.
PlacementAnswer answer_case(const std::vector<NodeView>& nodes, const GangRequest& request,
                            const std::string& soft_target) {
    const bool together =
        request.strategy == Strategy::pack || request.strategy == Strategy::strict_pack || request.bundles.size() == 1;
    if (!soft_target.empty() && together && request.placed.empty()) {
        GangRequest there = request;
        there.nodes_only = {NodeId{soft_target}};
        PlacementAnswer answer = place(nodes, there);
        if (answer.verdict == Verdict::feasible_now) return answer;
    }
    PlacementAnswer answer = place(nodes, request);
    return answer.verdict == Verdict::feasible_now ? answer : explain_placement(nodes, request);
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
        Result<std::vector<NodeView>> nodes = nodes_from(*question);
        Result<GangRequest> request = request_from(question->value("request", json()));
        if (!nodes)
            refuse(nodes.error());
        else if (!request)
            refuse(request.error());
        else
            answer = answer_json(
                answer_case(*nodes, *request, text_of((*question)["request"].value("soft_target", json("")))));
    } else {
        refuse(question.error());
    }
    answer["id"] = id;
    answer["schema_version"] = 1;
    return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace rtrain::cmd
