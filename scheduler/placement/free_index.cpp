// Applies deltas to the index: nodes, allocations, and the counts of each shape.
#include "scheduler/placement/free_index.hpp"

#include <algorithm>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {
namespace {

constexpr std::uint64_t gap = std::uint64_t{1} << 32;

}  // namespace

const NodeView* FreeIndex::find(const NodeId& id) const {
    const auto entry = by_id_.find(id);
    return entry == by_id_.end() ? nullptr : &nodes_[entry->second];
}

// Returns a position between the neighbours. If there is none left, all positions are numbered again.
void FreeIndex::order(Node node, const NodeId& id) {
    const auto here = by_id_.find(id);
    const std::uint64_t low = here == by_id_.begin() ? 0 : order_[std::prev(here)->second];
    const bool last = std::next(here) == by_id_.end();
    const std::uint64_t high = last ? low + 2 * gap : order_[std::next(here)->second];
    if (high - low >= 2 && low < UINT64_MAX - 4 * gap) {
        order_[node] = low + (high - low) / 2;
        return;
    }
    std::uint64_t next = 0;
    for (const auto& [other, position] : by_id_) order_[position] = next += gap;
}

void FreeIndex::put(const NodeView& node) {
    const auto [entry, added] = by_id_.try_emplace(node.id, 0);
    if (added) {
        if (unused_.empty()) {
            unused_.push_back(static_cast<Node>(nodes_.size()));
            nodes_.emplace_back();
            fullness_.emplace_back();
            masks_.push_back(0);
            holds_.emplace_back();
            order_.push_back(0);
        }
        entry->second = unused_.back();
        unused_.pop_back();
        order(entry->second, node.id);
    }
    nodes_[entry->second] = node;
    changed(entry->second, What::all);
}

void FreeIndex::put_free(const NodeView& node) {
    const auto entry = by_id_.find(node.id);
    RTRAIN_CHECK(entry != by_id_.end(), "the index does not know node " + node.id.value);
    nodes_[entry->second].free = node.free;
    nodes_[entry->second].gpus_free = node.gpus_free;
    nodes_[entry->second].zero_bundles = node.zero_bundles;
    changed(entry->second, What::free);
}

void FreeIndex::put_holds(const NodeId& id, NodeHolds holds) {
    const auto entry = by_id_.find(id);
    if (entry == by_id_.end() || holds_[entry->second] == holds) return;
    masks_[entry->second] = holds.mask();
    holds_[entry->second] = std::move(holds);
    changed(entry->second, What::free);
}

void FreeIndex::erase(const NodeId& id) {
    const auto entry = by_id_.find(id);
    if (entry == by_id_.end()) return;
    const Node node = entry->second;
    nodes_[node] = {};
    nodes_[node].state = NodeState::lost;
    masks_[node] = 0;
    holds_[node] = {};
    changed(node, What::all);
    settle();  // A new node may get the position of this one, in another order, so pending changes are counted first.
    by_id_.erase(entry);
    unused_.push_back(node);
}

void FreeIndex::changed(Node node, What what) {
    changes_.push_back(node);
    Fullness& fullness = fullness_[node];
    fullness.gpus = placing::gpus_free(nodes_[node].gpus_free);
    fullness.cpus = amount_of(nodes_[node].free, cpu_key);
    if (what == What::all) fullness.put = first_change_ + changes_.size();
    if (changes_.size() <= 8 * nodes_.size() + 64) return;
    first_change_ += changes_.size();  // Shapes that are behind are counted again.
    changes_.clear();
}

void FreeIndex::move(const GangRequest& gang, const Seats& seats, Moves moves) {
    const auto shift = [&](Amount& amount, Amount by) {
        amount = moves == Moves::give ? amount + by : amount - std::min(amount, by);
    };
    auto entry = by_id_.end();
    for (std::size_t i = 0; i < seats.size(); ++i) {
        if (entry == by_id_.end() || entry->first != seats[i].node) {  // Ranks of one node follow one another.
            if (entry != by_id_.end()) changed(entry->second, What::free);
            entry = by_id_.find(seats[i].node);
        }
        if (entry == by_id_.end()) continue;
        NodeView& node = nodes_[entry->second];
        for (const auto& [name, amount] : gang.bundles[i].demand) {
            if (name == gpu_key || amount.ticks == 0) continue;
            Amount& free = node.free[name];
            shift(free, amount);
            if (free.ticks == 0) node.free.erase(name);
        }
        for (const GpuShare& share : seats[i].gpus)
            if (share.device < node.gpus_free.size()) shift(node.gpus_free[share.device], share.amount);
    }
    if (entry != by_id_.end()) changed(entry->second, What::free);
}

void FreeIndex::take(const GangRequest& gang, const Seats& seats) { move(gang, seats, Moves::take); }

