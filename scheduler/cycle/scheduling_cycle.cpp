// A scheduling pass: EASY backfill. Runs are placed in their order; the first that finds no room reserves the nodes on
// which it will start soonest, and those behind it may use these only if they have ended by then. One run of each kind
// of node reserves: two that could never use the same nodes do not stand behind each other. So does the oldest gang of
// each queue once it has waited long. See README.md, "Queues".
#include "scheduler/cycle/scheduling_cycle.hpp"

#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/backfill.hpp"
#include "scheduler/queue/order.hpp"
#include "scheduler/queue/preemption.hpp"

namespace rtrain::core {

namespace {

constexpr const char* no_nodes = "NO PRESENT NODES COULD EVER HOLD IT";
constexpr const char* no_room = "waits for room";

bool told_of_quota(const std::string& reason) {
    return reason.starts_with("queue \"") || reason.starts_with("may borrow no ");
}

std::string never_fits(const std::vector<NodeView>& nodes, const GangRequest& gang) {
    std::string text = std::string(no_nodes) + ", it waits for nodes to join";
    const char* before = ": ";
    for (const NodeReason& reason : placement_reasons(nodes, gang, 3)) {
        text += before + (reason.node.value.empty() ? "" : reason.node.value + ": ") + reason.text;
        before = "; ";
    }
    return text;
}

Sums demand_of_first(const Run& run, std::size_t workers) {
    Sums total;
    for (std::size_t rank = 0; rank < workers; ++rank) add(total, demand_of(run, rank));
    return total;
}

struct Held {  // a reservation that stands in this pass
    RunId run;
    std::uint32_t shape = 0;
    Reservation at;
    Doors door = 0;
    Claim claim = Claim::none;
};

class Pass {
  public:
    explicit Pass(Change& change) : change_(change), ledger_(change.ledger()), quotas_(change.seen()) {}
    void run();

  private:
    enum class Next { on, skip };  // after a run: its shape goes on, or need not be tried again
    Next consider(const Turn& turn);
    Next blocked(const Turn& turn);
    std::optional<Next> refused_by_quota(const Turn& turn, const Run& run);
    bool others_leave_quota(const Turn& turn, const Run& run);
    bool shorter_may_borrow(const Turn& turn, const OverQuota& over) const;
    std::size_t doors_for(std::optional<Duration> limit) const;
    bool passes(const Held& held, std::optional<Duration> limit) const;
    Doors open_to(std::optional<Duration> limit) const;
    bool some_may_pass(const Turn& turn);
    bool start(const Turn& turn, const Run& run, Doors open);
    bool same_kind(std::uint32_t a, std::uint32_t b) const;
    bool found_another_node(const Run& run, const GangRequest& gang) const;
    bool stands(const Run& run, const GangRequest& gang) const;
    void hold(const Turn& turn, Time not_before);
    void renew(const Turn& turn, Reservation& at, Time not_before);
    Doors open_for_promise(const Turn& turn) const;
    std::size_t heads() const;
    void tell_reasons();
    void give_reason(RunId id, const std::string& reason);
    void within_quota(const Turn& turn);
    std::set<RunId> told_what_holds_no_more();
    std::string reason_of(const Run& run, std::uint32_t shape);
    void let_go_of_others();
    PlacementAnswer grown(const Run& run, PlacementAnswer smallest, Doors open);
    void grow();

