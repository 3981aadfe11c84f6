// Places a few unlike bundles with PACK or SPREAD: the best of all assignments. Each partition of the bundles into
// groups that share a node is tried, fewest groups first for PACK and most first for SPREAD. A bipartite matching
// assigns nodes to the groups. Eight bundles have 4,140 partitions; the nodes of a group are a mask of 64 bits.
#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

using NodeSet = std::uint64_t;  // bit: index into the remaining candidates
using BundleSet = unsigned;     // bit: position in Wanted::missing
constexpr NodeSet bit(std::size_t node) { return NodeSet{1} << node; }

// Keeps, of nodes that are equal for this gang, only as many as it has bundles.
std::vector<const Candidate*> without_likes(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    struct Kind {
        const Candidate* first;
        std::size_t count;
    };
    std::vector<Kind> kinds;
    std::vector<const Candidate*> left;
    const auto alike = [&](const Candidate& a, const Candidate& b) {
        return a.seated == 0 && b.seated == 0 && a.gpus == b.gpus && *a.free == *b.free &&
               std::all_of(wanted.missing.begin(), wanted.missing.end(), [&](std::uint32_t i) {
                   const LabelSelector& selector = wanted.request.bundles[i].selector;
                   return matches(selector, a.node->labels) == matches(selector, b.node->labels);
               });
    };
    for (const Candidate& candidate : candidates) {
        const auto kind =
            std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return alike(*k.first, candidate); });
        if (kind == kinds.end())
            kinds.push_back({&candidate, 1});
        else if (++kind->count > wanted.missing.size())
            continue;
        left.push_back(&candidate);
        if (kinds.size() > limits::exact_nodes) break;
    }
    return left;
}

struct Groups {  // one partition of the bundles into groups
    std::array<BundleSet, limits::exact_bundles> members{};
    std::size_t count = 0;
};
// index: the group; value: its node, as an index into the candidates
using Nodes = std::array<std::uint8_t, limits::exact_bundles>;

struct Score {  // A smaller score is better. The number of nodes is compared before it.
    std::uint32_t breaks = UINT32_MAX;
    std::uint32_t uneven = UINT32_MAX;
    auto operator<=>(const Score&) const = default;
};

class Exact {
  public:
    Exact(std::vector<const Candidate*> nodes, const Wanted& wanted) : nodes_(std::move(nodes)), wanted_(wanted) {
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (nodes_[i]->seated > 0) hosts_ |= bit(i);
            if (!nodes_[i]->gpus.empty()) with_gpus_ |= bit(i);
        }
        for (std::size_t i = 0; i < wanted.missing.size(); ++i) {
            if (amount_of(wanted.bundle(i).demand, gpu_key).ticks == 0) gpu_less_ |= 1U << i;
            const auto like = std::find_if(kinds_.begin(), kinds_.end(), [&](BundleSet kind) {
                return wanted.bundle(static_cast<std::size_t>(std::countr_zero(kind))) == wanted.bundle(i);
            });
            if (like == kinds_.end())
                kinds_.push_back(1U << i);
            else
                *like |= 1U << i;
        }
        rank_nodes();
    }
    Attempted best();

  private:
    void rank_nodes();
    BundleSet alike(BundleSet group) const;
    std::uint64_t kind_of(const Groups& groups) const;
    NodeSet fits(BundleSet group);
    void partition(Groups& groups, std::size_t at, std::size_t wanted_groups, std::uint32_t breaks);
    void join_or_open(Groups& groups, std::size_t at, std::size_t wanted_groups, std::uint32_t breaks);
    void consider(const Groups& groups);
    Score score_of(const Groups& groups) const;
    int match(const std::array<NodeSet, limits::exact_bundles>& masks, std::size_t count) const;
    Nodes nodes_for(const Groups& groups);

    std::vector<const Candidate*> nodes_;
    const Wanted& wanted_;
    NodeSet hosts_ = 0, with_gpus_ = 0;
    BundleSet gpu_less_ = 0;
    std::vector<BundleSet> kinds_;     // the sets of equal bundles
    std::set<std::uint64_t> dead_;     // keys of partial assignments that have no solution (see kind_of)
    std::vector<std::uint8_t> liked_;  // the remaining nodes in the order of preference
    std::array<NodeSet, 1U << limits::exact_bundles> fits_{};
    std::array<bool, 1U << limits::exact_bundles> known_{};
    bool proved_ = true;
    // The best assignment so far. `fresh_`: number of its nodes that did not host the gang before.
    std::optional<Groups> best_;
    int fresh_ = 0;
    Score score_;
};