void FreeIndex::give(const GangRequest& gang, const Seats& seats) { move(gang, seats, Moves::give); }

// ---- one shape's counts -------------------------------------------------------------------------------------------

FreeIndex::Demand::Demand(const Resources& all)
    : gpus(amount_of(all, gpu_key)), cpus(amount_of(all, cpu_key)), others(all) {
    others.erase(std::string(gpu_key));
    others.erase(std::string(cpu_key));
}

// Like placing::slots, without reading the names.
std::uint32_t FreeIndex::slots(const Demand& demand, Node at) const {
    std::uint64_t count = UINT32_MAX;
    if (demand.cpus.ticks > 0)
        count = std::min(count, static_cast<std::uint64_t>(fullness_[at].cpus.ticks / demand.cpus.ticks));
    if (count > 0 && demand.gpus.ticks > 0) {
        if (fullness_[at].gpus < demand.gpus) return 0;
        count = std::min(count, placing::gpu_slots(nodes_[at].gpus_free, demand.gpus));
    }
    if (count == 0 || demand.others.empty()) return static_cast<std::uint32_t>(count);
    return placing::slots(nodes_[at].free, {}, demand.others, static_cast<std::uint32_t>(count));
}

FreeIndex::Count FreeIndex::count(const Shape& shape, Node at) const {
    const NodeView& node = nodes_[at];
    if ((masks_[at] & ~shape.mask) != 0) return count_rest(shape, at);
    if (node.state != NodeState::ready || !matches(shape.bundle.selector, node.labels)) return {};
    const Fullness& fullness = fullness_[at];
    const std::uint32_t whole_before = shape.seen >= fullness.put ? shape.counts[at].whole : 0;
    return {.slots = slots(shape.demand, at),
            .whole = whole_before > 0 ? whole_before : placing::slots_when_empty(node, shape.bundle.demand),
            .gpus = fullness.gpus,
            .cpus = fullness.cpus,
            .has_gpus = !node.gpus_free.empty()};
}

// Counts the slots on a node where closed reservations have seats.
FreeIndex::Count FreeIndex::count_rest(const Shape& shape, Node at) const {
    const NodeView& node = nodes_[at];
    if (shape.on_reserved == OnReserved::nothing || node.state != NodeState::ready ||
        !matches(shape.bundle.selector, node.labels))
        return {};
    const OpenRoom room = rest_of(shape, at);
    return {.slots = placing::slots(room.free, room.gpus, shape.bundle.demand, UINT32_MAX),
            .whole = placing::slots_when_empty(node, shape.bundle.demand),
            .gpus = placing::gpus_free(room.gpus),
            .cpus = amount_of(room.free, cpu_key),
            .has_gpus = !node.gpus_free.empty(),
            .reserved = true};
}

OpenRoom FreeIndex::rest_of(const Shape& shape, Node at) const {
    return room_beside(nodes_[at], holds_[at], masks_[at] & ~shape.mask);
}

bool FreeIndex::before(const Shape& shape, Node a, Node b) const {
    const Count &x = shape.counts[a], &y = shape.counts[b];
    if (x.reserved != y.reserved) return y.reserved;
    if (x.gpus != y.gpus) return x.gpus < y.gpus;
    if (x.cpus != y.cpus) return x.cpus < y.cpus;
    return order_[a] < order_[b];
}

void FreeIndex::insert(Shape& shape, Buckets& buckets, Node node) const {
    std::vector<Node>& bucket = buckets[shape.counts[node].slots];
    const auto at =
        std::lower_bound(bucket.begin(), bucket.end(), node, [&](Node a, Node b) { return before(shape, a, b); });
    bucket.insert(at, node);
}

void FreeIndex::remove(Shape& shape, Buckets& buckets, Node node) const {
    const auto bucket = buckets.find(shape.counts[node].slots);
    const auto at = std::lower_bound(bucket->second.begin(), bucket->second.end(), node,
                                     [&](Node a, Node b) { return before(shape, a, b); });
    RTRAIN_CHECK(at != bucket->second.end() && *at == node, "the index lost node " + nodes_[node].id.value);
    bucket->second.erase(at);
    if (bucket->second.empty()) buckets.erase(bucket);
}

void FreeIndex::refresh(Shape& shape, Node node) const {
    if (shape.counts.size() < nodes_.size()) shape.counts.resize(nodes_.size());
    const Count now = count(shape, node), was = shape.counts[node];
    if (now == was) return;
    if (was.slots > 0) {
        remove(shape, shape.open, node);
        if (shape.gpu_less && !was.has_gpus) remove(shape, shape.plain, node);
    }
    if (was.whole > 0 && --shape.whole_sizes[was.whole] == 0) shape.whole_sizes.erase(was.whole);
    shape.slots += now.slots;
    shape.slots -= was.slots;
    shape.whole_slots += now.whole;
    shape.whole_slots -= was.whole;
    shape.nodes += (now.slots > 0);
    shape.nodes -= (was.slots > 0);
    shape.whole_nodes += (now.whole > 0);
    shape.whole_nodes -= (was.whole > 0);
    if (now.whole > 0) ++shape.whole_sizes[now.whole];
    shape.counts[node] = now;
    if (now.slots == 0) return;
    insert(shape, shape.open, node);
    if (shape.gpu_less && !now.has_gpus) insert(shape, shape.plain, node);
}