    Change& change_;
    Ledger& ledger_;
    Quotas quotas_;
    std::set<RunId> promised_;  // kept out by a quota that others are about to leave
    std::vector<Held> held_;
    std::set<std::uint32_t> full_;                     // shapes that found no room on any node
    std::map<std::uint32_t, std::string> never_fits_;  // what runs of a shape are told
    std::map<std::uint32_t, std::size_t> too_long_;
    std::map<std::uint32_t, std::size_t> refused_;  // shapes behind reservations: so many open doors did not help
};

void Pass::give_reason(RunId id, const std::string& reason) {
    if (change_.seen().runs.at(id).reason != reason) change_.edit(id).reason = reason;
}

// How many reservations leave a run alone that takes so long: it is over before they begin. They nest: who passes one
// passes all that begin later.
std::size_t Pass::doors_for(std::optional<Duration> limit) const {
    return static_cast<std::size_t>(
        std::count_if(held_.begin(), held_.end(), [&](const Held& held) { return passes(held, limit); }));
}

bool Pass::passes(const Held& held, std::optional<Duration> limit) const {
    return limit && held.at.from.ms != 0 && change_.now() + *limit <= held.at.from;
}

// The doors of all but those who would be kept waiting by a run that takes so long.
Doors Pass::open_to(std::optional<Duration> limit) const {
    Doors open = every_door;
    for (const Held& held : held_)
        if (!passes(held, limit)) open &= ~held.door;
    return open;
}

std::optional<Pass::Next> Pass::refused_by_quota(const Turn& turn, const Run& run) {
    const auto over = quotas_.refuses(turn.line->queue, ledger_.shape(turn.shape).total, borrower(run, change_.now()));
    if (!over) return std::nullopt;
    if (run.state == RunState::queued && run.reason != to_text(*over)) give_reason(run.id, to_text(*over));
    if (run.retry_at > change_.now()) return Next::skip;
    const bool may = over->lent() || rules_of(change_.seen().queues, turn.line->queue).preempt;
    if (may && others_leave_quota(turn, run)) return Next::on;
    return shorter_may_borrow(turn, *over) && ++too_long_[turn.shape] < limits::too_long_most ? Next::on : Next::skip;
}

// What is kept back for a reservation may be lent to who has ended by then: the shortest of the same shape?
bool Pass::shorter_may_borrow(const Turn& turn, const OverQuota& over) const {
    if (!over.claimed) return false;
    const Duration shortest = ledger_.waiting().at(*turn.line).at(turn.shape).by_length.begin()->first;
    if (shortest == for_ever) return false;
    const Borrower who{.over_by = change_.now() + shortest};
    return !quotas_.refuses(turn.line->queue, ledger_.shape(turn.shape).total, who);
}

// Lower priorities give way within a quota too, and who was lent to gives back. What they leave is kept for it, in the
// quota and on nodes: else those who go first would have it again before the last has gone. Nobody goes for nodes that
// are kept for others.
bool Pass::others_leave_quota(const Turn& turn, const Run& run) {
    if (ledger_.shape(turn.shape).gang.driver || heads() >= limits::heads_most ||
        held_.size() >= limits::reservations_most)
        return false;
    const auto room = make_room(change_, quotas_, run.id, open_to(run.spec.wall_time_limit));
    if (!room) return false;
    if (room->asked_now) change_.settle();
    if (room->asked_now && !run.nodes_reserved.empty()) change_.edit(turn.run).nodes_reserved.clear();
    hold(turn, room->by);
    quotas_.starts(turn.run);  // counted as a promise now
    quotas_.promise(turn.line->queue, ledger_.shape(turn.shape).total);
    promised_.insert(turn.run);
    return true;
}

// Could both use one of the nodes? Gangs that ask alike of a node could, without looking at any.
bool Pass::same_kind(std::uint32_t a, std::uint32_t b) const {
    const GangRequest &one = ledger_.shape(a).gang, &other = ledger_.shape(b).gang;
    const auto needs_gpu = [](const GangRequest& gang) {
        return amount_of(gang.bundles.front().demand, gpu_key).ticks > 0;
    };
    const bool alike = one.nodes_only == other.nodes_only && one.topology_label == other.topology_label &&
                       one.bundles.front().selector == other.bundles.front().selector &&
                       needs_gpu(one) == needs_gpu(other);
    return alike || std::any_of(ledger_.nodes().begin(), ledger_.nodes().end(),
                                [&](const NodeView& node) { return could_use(node, one) && could_use(node, other); });
}

// The doors of all but those who have a promise of this priority, or a higher one.
Doors Pass::open_for_promise(const Turn& turn) const {
    Doors open = open_to({});
    for (const RunId id : ledger_.reserving())
        if (id != turn.run && ledger_.line_of(id).priority >= turn.line->priority) open &= ~ledger_.kept().door_of(id);
    return open;
}

// Has enough been given back that it could begin sooner? Not for every small run that ends.
bool worth_a_look(const Sums& given_back, const Sums& total) {
    return std::all_of(total.begin(), total.end(), [&](const auto& entry) {
        return entry.second.ticks <= amount_of(given_back, entry.first).ticks * limits::looks_for_a_part_of;
    });
}

// Made anew, or to begin sooner: runs end before their limits, and the nodes that are free then may be others.
void Pass::renew(const Turn& turn, Reservation& at, Time not_before) {
    const bool stands = !at.nodes.empty() && at.from > change_.now() && !change_.nodes_have_changed();
    const auto sooner_than = stands ? std::optional(at.from) : std::nullopt;
    Reservation made = reserve(change_.seen(), ledger_, turn.shape, change_.now(), open_for_promise(turn), sooner_than);
    if (made.nodes.empty() && !stands) made = reserve(change_.seen(), ledger_, turn.shape, change_.now(), open_to({}));
    if (made.from.ms != 0) made.from = std::max(made.from, not_before);
    const bool sooner = made.from.ms != 0 && made.from < at.from;
    if (stands && !sooner) return;
    at = std::move(made);
    const Run& run = change_.seen().runs.at(turn.run);
    if (run.nodes_reserved == at.nodes && run.reserved_from == at.from) return;
    Run& record = change_.edit(turn.run);
    record.nodes_reserved = at.nodes;
    record.reserved_from = at.from;
}

// A node that it has not reserved was given back, and takes a part of the gang now.
bool Pass::found_another_node(const Run& run, const GangRequest& gang) const {
    const auto& nodes = change_.given_back_on();
    return std::any_of(nodes.begin(), nodes.end(), [&](const NodeId& id) {
        if (std::binary_search(run.nodes_reserved.begin(), run.nodes_reserved.end(), id)) return false;
        const NodeView* node = ledger_.node(id);
        return node != nullptr && placing::takes_one(*node, gang, node->free, node->gpus_free);
    });
}

// A reservation is kept as long as it has not passed. One whose time nobody knows is made anew when another node was
// given back, which it takes before who waits behind it, and by no other event: it looks at all that runs.
bool Pass::stands(const Run& run, const GangRequest& gang) const {
    if (run.nodes_reserved.empty() || ledger_.kept().door_of(run.id) == 0 || change_.nodes_have_changed()) return false;
    return run.reserved_from.ms == 0 ? !found_another_node(run, gang) : run.reserved_from > change_.now();
}

// The time of a reservation is a promise, and moves only to be sooner.
void Pass::hold(const Turn& turn, Time not_before) {
    if (held_.size() >= limits::reservations_most || ledger_.shape(turn.shape).gang.driver) return;
    const Run& run = change_.seen().runs.at(turn.run);
    Doors door = ledger_.kept().door_of(turn.run);
    Reservation at{.nodes = {}, .from = run.reserved_from};
    const Shape& shape = ledger_.shape(turn.shape);
    const bool unknown = run.reserved_from.ms == 0;
    if (!stands(run, shape.gang) || (!unknown && worth_a_look(change_.given_back(), shape.total))) {
        at.nodes = run.nodes_reserved;
        renew(turn, at, not_before);
        if (at.nodes.empty()) return;
        door = ledger_.keep_for(turn.run, at.nodes);
    }
    held_.push_back({.run = turn.run, .shape = turn.shape, .at = std::move(at), .door = door, .claim = turn.claim});
    refused_.clear();
}

std::size_t Pass::heads() const {
    return static_cast<std::size_t>(
        std::count_if(held_.begin(), held_.end(), [](const Held& held) { return held.claim != Claim::starving; }));
}

// It waits for room alone: what it, and those behind it, were told of their quota holds no more.
void Pass::within_quota(const Turn& turn) {
    const LedgerBatch& batch = ledger_.waiting().at(*turn.line).at(turn.shape);
    std::string reason;  // the same for all of them
    for (auto at = batch.by_age.lower_bound({change_.seen().runs.at(turn.run).submitted, turn.run});
         at != batch.by_age.end(); ++at) {
        const Run& run = change_.seen().runs.at(at->id);
        if (run.state != RunState::queued) continue;
        if (!told_of_quota(run.reason)) return;
        if (reason.empty()) reason = reason_of(run, turn.shape);
        give_reason(run.id, reason);
    }
}

Pass::Next Pass::blocked(const Turn& turn) {
    within_quota(turn);
    if (turn.claim == Claim::none && heads() >= limits::heads_most) return Next::skip;
    if (!ledger_.ever(turn.shape)) return Next::skip;
    const Run& run = change_.seen().runs.at(turn.run);
    const bool behind =
        std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return same_kind(held.shape, turn.shape); });
    if (turn.claim == Claim::none && behind) return Next::skip;
    const auto room = behind ? std::nullopt : make_room(change_, quotas_, turn.run);  // reckoned with every node
    if (room && room->asked_now) {
        change_.settle();
        if (!run.nodes_reserved.empty()) change_.edit(turn.run).nodes_reserved.clear();
    }
    hold(turn, change_.now());
    return turn.claim == Claim::none ? Next::skip : Next::on;
}

