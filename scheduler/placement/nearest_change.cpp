// Finds the nearest change that would make a gang fit. Each candidate is one change of the request or of one node, and
// is tried by placing the changed gang. Used for explanations only; the words are fields of the job spec.
#include <algorithm>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/model/records.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

// Returns the node's free amount of each resource in the bundle's demand, capped at the demand. Returns an empty set if
// one of them has nothing free.
Resources capped(const Resources& demand, const Resources& room, const std::vector<Amount>& gpus) {
    Resources out;
    for (const auto& [name, wanted] : demand) {
        Amount has = amount_of(room, name);
        if (name == gpu_key) {
            const Amount freest = gpus.empty() ? Amount{} : *std::max_element(gpus.begin(), gpus.end());
            has = freest < units(1) ? freest : units(std::count(gpus.begin(), gpus.end(), units(1)));
        }
        if (has.ticks == 0) return {};
        out[name] = std::min(wanted, has);
    }
    return out;
}

// Returns the fraction of the demand that is left, summed over its resources.
double left_of(const Resources& capped, const Resources& demand) {
    double left = 0;
    for (const auto& [name, wanted] : demand)
        left += static_cast<double>(amount_of(capped, name).ticks) / static_cast<double>(wanted.ticks);
    return left;
}

class Nearest {
  public:
    Nearest(const std::vector<NodeView>& nodes, const GangRequest& request, Verdict wanted, const QuotaRoom& quotas)
        : nodes_(nodes),
          request_(request),
          wanted_(wanted),
          in_quota_(wanted == Verdict::feasible_now ? quotas.now : quotas.ever) {}
    std::string text();

  private:
    bool fits(const GangRequest& request) const { return fits_on(nodes_, request); }
    bool fits_on(const std::vector<NodeView>& nodes, const GangRequest& request) const {
        return (!in_quota_ || in_quota_(request)) && place(nodes, request).verdict <= wanted_;
    }
    void offer(const GangRequest& changed, const std::string& how) {
        if (found_.size() < limits::changes_shown && changed != request_ && fits(changed)) found_.push_back(how);
    }
    void another_strategy();
    void fewer_workers();
    void fewer_labels();
    void fewer_constraints();
    void smaller_bundles();
    void bundles_of_some_node();
    std::vector<Resources> caps(const Bundle& bundle) const;
    void node_back();

    const std::vector<NodeView>& nodes_;
    const GangRequest& request_;
    Verdict wanted_;
    const std::function<bool(const GangRequest&)>& in_quota_;
    std::vector<std::string> found_;
};

void Nearest::another_strategy() {
    GangRequest looser = request_;
    if (request_.strategy == Strategy::strict_pack) looser.strategy = Strategy::pack;
    if (request_.strategy == Strategy::strict_spread) looser.strategy = Strategy::spread;
    offer(looser, std::string("with scaling.placement=") + to_text(looser.strategy));
}

// Finds the most workers of one shape. Invariant: if n fit, fewer fit.
void Nearest::fewer_workers() {
    if (!one_shape(wanted_of(request_)) || !request_.placed.empty()) return;
    GangRequest fewer = request_;
    const auto fits_with = [&](std::size_t count) {
        fewer.bundles.resize(count, request_.bundles.front());
        return fits(fewer);
    };
    std::size_t most = 0, fails = request_.bundles.size();
    while (fails - most > 1) {
        const std::size_t middle = most + (fails - most) / 2;
        (fits_with(middle) ? most : fails) = middle;
    }
    if (most > 0) found_.push_back("with scaling.workers=" + std::to_string(most));
}

void Nearest::fewer_labels() {
    std::set<std::string> keys;
    for (const Bundle& bundle : request_.bundles)
        for (const LabelCondition& condition : bundle.selector) keys.insert(condition.key);
    const auto without = [&](const std::set<std::string>& dropped) {
        GangRequest open = request_;
        for (Bundle& bundle : open.bundles)
            std::erase_if(bundle.selector, [&](const LabelCondition& c) { return dropped.contains(c.key); });
        return open;
    };
    const std::size_t before = found_.size();
    for (const std::string& key : keys)
        if (found_.size() == before && keys.size() <= limits::labels_tried)
            offer(without({key}), "without scaling.label_selector." + key);
    if (found_.size() == before && keys.size() > 1) offer(without(keys), "without scaling.label_selector");
}

void Nearest::fewer_constraints() {
    GangRequest open = request_;
    open.topology_label.reset();
    offer(open, "without scaling.topology");
    open = request_;
    open.nodes_only.clear();
    offer(open, "without scaling.nodes");
    open = request_;
    open.nodes_excluded.clear();
    offer(open, "without scaling.exclude_nodes");
    open.nodes_only.clear();
    open.topology_label.reset();
    for (Bundle& bundle : open.bundles) bundle.selector.clear();
    if (found_.empty()) offer(open, "without any constraint on nodes");
}