void Exact::rank_nodes() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) liked_.push_back(static_cast<std::uint8_t>(i));
    const bool packing = packs(wanted_.request.strategy);
    std::stable_sort(liked_.begin(), liked_.end(), [&](std::uint8_t a, std::uint8_t b) {
        const Candidate &x = *nodes_[a], &y = *nodes_[b];
        const Amount gpus_x = gpus_free(x.gpus), gpus_y = gpus_free(y.gpus);
        if (gpus_x != gpus_y) return packing ? gpus_x < gpus_y : gpus_x > gpus_y;
        const Amount cpus_x = amount_of(*x.free, cpu_key), cpus_y = amount_of(*y.free, cpu_key);
        return packing ? cpus_x < cpus_y : cpus_x > cpus_y;
    });
}

// Returns the group with each bundle replaced by the first equal one: equal groups fit the same nodes.
BundleSet Exact::alike(BundleSet group) const {
    BundleSet first = 0;
    for (const BundleSet kind : kinds_)
        for (BundleSet left = group & kind, rest = kind; left != 0; left &= left - 1, rest &= rest - 1)
            first |= rest & (~rest + 1);
    return first;
}

// Returns a key of a list of groups that is equal for equivalent lists: it does not depend on the order of the groups,
// or on which of several equal bundles they contain.
std::uint64_t Exact::kind_of(const Groups& groups) const {
    std::array<std::uint8_t, limits::exact_bundles> firsts{};
    for (std::size_t g = 0; g < groups.count; ++g) firsts[g] = static_cast<std::uint8_t>(alike(groups.members[g]));
    std::sort(firsts.begin(), firsts.begin() + static_cast<std::ptrdiff_t>(groups.count));
    return std::bit_cast<std::uint64_t>(firsts);
}

// Returns the nodes that take all bundles of a group at once.
NodeSet Exact::fits(BundleSet group) {
    if (known_[group]) return fits_[group];
    known_[group] = true;
    if (const BundleSet first = alike(group); first != group) return fits_[group] = fits(first);
    const BundleSet lowest = group & (~group + 1);
    NodeSet mask = nodes_.size() == limits::exact_nodes ? ~NodeSet{0} : bit(nodes_.size()) - 1;
    if (lowest != group) mask = fits(lowest) & fits(group & ~lowest);
    std::vector<std::uint32_t> bundles;
    for (std::size_t i = 0; i < wanted_.missing.size(); ++i)
        if ((group >> i & 1U) != 0) bundles.push_back(wanted_.missing[i]);
    for (NodeSet left = mask; left != 0; left &= left - 1) {
        const auto node = static_cast<std::size_t>(std::countr_zero(left));
        const Shared here = seat_together(*nodes_[node], wanted_.request, bundles);
        proved_ = proved_ && here.proved;
        if (!here.shares) mask &= ~bit(node);
    }
    return fits_[group] = mask;
}

