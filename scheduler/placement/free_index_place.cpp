// Answers questions from the index. The nodes are chosen in the same order as in one_shape.cpp.
#include <algorithm>

#include "scheduler/placement/free_index.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {

std::optional<UniformGang> FreeIndex::prepare(const GangRequest& request, ReservationMask open,
                                              OnReserved on_reserved) {
    const bool plain = !request.topology_label && request.placed.empty() && request.nodes_only.empty() &&
                       request.nodes_excluded.empty() && request.nodes_avoided.empty();
    if (!plain || placing::invalid_because({}, request) || zero(request.bundles.front().demand) ||
        !placing::one_shape(placing::wanted_of(request)))
        return std::nullopt;
    for (const Bundle& bundle : request.bundles)
        // the comparison includes bundles without resources
        if (!(bundle == request.bundles.front())) return std::nullopt;
    const std::uint32_t shape = shape_for(request.bundles.front(), open, on_reserved);
    return UniformGang{.shape = shape,
                       .generation = shapes_[shape].generation,
                       .strategy = request.strategy,
                       .count = static_cast<std::uint32_t>(request.bundles.size())};
}

bool FreeIndex::knows(const UniformGang& gang) const {
    return gang.shape < shapes_.size() && shapes_[gang.shape].generation == gang.generation;
}

static_assert(static_cast<int>(Verdict::feasible_now) == 0 && static_cast<int>(Verdict::pending) == 1 &&
              static_cast<int>(Verdict::infeasible) == 2);

Verdict FreeIndex::verdict(const UniformGang& gang) {
    Shape& shape = shapes_[gang.shape];
    if (shape.seen != first_change_ + changes_.size()) {
        shape.asked = ++clock_;
        bring_up_to_date(shape);
    }
    const auto strategy = static_cast<std::size_t>(gang.strategy);
    const int not_now = gang.count > shape.now[strategy];  // without branches, because many gangs are checked in a row
    return static_cast<Verdict>(not_now + (not_now & static_cast<int>(gang.count > shape.ever[strategy])));
}

const FreeIndex::Limits& FreeIndex::limits(const UniformGang& gang) {
    verdict(gang);
    return shapes_[gang.shape].now;
}

std::vector<const NodeView*> FreeIndex::with_room(const UniformGang& gang) {
    verdict(gang);
    std::vector<const NodeView*> some;
    for (const auto& [slots, bucket] : shapes_[gang.shape].open)
        for (const Node node : bucket) some.push_back(&nodes_[node]);
    return some;
}

PlacementAnswer FreeIndex::place(const UniformGang& gang) {
    PlacementAnswer answer;
    answer.verdict = verdict(gang);
    if (answer.verdict != Verdict::feasible_now) return answer;
    const Shape& shape = shapes_[gang.shape];
    answer.seats = seats(shape, pick(shape, gang.strategy, gang.count), gang.count);
    return answer;
}

PlacementAnswer FreeIndex::place(const GangRequest& request) {
    if (const auto gang = prepare(request)) return place(*gang);
    return rtrain::place(nodes_, request);
}

// Takes the largest counts until one node can take the rest; of such nodes the one with the fewest slots.
FreeIndex::Picks FreeIndex::pack(const Buckets& buckets, std::uint32_t count) {
    Picks picks;
    auto largest = buckets.rbegin();
    for (std::size_t at = 0; count > 0; ++at) {
        while (largest != buckets.rend() && at == largest->second.size()) {
            ++largest;
            at = 0;
        }
        if (largest == buckets.rend()) return {};
        if (largest->first >= count) {
            const auto tightest = buckets.lower_bound(count);
            const bool same = tightest->first == largest->first;
            picks.push_back({.node = tightest->second[same ? at : 0], .taken = count});
            return picks;
        }
        picks.push_back({.node = largest->second[at], .taken = largest->first});
        count -= largest->first;
    }
    return picks;
}

FreeIndex::Picks FreeIndex::pick(const Shape& shape, Strategy strategy, std::uint32_t count) const {
    switch (strategy) {
        case Strategy::pack: {
            Picks all = pack(shape.open, count);
            if (shape.plain.empty()) return all;
            Picks plain = pack(shape.plain, count);
            return !plain.empty() && plain.size() <= all.size() ? plain : all;
        }
        case Strategy::strict_pack: {
            const auto tightest = shape.plain.lower_bound(count);
            const auto& bucket =
                tightest == shape.plain.end() ? shape.open.lower_bound(count)->second : tightest->second;
            return {{.node = bucket.front(), .taken = count}};
        }
        case Strategy::spread:
            return spread(shape, count);
        case Strategy::strict_spread:
            return strict_spread(shape, count);
    }
    return {};
}

