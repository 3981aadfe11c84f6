// Questions to placement, read strictly: an amount that is not exact, a node that is not there, a word that is not
// known make the case invalid, with the reason.
#include <nlohmann/json.hpp>
#include <set>

#include "cmd/plan_case.hpp"

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

// Most amounts are whole numbers, or decimals as parse_amount reads them; only others are brought into that form.
Result<Amount> amount(const json& value) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX / Amount::per_unit)
        return units(static_cast<std::int64_t>(value.get<std::uint64_t>()));
    if (!value.is_string() && !value.is_number()) return invalid("it is not a number");
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    Result<Amount> plain = parse_amount(text);
    return plain ? plain : parse_amount(plain_decimal(text));
}

// All that is wrong with the map's entries is told at once.
Result<Resources> resources(const json& value, const std::string& what) {
    if (!value.is_object()) return invalid(what + " must be a map of amounts");
    Resources found;
    std::string wrong;
    for (const auto& [key, inner] : value.get_ref<const json::object_t&>()) {
        Result<Amount> one = amount(inner);
        if (!one)
            wrong += (wrong.empty() ? "" : "; ") + what + "." + key + ": " + one.error().message;
        else if (one->ticks > 0)
            found.emplace(key, *one);
    }
    if (!wrong.empty()) return invalid(wrong);
    return found;
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

const json no_list = json::array();
const json no_map = json::object();

// A member, or what stands for it where it is left out; never a copy, for a case is mostly nodes.
const json& member(const json& map, const char* key, const json& otherwise) {
    const auto found = map.find(key);
    return found == map.end() ? otherwise : *found;
}

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
    Result<Resources> total = resources(member(node, "resources", no_map), "node " + id + ": resources");
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

// The allocation's GPUs, which `gpu` may name; without it, any that are free.
Result<std::vector<GpuShare>> take_gpus(NodeView& node, const json& allocation, Amount gpus) {
    std::vector<GpuShare> shares;
    const std::string what = "allocation on " + node.id.value;
    if (!allocation.contains("gpu")) {
        const std::vector<Amount> before = node.gpus_free;
        if (Status taken = gpus.ticks > 0 ? take_any_device(node, gpus) : Status(Done{}); !taken) return taken.error();
        for (std::size_t i = 0; i < before.size(); ++i)
            if (before[i] != node.gpus_free[i])
                shares.push_back({static_cast<std::uint32_t>(i), before[i] - node.gpus_free[i]});
        return shares;
    }
    if (!allocation["gpu"].is_object()) return invalid(what + ": gpu must be a map of device to amount");
    for (const auto& [device, inner] : allocation["gpu"].items()) {
        Result<Amount> wanted = amount(inner);
        if (!wanted) return invalid(what + ": gpu." + device + ": " + wanted.error().message);
        if (device.empty() || device.size() > 4 || device.find_first_not_of("0123456789") != device.npos)
            return invalid(what + ": GPU \"" + device + "\" is not a device number");
        if (Status done = take_device(node, std::stoul(device), *wanted); !done) return done.error();
        if (wanted->ticks > 0) shares.push_back({static_cast<std::uint32_t>(std::stoul(device)), *wanted});
    }
    return shares;
}

NodeView* find(std::vector<NodeView>& nodes, const std::string& id) {
    for (NodeView& node : nodes)
        if (node.id.value == id) return &node;
    return nullptr;
}

// What the gang itself holds is held now and also once all other jobs have ended.
Status allocate(DescribedCluster& cluster, const json& allocation) {
    if (!allocation.is_object() || !allocation.contains("node")) return invalid("each of allocations needs a \"node\"");
    const std::string id = text_of(allocation["node"]);
    NodeView* node = find(cluster.now, id);
    if (node == nullptr) return invalid("an allocation names node " + id + ", which is not among nodes");
    Result<Resources> taken = resources(member(allocation, "resources", no_map), "allocation on " + id);
    if (!taken) return taken.error();
    const Amount gpus = amount_of(*taken, gpu_key);
    taken->erase(std::string(gpu_key));
    for (const auto& [key, wanted] : *taken)
        if (wanted > amount_of(node->free, key))
            return invalid("allocations take more " + key + " of node " + id + " than there is");
    subtract(node->free, *taken);
    Result<std::vector<GpuShare>> shares = take_gpus(*node, allocation, gpus);
    if (!shares) return shares.error();
    if (!allocation.contains("own") || allocation["own"] != true) return Done{};
    NodeView& later = *find(cluster.later, id);
    subtract(later.free, *taken);
    for (const GpuShare& share : *shares) later.gpus_free[share.device] = later.gpus_free[share.device] - share.amount;
    cluster.own_gpus[node->id].push_back(std::move(*shares));
    return Done{};
}

}  // namespace

Result<Resources> exact_resources(const json& value, const std::string& what) { return resources(value, what); }

Result<DescribedCluster> cluster_from(const json& question) {
    DescribedCluster cluster;
    std::set<std::string> ids;
    for (const json& node : member(question, "nodes", no_list)) {
        Result<NodeView> view = node_from(node);
        if (!view) return view.error();
        if (!ids.insert(view->id.value).second) return invalid("node " + view->id.value + " is there twice");
        cluster.now.push_back(std::move(*view));
    }
    cluster.later = cluster.now;
    for (const json& allocation : member(question, "allocations", no_list))
        if (Status done = allocate(cluster, allocation); !done) return done.error();
    return cluster;
}

}  // namespace rtrain::cmd