// Tries equal bundles with less of one resource, in whole units.
void Nearest::smaller_bundles() {
    if (!one_shape(wanted_of(request_)) || !request_.placed.empty()) return;
    for (const auto& [name, demand] : request_.bundles.front().demand) {
        const auto with = [&, key = name](std::int64_t amount) {
            GangRequest smaller = request_;
            for (Bundle& bundle : smaller.bundles)
                if (bundle.demand.contains(key)) bundle.demand[key] = units(amount);
            return smaller;
        };
        const std::int64_t step = std::max<std::int64_t>(1, demand.ticks / Amount::per_unit / 64);
        std::int64_t most = 0, fails = (demand.ticks + Amount::per_unit - 1) / Amount::per_unit / step;
        while (fails - most > 1) {
            const std::int64_t middle = most + (fails - most) / 2;
            (fits(with(middle * step)) ? most : fails) = middle;
        }
        if (most > 0 && found_.size() < limits::changes_shown)
            found_.push_back("with resources_per_worker." + name + "=" + std::to_string(most * step));
    }
}

// Returns the nodes' free amounts for such a bundle, the smallest change first.
std::vector<Resources> Nearest::caps(const Bundle& bundle) const {
    std::vector<Resources> out;
    for (const NodeView& node : nodes_) {
        if (!allowed(node, request_) || !matches(bundle.selector, node.labels)) continue;
        const bool now = wanted_ == Verdict::feasible_now;
        const std::vector<Amount> whole(node.gpus_free.size(), units(1));
        Resources cap = capped(bundle.demand, now ? node.free : node.total, now ? node.gpus_free : whole);
        if (!cap.empty() && std::find(out.begin(), out.end(), cap) == out.end()) out.push_back(std::move(cap));
    }
    std::stable_sort(out.begin(), out.end(), [&](const Resources& a, const Resources& b) {
        return left_of(a, bundle.demand) > left_of(b, bundle.demand);
    });
    return out;
}

// Tries bundles with less of several resources, or with a part of a GPU: as much as some node has. Among unlike
// bundles, those that fit on no node become smaller.
void Nearest::bundles_of_some_node() {
    if (!request_.placed.empty()) return;
    const bool alike = one_shape(wanted_of(request_));
    GangRequest smaller = request_;
    std::string how;
    std::vector<Resources> tried;
    std::size_t changed = 0;
    for (std::size_t i = 0; i < (alike ? 1 : request_.bundles.size()); ++i) {
        const Bundle& bundle = request_.bundles[i];
        if (i == 0 || bundle != request_.bundles[i - 1]) tried = caps(bundle);
        tried.resize(std::min(tried.size(), limits::nodes_tried));
        for (const Resources& cap : tried) {
            if (alike)
                for (Bundle& smaller_bundle : smaller.bundles) smaller_bundle.demand = cap;
            else
                smaller.bundles[i].demand = cap;
            if (!alike || fits(smaller)) break;
        }
        // A change of so many bundles would not be a near change.
        if (smaller.bundles[i] != bundle && ++changed > limits::bundles_changed) return;
        for (const auto& [name, amount] : smaller.bundles[i].demand)
            if (amount != amount_of(bundle.demand, name))
                how += (how.empty() ? "with " : " and ") +
                       (alike ? std::string("resources_per_worker.") : "bundle " + std::to_string(i) + " ") + name +
                       "=" + to_text(amount);
    }
    if (!how.empty()) offer(smaller, how);
}

void Nearest::node_back() {
    std::vector<NodeView> nodes = nodes_;
    std::size_t tried = 0;
    for (NodeView& node : nodes) {
        const NodeState before = node.state;
        if (node.awaited || (before != NodeState::draining && before != NodeState::quarantined)) continue;
        if (++tried > limits::nodes_tried) return;
        node.state = NodeState::ready;
        const bool does = fits_on(nodes, request_);
        node.state = before;
        if (!does) continue;
        found_.push_back("with node " + node.id.value + " undrained");
        return;
    }
}

std::string Nearest::text() {
    another_strategy();
    fewer_workers();
    fewer_labels();
    fewer_constraints();
    if (found_.size() < limits::changes_shown) node_back();
    if (found_.empty()) smaller_bundles();
    if (found_.empty()) bundles_of_some_node();
    std::string text;
    for (std::size_t i = 0; i < std::min(found_.size(), limits::changes_shown); ++i)
        text += (i == 0 ? "" : ", or ") + found_[i];
    return text;
}

}  // namespace

std::string nearest_change(const std::vector<NodeView>& nodes, const GangRequest& request, Verdict verdict,
                           const QuotaRoom& quotas) {
    const std::string now = Nearest(nodes, request, Verdict::feasible_now, quotas).text();
    if (!now.empty()) return "would start now " + now;
    if (verdict != Verdict::infeasible) return "";
    const std::string later = Nearest(nodes, request, Verdict::pending, quotas).text();
    return later.empty() ? "" : "would start once others have ended " + later;
}

}  // namespace rtrain::placing