// Returns nodes without GPUs first, then the emptiest, then by id; at least the first `most` of them.
std::vector<FreeIndex::Node> FreeIndex::in_spread_order(const Shape& shape, std::uint32_t most) const {
    std::vector<Node> nodes;
    const auto by_id = [&](Node a, Node b) { return order_[a] < order_[b]; };
    enum class Which { all, with_gpus };
    const auto append = [&](const Buckets& buckets, Which which) {
        for (auto bucket = buckets.rbegin(); bucket != buckets.rend() && nodes.size() < most; ++bucket) {
            const auto begin = static_cast<std::ptrdiff_t>(nodes.size());
            for (const Node node : bucket->second)
                if (which == Which::all || shape.counts[node].has_gpus) nodes.push_back(node);
            if (nodes.size() > most) {
                std::nth_element(nodes.begin() + begin, nodes.begin() + most, nodes.end(), by_id);
                nodes.resize(most);
            }
            std::sort(nodes.begin() + begin, nodes.end(), by_id);
        }
    };
    append(shape.plain, Which::all);
    append(shape.open, shape.gpu_less ? Which::with_gpus : Which::all);
    return nodes;
}

// Fills level by level: each node takes one more bundle as long as it can.
FreeIndex::Picks FreeIndex::spread(const Shape& shape, std::uint32_t count) const {
    Picks picks;
    for (const Node node : in_spread_order(shape, std::min(count, shape.nodes))) picks.push_back({.node = node});
    std::vector<std::uint32_t> open(picks.size());
    for (std::uint32_t i = 0; i < open.size(); ++i) open[i] = i;
    for (std::uint32_t level = 1; count > 0; ++level) {
        const std::size_t now = std::min<std::size_t>(open.size(), count);
        for (std::size_t i = 0; i < now; ++i) picks[open[i]].taken = level;
        count -= static_cast<std::uint32_t>(now);
        std::erase_if(open, [&](std::uint32_t i) { return shape.counts[picks[i].node].slots == level; });
    }
    return picks;
}

FreeIndex::Picks FreeIndex::strict_spread(const Shape& shape, std::uint32_t count) const {
    std::vector<Node> nodes;
    const auto before = [&](Node a, Node b) {
        const bool off_a = shape.gpu_less && !shape.counts[a].has_gpus;
        const bool off_b = shape.gpu_less && !shape.counts[b].has_gpus;
        return off_a != off_b ? off_a : order_[a] < order_[b];
    };
    for (const auto& [slots, bucket] : shape.open) nodes.insert(nodes.end(), bucket.begin(), bucket.end());
    if (nodes.size() > count) {
        std::nth_element(nodes.begin(), nodes.begin() + count, nodes.end(), before);
        nodes.resize(count);
    }
    std::sort(nodes.begin(), nodes.end(), before);
    Picks picks;
    for (const Node node : nodes) picks.push_back({.node = node, .taken = 1});
    return picks;
}

Seats FreeIndex::seats(const Shape& shape, const Picks& picks, std::uint32_t count) const {
    const Amount gpus_wanted = amount_of(shape.bundle.demand, gpu_key);
    Seats seats;
    seats.reserve(count);
    for (const Pick& pick : picks) {
        const NodeView& node = nodes_[pick.node];
        const bool reserved = (masks_[pick.node] & ~shape.mask) != 0;
        std::vector<Amount> gpus = reserved ? rest_of(shape, pick.node).gpus : node.gpus_free;
        for (std::uint32_t i = 0; i < pick.taken; ++i) {
            auto shares = placing::take_gpus(gpus, gpus_wanted);
            RTRAIN_CHECK(shares.has_value(), "GPUs of " + node.id.value);
            seats.push_back({.node = node.id, .gpus = *std::move(shares)});
        }
    }
    return seats;
}

std::vector<std::string> FreeIndex::faults_of(const Shape& shape) const {
    Shape recount = shape;
    recount.seen = 0;  // Counts all nodes again.
    rebuild(recount);
    std::vector<std::string> wrong;
    const auto expect = [&](bool holds, const std::string& what) {
        if (!holds) wrong.push_back("free index: " + what + " of a shape differ from a recount");
    };
    expect(shape.counts == recount.counts, "counts");
    for (Node node = 0; node < nodes_.size(); ++node)
        expect(slots(shape.demand, node) ==
                   placing::slots(nodes_[node].free, nodes_[node].gpus_free, shape.bundle.demand, UINT32_MAX),
               "slots of node " + nodes_[node].id.value);
    expect(shape.open == recount.open && shape.plain == recount.plain, "buckets");
    expect(shape.slots == recount.slots && shape.nodes == recount.nodes, "sums");
    expect(shape.whole_slots == recount.whole_slots && shape.whole_nodes == recount.whole_nodes &&
               shape.whole_sizes == recount.whole_sizes,
           "sums of empty nodes");
    set_limits(recount);
    expect(shape.now == recount.now && shape.ever == recount.ever, "limits");
    return wrong;
}

std::vector<std::string> FreeIndex::faults() const {
    std::vector<std::string> wrong;
    for (const Shape& shape : shapes_) {
        // the shape was not requested since the last change
        if (shape.seen != first_change_ + changes_.size()) continue;
        const auto here = faults_of(shape);
        wrong.insert(wrong.end(), here.begin(), here.end());
    }
    std::uint64_t last = 0;
    for (const auto& [id, node] : by_id_) {
        if (nodes_[node].id != id || order_[node] <= last) wrong.push_back("free index: order of node " + id.value);
        last = order_[node];
        if (fullness_[node].gpus != placing::gpus_free(nodes_[node].gpus_free) ||
            fullness_[node].cpus != amount_of(nodes_[node].free, cpu_key))
            wrong.push_back("free index: fullness of node " + id.value);
    }
    return wrong;
}

}  // namespace rtrain
