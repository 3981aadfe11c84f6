// Reads the nodes and allocations of a case (see plan_case.hpp) strictly. Three things make the case invalid, with a
// reason: an amount that is not a whole number of 1/10,000, an unknown node, and an unknown state or field.
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.hpp"
#include "cmd/plan/plan_case.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Converts "1.50e1" to "15": parse_amount reads plain decimals.
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

// Most amounts are whole numbers or decimals that parse_amount reads. Only others are converted.
Result<Amount> amount(const json& value) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX / Amount::per_unit)
        return units(static_cast<std::int64_t>(value.get<std::uint64_t>()));
    if (!value.is_string() && !value.is_number()) return invalid("it is not a number");
    const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
    Result<Amount> plain = parse_amount(text);
    return plain ? plain : parse_amount(plain_decimal(text));
}

// Where a problem is: its path in the case ("nodes[2]"), and its object ("node a"). These texts are only made if there
// is a problem.
struct Spot {
    const char* list;
    std::size_t index;
    const char* what;
    const std::string& name;
    Problems& wrong;

    void add_problem(const std::string& below, const std::string& message) const {
        wrong.push_back({.path = std::string(list) + "[" + std::to_string(index) + "]" + below,
                         .message = name.empty() ? message : what + (" " + name) + message,
                         .suggestion = ""});
    }
};

// Reads a map of amounts. Reports all faults of its entries at once: `on_problem` gets the key (empty for the map
// itself) and the fault.
template <class OnProblem>
Resources resources(const json& value, const OnProblem& on_problem) {
    Resources amounts;
    if (!value.is_object()) {
        on_problem("", " must be a map of amounts");
        return amounts;
    }
    for (const auto& [key, inner] : value.get_ref<const json::object_t&>()) {
        Result<Amount> quantity = amount(inner);
        if (!quantity)
            on_problem("." + key, ": " + quantity.error().message);
        else if (quantity->ticks > 0)
            amounts.emplace(key, *quantity);
    }
    return amounts;
}

Resources resources_at(const json& value, const Spot& spot) {
    return resources(value, [&](const std::string& key, const std::string& why) {
        spot.add_problem(".resources" + key, (": resources" + key) + why);
    });
}

constexpr std::int64_t gpus_most = 4096;  // the most GPUs of one node
const json no_list = json::array();
const json no_map = json::object();

// Returns a reference to a member, or to `otherwise` if it is missing. It makes no copy, because a case consists mostly
// of nodes.
const json& member(const json& map, const char* key, const json& otherwise) {
    const auto entry = map.find(key);
    return entry == map.end() ? otherwise : *entry;
}

NodeState state_of(const json& node, const Spot& spot) {
    if (!node.contains("state")) return NodeState::ready;
    const std::string word = text_of(node["state"]);
    if (word == "draining") return NodeState::draining;
    if (word == "quarantined") return NodeState::quarantined;
    if (word == "lost" || word == "dead") return NodeState::lost;
    if (word != "ready")
        spot.add_problem(".state", ": state \"" + word + "\" is none of ready, draining, quarantined, lost, dead");
    return NodeState::ready;
}

NodeView node_from(const json& node, std::size_t index, Problems& wrong) {
    NodeView view;
    const Spot spot{.list = "nodes", .index = index, .what = "node", .name = view.id.value, .wrong = wrong};
    if (!node.is_object() || !node.contains("id") || !node["id"].is_string()) {
        spot.add_problem("", "each of nodes needs an \"id\"");
        return view;
    }
    view.id.value = node["id"].get<std::string>();
    view.state = state_of(node, spot);
    if (const json& labels = member(node, "labels", no_map); labels.is_object())
        for (const auto& [key, inner] : labels.items()) view.labels[key] = text_of(inner);
    else
        spot.add_problem(".labels", ": labels must be a map");
    view.total = resources_at(member(node, "resources", no_map), spot);
    const Amount gpus = amount_of(view.total, gpu_key);
    if (gpus.ticks % Amount::per_unit != 0) spot.add_problem(".resources.GPU", ": GPU is a number of whole devices");
    const std::int64_t devices = gpus.ticks / Amount::per_unit;
    if (devices > gpus_most) spot.add_problem(".resources.GPU", ": more than 4096 GPUs");
    view.total.erase(std::string(gpu_key));
    view.free = view.total;
    view.gpus_free.assign(static_cast<std::size_t>(std::min(devices, gpus_most)), units(1));
    return view;
}

Status take_device(NodeView& node, std::size_t device, Amount share) {
    if (device >= node.gpus_free.size())
        return invalid("an allocation names GPU " + std::to_string(device) + " of node " + node.id.value +
                       ", which has " + std::to_string(node.gpus_free.size()));
    if (share > node.gpus_free[device])
        return invalid("allocations take more of GPU " + std::to_string(device) + " of node " + node.id.value +
                       " than there is");
    node.gpus_free[device] = node.gpus_free[device] - share;
    return Done{};
}