void FreeIndex::rebuild(Shape& shape) const {
    Shape counted{.counts = std::vector<Count>(nodes_.size()),
                  .bundle = shape.bundle,
                  .mask = shape.mask,
                  .on_reserved = shape.on_reserved,
                  .gpu_less = shape.gpu_less,
                  .generation = shape.generation,
                  .asked = shape.asked};
    for (Node node = 0; node < nodes_.size(); ++node) {
        const Count now = counted.counts[node] = count(shape, node);
        counted.whole_slots += now.whole;
        if (now.whole > 0) {
            ++counted.whole_nodes;
            ++counted.whole_sizes[now.whole];
        }
        if (now.slots == 0) continue;
        counted.slots += now.slots;
        ++counted.nodes;
        counted.open[now.slots].push_back(node);
        if (shape.gpu_less && !now.has_gpus) counted.plain[now.slots].push_back(node);
    }
    for (Buckets* buckets : {&counted.open, &counted.plain})
        for (auto& [slots, bucket] : *buckets)
            std::sort(bucket.begin(), bucket.end(), [&](Node a, Node b) { return before(counted, a, b); });
    shape = std::move(counted);
}

// Computes the largest gang of each strategy, so that a verdict needs two comparisons.
void FreeIndex::set_limits(Shape& shape) {
    const auto limit = [](Limits& limits, Strategy strategy) -> std::uint64_t& {
        return limits[static_cast<std::size_t>(strategy)];
    };
    limit(shape.now, Strategy::pack) = limit(shape.now, Strategy::spread) = shape.slots;
    limit(shape.now, Strategy::strict_pack) = shape.open.empty() ? 0 : shape.open.rbegin()->first;
    limit(shape.now, Strategy::strict_spread) = shape.nodes;
    limit(shape.ever, Strategy::pack) = limit(shape.ever, Strategy::spread) = shape.whole_slots;
    limit(shape.ever, Strategy::strict_pack) = shape.whole_sizes.empty() ? 0 : shape.whole_sizes.rbegin()->first;
    limit(shape.ever, Strategy::strict_spread) = shape.whole_nodes;
}

void FreeIndex::bring_up_to_date(Shape& shape) {
    const std::uint64_t now = first_change_ + changes_.size();
    if (shape.seen < first_change_ || now - shape.seen > nodes_.size() + 8)
        rebuild(shape);
    else
        for (std::uint64_t at = shape.seen; at < now; ++at) refresh(shape, changes_[at - first_change_]);
    set_limits(shape);
    shape.seen = now;
}

void FreeIndex::settle() {
    for (Shape& shape : shapes_) bring_up_to_date(shape);
    first_change_ += changes_.size();
    changes_.clear();
    for (Shape& shape : shapes_) shape.seen = first_change_;
}

std::uint32_t FreeIndex::forget_one() {
    const auto oldest = std::min_element(shapes_.begin(), shapes_.end(),
                                         [](const Shape& a, const Shape& b) { return a.asked < b.asked; });
    const std::uint32_t generation = oldest->generation + 1;
    *oldest = Shape{.bundle = {}, .generation = generation};
    return static_cast<std::uint32_t>(oldest - shapes_.begin());
}

std::uint32_t FreeIndex::shape_for(const Bundle& bundle, ReservationMask open, OnReserved on_reserved) {
    for (std::uint32_t at = 0; at < shapes_.size(); ++at) {
        if (shapes_[at].mask != open || shapes_[at].on_reserved != on_reserved || shapes_[at].bundle != bundle)
            continue;
        shapes_[at].asked = ++clock_;
        return at;
    }
    std::uint32_t at = 0;
    if (shapes_.size() < limits::indexed_shapes) {
        at = static_cast<std::uint32_t>(shapes_.size());
        shapes_.emplace_back();
    } else {
        at = forget_one();
    }
    Shape& shape = shapes_[at];
    shape.bundle = bundle;
    shape.demand = Demand(bundle.demand);
    shape.mask = open;
    shape.on_reserved = on_reserved;
    shape.gpu_less = amount_of(bundle.demand, gpu_key).ticks == 0;
    shape.asked = ++clock_;
    rebuild(shape);
    set_limits(shape);
    shape.seen = first_change_ + changes_.size();
    return at;
}

}  // namespace rtrain
