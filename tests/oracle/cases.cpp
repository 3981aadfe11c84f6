// Small random questions, from a seed, and their line for `rtrain plan --cases`.
#include <algorithm>

#include "tests/oracle/oracle.hpp"

namespace oracle {
namespace {

struct Dice {
    std::uint64_t state;
    std::uint64_t next() {  // splitmix64
        std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }
    std::size_t below(std::size_t sides) { return static_cast<std::size_t>(next() % sides); }
    bool one_in(std::size_t sides) { return below(sides) == 0; }
    template <class T>
    const T& pick(const std::vector<T>& from) {
        return from[below(from.size())];
    }
};

const std::vector<std::int64_t> cpu_sizes{unit, unit, 2 * unit, 3 * unit, unit / 2, 15'000, 1, 3, 0};
const std::vector<std::int64_t> gpu_sizes{unit,  unit,  unit,  2 * unit, 5'000, 2'500,
                                          3'000, 6'000, 7'000, 4'000,    1,     9'999};
const std::vector<std::string> racks{"r1", "r2", "r3"};

Node make_node(Dice& dice, std::size_t nth) {
    Node node;
    node.id = std::string(1, static_cast<char>('a' + nth));
    node.has[0] = dice.one_in(6) ? dice.pick(cpu_sizes) : static_cast<std::int64_t>(dice.below(12)) * unit;
    if (!dice.one_in(3)) node.has[1] = static_cast<std::int64_t>(1 + dice.below(4)) * 8 * unit;
    if (dice.one_in(6)) node.has[2] = static_cast<std::int64_t>(dice.below(3)) * unit;
    if (!dice.one_in(3)) node.gpus = static_cast<int>(dice.below(4));
    if (!dice.one_in(5)) node.labels["rack"] = racks[dice.below(2 + dice.below(2))];
    if (dice.one_in(2)) node.labels["zone"] = dice.one_in(2) ? "eu" : "us";
    static const std::vector<std::string> bad{"draining", "quarantined", "lost", "dead"};
    if (dice.one_in(8)) node.state = dice.pick(bad);
    return node;
}

std::vector<Condition> make_selector(Dice& dice) {
    Condition condition{.key = dice.one_in(2) ? "rack" : "zone", .values = {}, .negated = dice.one_in(3)};
    if (condition.key == "zone")
        condition.values = {dice.one_in(2) ? "eu" : "us"};
    else if (dice.one_in(2))
        condition.values = {dice.pick(racks)};
    else
        condition.values = {"r1", dice.one_in(2) ? "r2" : "r9"};
    return {condition};
}

Bundle make_bundle(Dice& dice) {
    Bundle bundle;
    bundle.what[0] = dice.pick(cpu_sizes);
    if (dice.one_in(8)) bundle.what[1] = static_cast<std::int64_t>(1 + dice.below(3)) * 4 * unit;
    if (dice.one_in(40)) bundle.what[2] = unit;
    if (dice.one_in(3)) bundle.gpu = dice.pick(gpu_sizes);
    if (dice.one_in(400)) bundle.gpu = 15'000;
    if (empty(bundle)) bundle.what[0] = unit;
    if (dice.one_in(25)) bundle = {};
    return bundle;
}

// Returns the devices for a bundle on this node now, if it fits.
std::optional<Held> hold(const Room& room, const Bundle& bundle, std::size_t node) {
    Held held{.node = node, .what = bundle.what, .gpu = {}};
    for (std::size_t k = 0; k < kinds; ++k)
        if (room.free[k] < bundle.what[k]) return std::nullopt;
    std::int64_t left = bundle.gpu;
    for (std::size_t device = 0; device < room.gpus.size() && left > 0; ++device) {
        const std::int64_t here = std::min(left, unit);
        if (room.gpus[device] < here) continue;
        held.gpu[static_cast<int>(device)] = here;
        left -= here;
    }
    return left == 0 ? std::optional(held) : std::nullopt;
}

void make_held(Dice& dice, Case& made) {
    for (std::size_t i = 0, count = dice.one_in(3) ? 0 : dice.below(16); i < count; ++i) {
        const std::size_t node = dice.below(made.nodes.size());
        Bundle bundle = make_bundle(dice);
        if (bundle.gpu > unit && bundle.gpu % unit != 0) continue;
        auto held = hold(rooms(made, When::now)[node], bundle, node);
        if (!held) continue;
        held->own = dice.one_in(16);
        made.held.push_back(*held);
    }
}

void make_placed(Dice& dice, Case& made) {
    for (std::size_t i = 0; i < made.bundles.size(); ++i) {
        if (!dice.one_in(2) || (made.bundles[i].gpu > unit && made.bundles[i].gpu % unit != 0)) continue;
        const std::size_t node = dice.below(made.nodes.size());
        auto held = hold(rooms(made, When::now)[node], made.bundles[i], node);
        if (!held) continue;
        held->own = true;
        made.held.push_back(*held);
        made.placed[i] = node;
    }
}

std::string decimal(std::int64_t ticks) {
    std::string text = std::to_string(ticks / unit);
    if (ticks % unit == 0) return text;
    return text + "." + std::to_string(unit + ticks % unit).substr(1);
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

struct List {
    std::string text;
    void add(const std::string& entry) { text += (text.empty() ? "" : ",") + entry; }
};

std::string amounts(const Sums& sums, std::int64_t gpu) {
    List list;
    for (std::size_t k = 0; k < kinds; ++k)
        if (sums[k] != 0) list.add(quoted(kind_names[k]) + ":" + decimal(sums[k]));
    if (gpu != 0) list.add("\"GPU\":" + decimal(gpu));
    return "{" + list.text + "}";
}

std::string selector_text(const std::vector<Condition>& selector) {
    List list;
    for (const Condition& condition : selector) {
        List values;
        for (const std::string& value : condition.values) values.add(value);
        const std::string form = condition.values.size() == 1 ? values.text : "in(" + values.text + ")";
        list.add(quoted(condition.key) + ":" + quoted((condition.negated ? "!" : "") + form));
    }
    return "{" + list.text + "}";
}

std::string node_text(const Node& node) {
    List labels;
    for (const auto& [key, value] : node.labels) labels.add(quoted(key) + ":" + quoted(value));
    std::string text = "{\"id\":" + quoted(node.id) + ",\"resources\":" + amounts(node.has, node.gpus * unit);
    if (!node.labels.empty()) text += ",\"labels\":{" + labels.text + "}";
    if (node.state != "ready") text += ",\"state\":" + quoted(node.state);
    return text + "}";
}

std::string held_text(const Case& made, const Held& held) {
    std::string text = "{\"node\":" + quoted(made.nodes[held.node].id) + ",\"resources\":" + amounts(held.what, 0);
    List gpus;
    for (const auto& [device, amount] : held.gpu) gpus.add(quoted(std::to_string(device)) + ":" + decimal(amount));
    if (!held.gpu.empty()) text += ",\"gpu\":{" + gpus.text + "}";
    return text + (held.own ? ",\"own\":true}" : "}");
}

}  // namespace

Case make_case(std::uint64_t seed) {
    Dice dice{seed * 2'654'435'761U + 17};
    Case made;
    made.id = std::to_string(seed);
    for (std::size_t i = 0, count = 1 + dice.below(5); i < count; ++i) made.nodes.push_back(make_node(dice, i));
    make_held(dice, made);
    made.strategy = static_cast<Strategy>(dice.below(4));
    if (dice.one_in(2)) {
        made.bundles.assign(1 + dice.below(8), make_bundle(dice));
        if (dice.one_in(3))
            made.bundles.assign(made.bundles.size(), Bundle{.what = {dice.pick(cpu_sizes)}, .selector = {}});
        if (dice.one_in(8)) made.bundles[dice.below(made.bundles.size())] = {};
    } else {
        for (std::size_t i = 0, count = 1 + dice.below(5); i < count; ++i)
            made.bundles.push_back(i > 0 && dice.one_in(3) ? made.bundles[dice.below(i)] : make_bundle(dice));
    }
    if (dice.one_in(7)) {
        const auto selector = make_selector(dice);
        for (Bundle& bundle : made.bundles) bundle.selector = selector;
    } else if (dice.one_in(7)) {
        for (Bundle& bundle : made.bundles)
            if (dice.one_in(2)) bundle.selector = make_selector(dice);
    }
    if (dice.one_in(7)) made.topology = dice.one_in(4) ? "zone" : "rack";
    if (dice.one_in(6)) make_placed(dice, made);
    return made;
}

std::string line_of(const Case& question) {
    List nodes, held, bundles, selectors, placed;
    for (const Node& node : question.nodes) nodes.add(node_text(node));
    for (const Held& one : question.held) held.add(held_text(question, one));
    for (const Bundle& bundle : question.bundles) {
        bundles.add(amounts(bundle.what, bundle.gpu));
        selectors.add(selector_text(bundle.selector));
    }
    for (const auto& [bundle, node] : question.placed)
        placed.add(quoted(std::to_string(bundle)) + ":" + quoted(question.nodes[node].id));
    const char* const words[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
    std::string text = "{\"id\":" + quoted(question.id) + ",\"nodes\":[" + nodes.text + "]";
    if (!question.held.empty()) text += ",\"allocations\":[" + held.text + "]";
    text += ",\"request\":{\"strategy\":" + quoted(words[static_cast<std::size_t>(question.strategy)]) +
            ",\"bundles\":[" + bundles.text + "]";
    const bool selective = std::any_of(question.bundles.begin(), question.bundles.end(),
                                       [](const Bundle& bundle) { return !bundle.selector.empty(); });
    if (selective) text += ",\"bundle_label_selector\":[" + selectors.text + "]";
    if (!question.topology.empty()) text += ",\"topology\":{\"label\":" + quoted(question.topology) + "}";
    if (!question.placed.empty()) text += ",\"placed\":{" + placed.text + "}";
    return text + "}}";
}

}  // namespace oracle