// An elastic run takes as many workers as fit and its quota allows.
PlacementAnswer Pass::grown(const Run& run, PlacementAnswer smallest, Doors open) {
    if (smallest.verdict != Verdict::feasible_now || workers_min(run) == workers_max(run)) return smallest;
    GangRequest largest = gang_of(run.spec, workers_max(run));
    largest.nodes_avoided.insert(largest.nodes_avoided.end(), run.nodes_avoided.begin(), run.nodes_avoided.end());
    const auto allowed = [&](std::uint32_t workers) {
        return !quotas_.refuses(run.spec.queue, demand_of_first(run, workers), borrower(run, change_.now()));
    };
    Sized sized = place_largest(ledger_.nodes(open), largest, workers_min(run), allowed);
    return sized.answer.verdict == Verdict::feasible_now ? std::move(sized.answer) : std::move(smallest);
}

// Runs that may grow get what no waiting run could use, within their quota.
void Pass::grow() {
    if (!some_may_grow(change_.seen())) return;
    const std::vector<NodeView> open = unwanted_nodes(change_, quotas_, any_priority);
    grow_elastic(change_, open, [&](const Run& run, std::uint32_t more) {
        return !quotas_.refuses(run.spec.queue, demand_of_first(run, more));
    });
}

Pass::Next Pass::consider(const Turn& turn) {
    const Run& run = change_.seen().runs.at(turn.run);
    if (const auto next = refused_by_quota(turn, run)) return *next;
    if (run.retry_at > change_.now()) {
        const bool keeps = run.retry_at - change_.now() <= limits::backoff_keeps_place && ledger_.ever(turn.shape);
        if (keeps && heads() == 0) hold(turn, run.retry_at);
        return Next::on;
    }
    if (turn.claim != Claim::none) {
        if (start(turn, run, open_to(run.spec.wall_time_limit))) return Next::on;
        return blocked(turn);
    }
    if (full_.contains(turn.shape)) {
        within_quota(turn);
        return Next::skip;
    }
    const bool driver = ledger_.shape(turn.shape).gang.driver;  // it takes nothing from who reserved
    const std::optional<Duration> limit = run.spec.wall_time_limit;
    const std::size_t doors = driver ? held_.size() : doors_for(limit);
    const auto refused = refused_.find(turn.shape);
    if (driver || refused == refused_.end() || refused->second < doors) {
        if (start(turn, run, driver ? every_door : open_to(limit))) return Next::on;
        refused_[turn.shape] = doors;
    }
    if (doors == held_.size()) {
        full_.insert(turn.shape);
        return blocked(turn);
    }
    const Next next = blocked(turn);
    return some_may_pass(turn) && ++too_long_[turn.shape] < limits::too_long_most ? Next::on : next;
}