// Returns how many of the groups' nodes already host the gang, or -1 without an assignment. PACK prefers such hosts,
// SPREAD avoids them. The preferred nodes are matched first, because augmenting paths keep matched nodes matched.
int Exact::match(const std::array<NodeSet, limits::exact_bundles>& masks, std::size_t count) const {
    const NodeSet first = packs(wanted_.request.strategy) ? hosts_ : ~hosts_;
    std::array<int, limits::exact_nodes> holder;
    holder.fill(-1);
    std::array<bool, limits::exact_bundles> seated{};
    const auto augment = [&](auto&& self, std::size_t group, NodeSet within, NodeSet& seen) -> bool {
        for (NodeSet open = masks[group] & within & ~seen; open != 0; open = masks[group] & within & ~seen) {
            const auto node = static_cast<std::size_t>(std::countr_zero(open));
            seen |= bit(node);
            if (holder[node] >= 0 && !self(self, static_cast<std::size_t>(holder[node]), within, seen)) continue;
            holder[node] = static_cast<int>(group);
            return true;
        }
        return false;
    };
    for (const NodeSet within : {first, ~NodeSet{0}}) {
        for (std::size_t group = 0; group < count; ++group) {
            NodeSet seen = 0;
            if (!seated[group]) seated[group] = augment(augment, group, within, seen);
        }
    }
    if (!std::all_of(seated.begin(), seated.begin() + static_cast<std::ptrdiff_t>(count), [](bool s) { return s; }))
        return -1;
    int hosts = 0;
    for (std::size_t node = 0; node < nodes_.size(); ++node) hosts += holder[node] >= 0 && (hosts_ >> node & 1U) != 0;
    return hosts;
}

// Returns the score of an assignment. In the order of precedence: ranks of one node follow each other, the groups are
// of even size for SPREAD, and bundles without GPUs are not beside bundles with GPUs for PACK.
Score Exact::score_of(const Groups& groups) const {
    Score score{.breaks = 0, .uneven = 0};
    const auto group_of = [&](std::size_t bundle) {
        std::size_t group = 0;
        while ((groups.members[group] >> bundle & 1U) == 0) ++group;
        return group;
    };
    for (std::size_t i = 1; i < wanted_.missing.size(); ++i) score.breaks += group_of(i) != group_of(i - 1);
    for (std::size_t g = 0; g < groups.count; ++g) {
        const BundleSet members = groups.members[g];
        const auto size = static_cast<std::uint32_t>(std::popcount(members));
        const bool beside_gpus = (members & ~gpu_less_) != 0;
        if (!packs(wanted_.request.strategy))
            score.uneven += size * size;
        else if (beside_gpus)
            score.uneven += static_cast<std::uint32_t>(std::popcount(members & gpu_less_));
    }
    return score;
}

void Exact::consider(const Groups& groups) {
    const bool packing = packs(wanted_.request.strategy);
    const Score score = score_of(groups);
    if (best_ && hosts_ == 0 && groups.count == best_->count && score >= score_) return;
    std::array<NodeSet, limits::exact_bundles> masks{};
    for (std::size_t g = 0; g < groups.count; ++g) masks[g] = fits(groups.members[g]);
    const int hosts = match(masks, groups.count);
    if (hosts < 0) return;
    const int fresh = static_cast<int>(groups.count) - hosts;
    if (best_) {
        if (packing ? fresh > fresh_ : fresh < fresh_) return;
        if (fresh == fresh_ && score >= score_) return;
    }
    best_ = groups;
    fresh_ = fresh;
    score_ = score;
}

// Adds bundle `at` and all later ones to the groups in every way. `breaks`: how often consecutive bundles so far lie in
// different groups; each further group adds at least one. If this assignment must have more breaks than the best one,
// which has as many groups, the search ends here. That is only possible if no node hosts a part of the gang already.
// While no assignment was found, groups equivalent to ones without a solution are skipped.
void Exact::partition(Groups& groups, std::size_t at, std::size_t wanted_groups, std::uint32_t breaks) {
    const std::size_t left = wanted_.missing.size() - at;
    if (groups.count + left < wanted_groups) return;
    if (best_ && hosts_ == 0 && best_->count == wanted_groups && breaks + wanted_groups - groups.count > score_.breaks)
        return;
    if (left == 0) return consider(groups);
    const bool may_repeat = !best_ && kinds_.size() < wanted_.missing.size();
    const std::uint64_t kind = may_repeat ? kind_of(groups) : 0;
    if (may_repeat && dead_.contains(kind)) return;
    join_or_open(groups, at, wanted_groups, breaks);
    if (may_repeat && !best_) dead_.insert(kind);
}

