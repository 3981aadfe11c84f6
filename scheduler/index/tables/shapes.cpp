#include "scheduler/index/tables/shapes.hpp"

namespace rtrain {
namespace {

void add_text(std::string& key, const std::string& text) { key += std::to_string(text.size()) + ":" + text; }

void add_bundle(std::string& key, const Bundle& bundle) {
    for (const auto& [name, amount] : bundle.demand) {
        add_text(key, name);
        key += "=" + std::to_string(amount.ticks) + ";";
    }
    for (const LabelCondition& condition : bundle.selector) {
        add_text(key, condition.key);
        key += condition.negated ? "!" : "~";
        for (const std::string& value : condition.values) add_text(key, value);
    }
    key += "|";
}

// Returns a key that is equal for equal requests.
std::string key_of(const GangRequest& gang) {
    std::string key = std::to_string(static_cast<int>(gang.strategy));
    if (gang.driver) key += "d";
    if (!gang.user.empty()) add_text(key += "u", gang.user);
    if (gang.topology_label) add_text(key += "t", *gang.topology_label);
    for (const auto& [bundle, node] : gang.placed) add_text(key += "p" + std::to_string(bundle) + ",", node.value);
    for (const NodeId& node : gang.nodes_only) add_text(key += "o", node.value);
    for (const NodeId& node : gang.nodes_excluded) add_text(key += "x", node.value);
    for (const NodeId& node : gang.nodes_avoided) add_text(key += "a", node.value);
    for (std::size_t i = 0; i < gang.bundles.size();) {
        std::size_t end = i + 1;
        while (end < gang.bundles.size() && gang.bundles[end] == gang.bundles[i]) ++end;
        key += "#" + std::to_string(end - i) + "*";
        add_bundle(key, gang.bundles[i]);
        i = end;
    }
    return key;
}

}  // namespace

std::uint32_t Shapes::use(const GangRequest& gang) {
    std::string key = key_of(gang);
    const auto known = numbers_.find(key);
    if (known != numbers_.end()) return ++shapes_[known->second].waiting, known->second;
    Shape shape{.gang = gang, .total = {}, .waiting = 1};
    for (const Bundle& bundle : gang.bundles) add(shape.total, bundle.demand);
    std::uint32_t number = static_cast<std::uint32_t>(shapes_.size());
    if (unused_.empty()) {
        shapes_.emplace_back();
        keys_.emplace_back();
    } else {
        number = unused_.back();
        unused_.pop_back();
    }
    shapes_[number] = std::move(shape);
    keys_[number] = key;
    numbers_.emplace(std::move(key), number);
    return number;
}

bool Shapes::release(std::uint32_t number) {
    if (--shapes_[number].waiting > 0) return false;
    numbers_.erase(keys_[number]);
    shapes_[number] = {};
    unused_.push_back(number);
    return true;
}

std::optional<std::uint32_t> Shapes::find(const std::string& key) const {
    const auto known = numbers_.find(key);
    return known == numbers_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace rtrain