bool Pass::start(const Turn& turn, const Run& run, Doors open) {
    if (!ledger_.room_for(turn.shape, open)) return false;
    const PlacementAnswer answer = grown(run, ledger_.place(turn.shape, open), open);
    if (answer.verdict != Verdict::feasible_now) return false;
    quotas_.starts(turn.run);
    quotas_.count(turn.line->queue, demand_of_first(run, answer.seats.size()));
    place_attempt(change_, turn.run, answer.seats);
    change_.settle();
    return true;
}

// Behind a reservation. A shorter one of the same shape may still be over in time: is there room for the shortest?
bool Pass::some_may_pass(const Turn& turn) {
    const auto batch = ledger_.waiting().at(*turn.line).find(turn.shape);
    const Duration shortest = batch->second.by_length.begin()->first;
    if (shortest == for_ever) return false;
    const std::size_t doors = doors_for(shortest);
    if (doors <= refused_[turn.shape]) return false;
    const Doors open = open_to(shortest);
    const bool room = ledger_.room_for(turn.shape, open) && ledger_.fits(turn.shape, open);
    if (!room) refused_[turn.shape] = doors;
    return room;
}

std::string Pass::reason_of(const Run& run, std::uint32_t shape) {
    const auto over = quotas_.refuses(run.spec.queue, ledger_.shape(shape).total, borrower(run, change_.now()));
    if (over) return to_text(*over);
    if (ledger_.ever(shape)) return no_room;
    std::string& text = never_fits_[shape];
    if (text.empty()) text = never_fits(ledger_.nodes(), ledger_.shape(shape).gang);
    return text;
}