void Exact::join_or_open(Groups& groups, std::size_t at, std::size_t wanted_groups, std::uint32_t breaks) {
    const BundleSet last = at == 0 ? 0 : 1U << (at - 1);
    for (std::size_t g = 0; g < groups.count; ++g) {
        const BundleSet before = groups.members[g];
        groups.members[g] |= 1U << at;
        if (fits(groups.members[g]) != 0)
            partition(groups, at + 1, wanted_groups, breaks + ((before & last) == 0 ? 1 : 0));
        groups.members[g] = before;
    }
    if (groups.count == wanted_groups) return;
    groups.members[groups.count++] = 1U << at;
    partition(groups, at + 1, wanted_groups, breaks + (at == 0 ? 0 : 1));
    groups.members[--groups.count] = 0;
}

// Each group in turn takes its preferred node among those that leave the others an equally good assignment.
Nodes Exact::nodes_for(const Groups& groups) {
    std::array<NodeSet, limits::exact_bundles> masks{};
    for (std::size_t g = 0; g < groups.count; ++g) masks[g] = fits(groups.members[g]);
    const int hosts = static_cast<int>(groups.count) - fresh_;
    Nodes chosen{};
    for (std::size_t g = 0; g < groups.count; ++g) {
        const bool off_gpus = (groups.members[g] & ~gpu_less_) == 0;
        const auto take = [&](NodeSet among) {
            for (const std::uint8_t node : liked_) {
                if ((masks[g] & among & bit(node)) == 0) continue;
                auto trial = masks;
                for (std::size_t other = g; other < groups.count; ++other) trial[other] &= ~bit(node);
                trial[g] = bit(node);
                if (match(trial, groups.count) != hosts) continue;
                masks = trial;
                chosen[g] = node;
                return true;
            }
            return false;
        };
        const bool seated = (off_gpus && take(~with_gpus_)) || take(~NodeSet{0});
        RTRAIN_CHECK(seated, "a group lost its node");
    }
    return chosen;
}

Attempted Exact::best() {
    const std::size_t bundles = wanted_.missing.size();
    for (std::size_t i = 0; i < bundles; ++i)
        if (fits(1U << i) == 0) return {.seats = std::nullopt, .proved = proved_};
    const bool packing = packs(wanted_.request.strategy);
    const int hosts = std::popcount(hosts_);
    for (std::size_t step = 1; step <= bundles; ++step) {
        const std::size_t count = packing ? step : bundles + 1 - step;
        if (best_ && (packing ? static_cast<int>(count) - hosts > fresh_ : static_cast<int>(count) < fresh_)) break;
        Groups groups;
        dead_.clear();
        partition(groups, 0, count, 0);
    }
    if (!best_) return {.seats = std::nullopt, .proved = proved_};
    const Nodes nodes = nodes_for(*best_);
    Seats seats(wanted_.request.bundles.size());
    for (std::size_t g = 0; g < best_->count; ++g) {
        std::vector<std::uint32_t> members;
        for (std::size_t i = 0; i < bundles; ++i)
            if ((best_->members[g] >> i & 1U) != 0) members.push_back(wanted_.missing[i]);
        Shared here = seat_together(*nodes_[nodes[g]], wanted_.request, members);
        for (std::size_t i = 0; i < members.size(); ++i)
            seats[members[i]] = {.node = nodes_[nodes[g]]->node->id, .gpus = std::move((*here.shares)[i])};
    }
    return {.seats = std::move(seats), .proved = true};
}

}  // namespace

std::optional<Attempted> place_exactly(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    if (wanted.missing.size() > limits::exact_bundles) return std::nullopt;
    std::vector<const Candidate*> nodes = without_likes(candidates, wanted);
    if (nodes.size() > limits::exact_nodes) return std::nullopt;
    return Exact(std::move(nodes), wanted).best();
}

}  // namespace rtrain::placing