// Assigns GPUs to an allocation that gives only their number: whole devices by their index, a fraction on the fullest
// device that has room.
Status take_any_device(NodeView& node, Amount share) {
    while (share.ticks >= Amount::per_unit) {
        std::size_t device = 0;
        while (device < node.gpus_free.size() && node.gpus_free[device] != units(1)) ++device;
        if (Status taken = take_device(node, device, units(1)); !taken) return taken;
        share = share - units(1);
    }
    if (share.ticks == 0) return Done{};
    std::size_t best = node.gpus_free.size();
    for (std::size_t i = 0; i < node.gpus_free.size(); ++i) {
        const bool takes = node.gpus_free[i] >= share;
        if (takes && (best == node.gpus_free.size() || node.gpus_free[i] < node.gpus_free[best])) best = i;
    }
    return take_device(node, best, share);
}

// Assigns GPUs to the allocation: those that its field `gpu` names, else any free ones.
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
        Result<Amount> share = amount(inner);
        if (!share) return invalid(what + ": gpu." + device + ": " + share.error().message);
        if (device.empty() || device.size() > 4 || device.find_first_not_of("0123456789") != device.npos)
            return invalid(what + ": GPU \"" + device + "\" is not a device number");
        if (Status done = take_device(node, std::stoul(device), *share); !done) return done.error();
        if (share->ticks > 0) shares.push_back({static_cast<std::uint32_t>(std::stoul(device)), *share});
    }
    return shares;
}

NodeView* find(std::vector<NodeView>& nodes, const std::string& id) {
    for (NodeView& node : nodes)
        if (node.id.value == id) return &node;
    return nullptr;
}

// Bundles of the gang itself count as held now, and also after all other jobs have ended.
void allocate(DescribedCluster& cluster, const json& allocation, std::size_t index, Problems& wrong) {
    const std::string id = allocation.is_object() && allocation.contains("node") ? text_of(allocation["node"]) : "";
    const std::string nobody;
    const Spot plain{.list = "allocations", .index = index, .what = "", .name = nobody, .wrong = wrong};
    if (id.empty()) return plain.add_problem("", "each of allocations needs a \"node\"");
    NodeView* node = find(cluster.now, id);
    if (node == nullptr)
        return plain.add_problem(".node", "an allocation names node " + id + ", which is not among nodes");
    const std::size_t before = wrong.size();
    const Spot spot{.list = "allocations", .index = index, .what = "allocation on", .name = id, .wrong = wrong};
    Resources taken = resources_at(member(allocation, "resources", no_map), spot);
    const Amount gpus = amount_of(taken, gpu_key);
    taken.erase(std::string(gpu_key));
    for (const auto& [key, in_use] : taken)
        if (in_use > amount_of(node->free, key))
            plain.add_problem(".resources." + key,
                              "allocations take more " + key + " of node " + id + " than there is");
    Result<std::vector<GpuShare>> shares = take_gpus(*node, allocation, gpus);
    if (!shares) plain.add_problem(allocation.contains("gpu") ? ".gpu" : ".resources.GPU", shares.error().message);
    if (wrong.size() != before) return;
    subtract(node->free, taken);
    if (!allocation.contains("own") || allocation["own"] != true) return;
    NodeView& later = *find(cluster.later, id);
    subtract(later.free, taken);
    for (const GpuShare& share : *shares) later.gpus_free[share.device] = later.gpus_free[share.device] - share.amount;
    cluster.own_gpus[node->id].push_back(std::move(*shares));
}

// Returns the entries of a member that is a list. Reports a problem if it has another type.
const json& list_of(const json& question, const char* key, Problems& wrong) {
    const json& list = member(question, key, no_list);
    if (list.is_array() || list.is_null()) return list;
    wrong.push_back({.path = key, .message = std::string(key) + " must be a list", .suggestion = ""});
    return no_list;
}

}  // namespace

Result<Resources> exact_resources(const json& value, const std::string& what) {
    std::string wrong;
    Resources amounts = resources(value, [&](const std::string& key, const std::string& why) {
        wrong += (wrong.empty() ? "" : "; ") + what + key + why;
    });
    if (!wrong.empty()) return invalid(std::move(wrong));
    return amounts;
}

DescribedCluster cluster_from(const json& question, Problems& wrong) {
    DescribedCluster cluster;
    std::set<std::string> ids;
    std::size_t index = 0;
    for (const json& node : list_of(question, "nodes", wrong)) {
        cluster.now.push_back(node_from(node, index, wrong));
        const std::string& id = cluster.now.back().id.value;
        if (!id.empty() && !ids.insert(id).second)
            wrong.push_back({.path = "nodes[" + std::to_string(index) + "].id",
                             .message = "node " + id + " is there twice",
                             .suggestion = ""});
        ++index;
    }
    cluster.later = cluster.now;
    index = 0;
    for (const json& allocation : list_of(question, "allocations", wrong))
        allocate(cluster, allocation, index++, wrong);
    return cluster;
}

}  // namespace rtrain::cmd