// Nodes have come or gone, or other quotas are in force. Those of a shape were told alike.
std::set<RunId> Pass::told_what_holds_no_more() {
    std::set<RunId> told;
    for (const auto& [line, batches] : ledger_.waiting())
        for (const auto& [shape, batch] : batches) {
            const bool ever = ledger_.ever(shape);
            for (const Waiter& waiter : batch.by_age) {
                const Run& run = change_.seen().runs.at(waiter.id);
                if (run.state != RunState::queued) continue;
                const bool of_nodes = change_.nodes_have_changed() && (!ever || run.reason.starts_with(no_nodes));
                const bool of_queues =
                    change_.queues_have_changed() && (told_of_quota(run.reason) || run.reason == no_room);
                if (of_nodes || of_queues)
                    told.insert(run.id);
                else if (!change_.queues_have_changed())
                    break;
            }
        }
    return told;
}

// Every run is told once why it waits, and again when that may hold no more. (Behind whom it waits is for `explain`.)
void Pass::tell_reasons() {
    std::set<RunId> untold = ledger_.fresh();
    if (change_.nodes_have_changed() || change_.queues_have_changed()) untold.merge(told_what_holds_no_more());
    for (const RunId id : untold)
        if (const Run& run = change_.seen().runs.at(id); run.state == RunState::queued && !promised_.contains(id))
            give_reason(id, reason_of(run, ledger_.shape_of(id)));
}

// Those who reserved before and are no longer first.
void Pass::let_go_of_others() {
    std::set<RunId> stay;
    for (const Held& held : held_) stay.insert(held.run);
    for (const RunId id : std::set<RunId>(ledger_.reserving())) {
        if (stay.contains(id)) continue;
        Run& run = change_.edit(id);
        run.nodes_reserved.clear();
        run.reserved_from = {};
    }
}

void Pass::run() {
    claim_lent(quotas_, change_);
    Order order(ledger_, FairShare(change_.seen(), ledger_, change_.now()), change_.now());
    while (const auto turn = order.next())
        if (consider(*turn) == Next::skip) order.skip(*turn);
    change_.settle();
    let_go_of_others();
    withdraw_asks(change_);
    change_.settle();
    grow();
    if (!ledger_.fresh().empty() || change_.nodes_have_changed() || change_.queues_have_changed()) tell_reasons();
    change_.settle();
}

}  // namespace

void place_waiting(Change& change) {
    change.settle();
    Pass(change).run();
}

}  // namespace rtrain::core
