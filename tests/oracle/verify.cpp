// Whether an answer of the product is one that the oracle allows.
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.hpp"
#include "tests/oracle/oracle.hpp"

namespace oracle {
namespace {

using nlohmann::json;

struct Seated {
    std::size_t node = 0;
    std::map<int, std::int64_t> gpu;
};

struct Check {
    const Case& question;
    const Expected& expected;
    std::vector<Seated> seats;
    std::string wrong;

    void blame(const std::string& what) {
        if (wrong.empty()) wrong = what;
    }
    bool has_zeros() const { return std::any_of(question.bundles.begin(), question.bundles.end(), empty); }
    void read(const json& placement);
    void strategy();
    void constraints();
    void amounts();
    void devices(std::size_t bundle, std::vector<std::int64_t>& gpus);
    void preferences();
};

void Check::read(const json& placement) {
    if (placement.size() != question.bundles.size()) return blame("the placement misses bundles");
    for (std::size_t i = 0; i < question.bundles.size(); ++i) {
        const json& seat = placement[std::to_string(i)];
        Seated made;
        while (made.node < question.nodes.size() && json(question.nodes[made.node].id) != seat["node"]) ++made.node;
        if (made.node == question.nodes.size()) return blame("an unknown node");
        for (const auto& [device, amount] : seat["gpu"].items())
            made.gpu[std::stoi(device)] = static_cast<std::int64_t>(amount.get<double>() * unit + 0.5);
        seats.push_back(made);
    }
}

void Check::constraints() {
    std::set<std::string> values;
    for (std::size_t i = 0; i < seats.size(); ++i) {
        const Node& node = question.nodes[seats[i].node];
        if (!question.topology.empty()) {
            const auto label = node.labels.find(question.topology);
            values.insert(label == node.labels.end() ? "-" : label->second);
        }
        const auto placed = question.placed.find(i);
        if (placed != question.placed.end()) {
            if (placed->second != seats[i].node) blame("a placed bundle moved");
            continue;
        }
        if (node.state != "ready") blame("a new bundle on a node that is not ready");
        if (!suits(question.bundles[i], node)) blame("a selector does not hold");
    }
    if (values.size() > 1 || values.contains("-")) blame("the topology label is not kept");
}

// An amount below 1 on one device, more on untouched ones; a lone fraction on the fullest device that takes it.
void Check::devices(std::size_t bundle, std::vector<std::int64_t>& gpus) {
    const std::int64_t wanted = question.bundles[bundle].gpu;
    std::int64_t sum = 0;
    for (const auto& [device, amount] : seats[bundle].gpu) {
        if (device < 0 || static_cast<std::size_t>(device) >= gpus.size()) return blame("no such device");
        std::int64_t& free = gpus[static_cast<std::size_t>(device)];
        if (amount > free) return blame("a device is given twice");
        if (wanted >= unit && amount != unit) blame("part of a device for a whole one");
        if (alike(question) && wanted < unit)
            for (const std::int64_t other : gpus)
                if (other >= wanted && other < free) blame("a fuller device would have taken the fraction");
        free -= amount;
        sum += amount;
    }
    if (wanted > 0 && wanted < unit && seats[bundle].gpu.size() != 1) blame("a fraction over several devices");
    if (sum != wanted) blame("the devices do not add up to the demand");
}

void Check::amounts() {
    std::vector<Room> left = rooms(question, When::now);
    for (std::size_t i = 0; i < seats.size(); ++i) {
        if (question.placed.contains(i)) continue;
        Room& room = left[seats[i].node];
        for (std::size_t k = 0; k < kinds; ++k) {
            room.free[k] -= question.bundles[i].what[k];
            if (room.free[k] < 0) blame("more " + kind_names[k] + " than is free");
        }
        devices(i, room.gpus);
    }
}

void Check::strategy() {
    std::map<std::size_t, int> loads;
    int breaks = 0, heaviest = 0;
    for (std::size_t i = 0; i < seats.size(); ++i) {
        if (!empty(question.bundles[i])) heaviest = std::max(heaviest, ++loads[seats[i].node]);
        breaks += i > 0 && seats[i].node != seats[i - 1].node;
    }
    const int nodes = static_cast<int>(loads.size());
    if (nodes != expected.best->nodes)
        blame(std::to_string(nodes) + " nodes, the best are " + std::to_string(expected.best->nodes));
    if (question.strategy == Strategy::strict_spread && heaviest > 1) blame("two bundles on one node");
    if (!question.placed.empty()) return;
    if (!has_zeros() && question.topology.empty() && breaks != expected.best->breaks)
        blame("ranks are not contiguous: " + std::to_string(breaks) + " changes of node, " +
              std::to_string(expected.best->breaks) + " would do");
    if (question.strategy == Strategy::spread && alike(question) && question.topology.empty() &&
        heaviest != expected.best->heaviest)
        blame("uneven: " + std::to_string(heaviest) + " on one node, " + std::to_string(expected.best->heaviest) +
              " would do");
}

// GPU-less bundles stay off GPU nodes when that costs no node.
void Check::preferences() {
    const bool packs = question.strategy == Strategy::pack || question.strategy == Strategy::strict_pack;
    const bool gpu_less = std::all_of(question.bundles.begin(), question.bundles.end(),
                                      [](const Bundle& bundle) { return bundle.gpu == 0; });
    if (!packs || !gpu_less || !alike(question) || !question.placed.empty() || !question.topology.empty()) return;
    if (has_zeros() || expected.best->without_gpus != expected.best->nodes) return;
    for (const Seated& seat : seats)
        if (question.nodes[seat.node].gpus > 0) blame("GPU-less bundles on a GPU node");
}

}  // namespace

std::string fault(const Case& question, const Expected& expected, const std::string& text) {
    const json answer = rtrain::parse_json(text);
    if (!answer.is_object()) return "no JSON object";
    if (answer["id"] != question.id) return "another id";
    if (answer["verdict"] != expected.verdict)
        return "verdict " + rtrain::json_text(answer["verdict"]) + ", expected " + expected.verdict;
    if (answer["proved"] != true) return "not proved";
    if (!expected.best) {
        if (answer.contains("placement")) return "a placement beside a refusal";
        return answer["reasons"].empty() ? "a refusal without reasons" : "";
    }
    Check check{.question = question, .expected = expected, .seats = {}, .wrong = {}};
    check.read(answer["placement"]);
    if (!check.wrong.empty()) return check.wrong;
    check.constraints();
    check.amounts();
    check.strategy();
    check.preferences();
    return check.wrong;
}

}  // namespace oracle
