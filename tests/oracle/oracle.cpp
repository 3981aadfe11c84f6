// Every assignment of the missing bundles to nodes and devices, one by one.
#include "tests/oracle/oracle.hpp"

#include <algorithm>
#include <set>

namespace oracle {
namespace {

struct Enumeration {
    const Case& question;
    std::vector<Room> rooms;
    std::vector<std::size_t> missing;
    std::vector<std::optional<std::size_t>> seat;  // per bundle
    bool ordered;                                  // equal bundles: only assignments with nodes in order
    bool any_will_do;
    bool has_best = false;
    Best best;

    bool strict_allows(std::size_t bundle, std::size_t node) const;
    bool topology_allows(std::size_t node) const;
    void seat_from(std::size_t at);
    void seat_on(std::size_t at, std::size_t node);
    void weigh();
};

bool Enumeration::strict_allows(std::size_t bundle, std::size_t node) const {
    for (std::size_t other = 0; other < seat.size(); ++other) {
        if (!seat[other] || other == bundle) continue;
        if (question.strategy == Strategy::strict_pack && *seat[other] != node) return false;
        if (question.strategy == Strategy::strict_spread && *seat[other] == node && !empty(question.bundles[bundle]) &&
            !empty(question.bundles[other]))
            return false;
    }
    return true;
}

bool Enumeration::topology_allows(std::size_t node) const {
    if (question.topology.empty()) return true;
    const auto& labels = question.nodes[node].labels;
    const auto own = labels.find(question.topology);
    if (own == labels.end()) return false;
    return std::all_of(seat.begin(), seat.end(), [&](const auto& other) {
        if (!other) return true;
        const auto theirs = question.nodes[*other].labels.find(question.topology);
        return theirs != question.nodes[*other].labels.end() && theirs->second == own->second;
    });
}

void Enumeration::weigh() {
    std::map<std::size_t, int> loads;
    int breaks = 0;
    for (std::size_t i = 0; i < seat.size(); ++i) {
        if (!empty(question.bundles[i])) ++loads[*seat[i]];
        breaks += i > 0 && *seat[i] != *seat[i - 1];
    }
    int heaviest = 0;
    bool plain = true;
    for (const auto& [node, load] : loads) {
        heaviest = std::max(heaviest, load);
        plain = plain && question.nodes[node].gpus == 0;
    }
    const int nodes = static_cast<int>(loads.size());
    const bool spread = question.strategy == Strategy::spread || question.strategy == Strategy::strict_spread;
    if (plain) best.without_gpus = std::min(best.without_gpus.value_or(nodes), nodes);
    if (!has_best || (spread ? nodes > best.nodes : nodes < best.nodes)) {
        has_best = true;
        best.nodes = nodes;
        best.breaks = breaks;
        best.heaviest = heaviest;
    } else if (nodes == best.nodes) {
        best.breaks = std::min(best.breaks, breaks);
        best.heaviest = std::min(best.heaviest, heaviest);
    }
}

void Enumeration::seat_on(std::size_t at, std::size_t node) {
    const std::size_t bundle = missing[at];
    const Bundle& wanted = question.bundles[bundle];
    const Room before = rooms[node];
    for (std::size_t k = 0; k < kinds; ++k) {
        if (wanted.what[k] > before.free[k]) return;
    }
    for (std::size_t k = 0; k < kinds; ++k) rooms[node].free[k] -= wanted.what[k];
    seat[bundle] = node;
    auto& gpus = rooms[node].gpus;
    if (wanted.gpu == 0) {
        seat_from(at + 1);
    } else if (wanted.gpu >= unit) {  // all untouched devices are equal
        std::int64_t left = wanted.gpu / unit;
        for (auto& gpu : gpus)
            if (gpu == unit && left > 0) {
                gpu = 0;
                --left;
            }
        if (left == 0) seat_from(at + 1);
    } else {
        std::set<std::int64_t> tried;
        for (std::size_t device = 0; device < gpus.size() && !(has_best && any_will_do); ++device) {
            if (gpus[device] < wanted.gpu || !tried.insert(gpus[device]).second) continue;
            gpus[device] -= wanted.gpu;
            seat_from(at + 1);
            gpus[device] += wanted.gpu;
            if (ordered) break;  // equal fractions: any device that takes one does
        }
    }
    rooms[node] = before;
    seat[bundle].reset();
}

void Enumeration::seat_from(std::size_t at) {
    if (has_best && any_will_do) return;
    if (at == missing.size()) return weigh();
    const std::size_t bundle = missing[at];
    std::size_t first = 0;
    if (ordered)
        for (std::size_t before = 0; before < at; ++before)
            if (!empty(question.bundles[missing[before]]) && !empty(question.bundles[bundle]))
                first = *seat[missing[before]];
    for (std::size_t node = first; node < question.nodes.size(); ++node) {
        const Node& host = question.nodes[node];
        if (host.state != "ready" || !suits(question.bundles[bundle], host)) continue;
        if (topology_allows(node) && strict_allows(bundle, node)) seat_on(at, node);
    }
}

enum class Search { all, any };
std::optional<Best> assign(const Case& question, When when, Search search) {
    Enumeration all{.question = question,
                    .rooms = rooms(question, when),
                    .missing = {},
                    .seat = std::vector<std::optional<std::size_t>>(question.bundles.size()),
                    .ordered = alike(question),
                    .any_will_do = search == Search::any,
                    .best = {}};
    for (const auto& [bundle, node] : question.placed) all.seat[bundle] = node;
    for (const auto& [bundle, node] : question.placed)  // bundles that stay must follow the strategy as well
        if (!all.strict_allows(bundle, node) || !all.topology_allows(node)) return std::nullopt;
    for (std::size_t i = 0; i < question.bundles.size(); ++i)
        if (!question.placed.contains(i)) all.missing.push_back(i);
    all.seat_from(0);
    return all.has_best ? std::optional(all.best) : std::nullopt;
}

bool in_range(const Bundle& bundle) { return bundle.gpu < unit || bundle.gpu % unit == 0; }

}  // namespace

bool empty(const Bundle& bundle) { return bundle.what == Sums{} && bundle.gpu == 0; }

bool same(const Bundle& a, const Bundle& b) {
    const auto equal = [](const Condition& x, const Condition& y) {
        return x.key == y.key && x.values == y.values && x.negated == y.negated;
    };
    return a.what == b.what && a.gpu == b.gpu &&
           std::equal(a.selector.begin(), a.selector.end(), b.selector.begin(), b.selector.end(), equal);
}

bool suits(const Bundle& bundle, const Node& node) {
    return std::all_of(bundle.selector.begin(), bundle.selector.end(), [&](const Condition& condition) {
        const auto label = node.labels.find(condition.key);
        const bool among = label != node.labels.end() &&
                           std::count(condition.values.begin(), condition.values.end(), label->second) > 0;
        return among != condition.negated;
    });
}

bool alike(const Case& question) {
    const Bundle* first = nullptr;
    for (std::size_t i = 0; i < question.bundles.size(); ++i) {
        const Bundle& bundle = question.bundles[i];
        if (question.placed.contains(i) || empty(bundle)) continue;
        if (first != nullptr && !same(*first, bundle)) return false;
        first = &bundle;
    }
    return true;
}

std::vector<Room> rooms(const Case& question, When when) {
    std::vector<Room> made;
    for (const Node& node : question.nodes)
        made.push_back(
            {.free = node.has, .gpus = std::vector<std::int64_t>(static_cast<std::size_t>(node.gpus), unit)});
    for (const Held& held : question.held) {
        if (when == When::later && !held.own) continue;
        for (std::size_t k = 0; k < kinds; ++k) made[held.node].free[k] -= held.what[k];
        for (const auto& [device, amount] : held.gpu) made[held.node].gpus[static_cast<std::size_t>(device)] -= amount;
    }
    return made;
}

Expected judge(const Case& question) {
    if (!std::all_of(question.bundles.begin(), question.bundles.end(), in_range))
        return {.verdict = "invalid", .best = {}};
    if (auto best = assign(question, When::now, Search::all)) return {.verdict = "feasible now", .best = best};
    const bool later = assign(question, When::later, Search::any).has_value();
    return {.verdict = later ? "pending" : "infeasible", .best = {}};
}

}  // namespace oracle
