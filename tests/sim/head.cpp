// See head.hpp.
#include "tests/sim/head.hpp"

#include <algorithm>
#include <utility>

#include "daemon/head/events/news.hpp"
#include "daemon/head/events/node_rights.hpp"
#include "daemon/head/events/orders.hpp"
#include "tests/sim/node.hpp"
#include "tests/sim/users.hpp"
#include "tests/transcripts/effect_text.hpp"

namespace rtrain::sim {
namespace {

constexpr std::int64_t node_timeout_ms = 10'000, heartbeat_ms = 1'000, wake_pause_ms = 5, lease_check_ms = 250;
constexpr std::int64_t dial_slack_ms = 1'000;  // for answers that are still on the network

}  // namespace

SimHead::SimHead(World& world) : world_(world), leases_({.node_timeout_ms = node_timeout_ms}) {
    disk_.cluster.meta.cluster_id = "5eed00c0ffee";
}

void SimHead::later(std::int64_t ms, std::function<void()> what) {
    world_.after(ms, [this, life = life_, what = std::move(what)] {
        if (up_ && life == life_) what();
    });
}

void SimHead::start() {
    up_ = true;
    decide_planned_ = false;
    cluster_ = disk_.cluster;
    received_ = disk_.news_seen;
    leases_ = head::Leases({.node_timeout_ms = node_timeout_ms});
    for (const auto& [id, node] : cluster_.nodes) leases_.known(id.value, world_.now().ms);
    world_.oracle.forgotten(disk_.cluster);
    world_.say("head", "starts");
    take(HeadStarted{.wall_ms = world_.now().ms});
    later(lease_check_ms, [this] { check_leases(); });
}

void SimHead::crash(const std::string& why) {
    world_.say("head", "dies " + why);
    up_ = false;
    ++life_;
    waiting_.clear();
    gathered_ = {};
    writing_.reset();
    sessions_.clear();
    received_.clear();
    for (const auto& [name, node] : world_.nodes) world_.cut(name);
    world_.after(world_.dice.between(100, 6'000), [this] { start(); });
}

bool SimHead::dies(const std::string& where) {
    if (world_.healed || !world_.dice.one_in(250)) return false;
    crash(where);
    return true;
}

void SimHead::request(Event event) {
    if (up_) take(std::move(event));
}

void SimHead::take(Event event) {
    waiting_.push_back(std::move(event));
    plan_decide();
}

void SimHead::plan_decide() {
    gathered_.wanted = true;
    if (std::exchange(decide_planned_, true)) return;
    later(world_.dice.between(0, 2), [this] { begin_decide(); });
}

// Decides the events that have arrived. The next commit makes them durable.
void SimHead::begin_decide() {
    decide_planned_ = false;
    while (!waiting_.empty()) {
        const Event event = std::move(waiting_.front());
        waiting_.pop_front();
        take_up(event);
    }
    arm_timer();
    begin_commit();
}

void SimHead::take_up(const Event& event) {
    head::Decisions batch = head::decide_events(cluster_, world_.now(), world_.now().ms, {event});
    const Decision& decision = batch.by_event.front();
    world_.oracle.decided(event, decision, cluster_);
    world_.say("head", "event " + std::to_string(event.index()) + " " + decision.note);
    const bool asked = std::holds_alternative<RunStopAsked>(event) || std::holds_alternative<RunRemoved>(event) ||
                       std::holds_alternative<NodeUndrained>(event) || std::holds_alternative<QueuesConfigured>(event);
    const auto& refused = decision.refused;  // The predecessor of the run can no longer succeed, or its owner is gone.
    const auto* submitted = std::get_if<RunSubmitted>(&event);
    const bool helps = submitted != nullptr && submitted->yielding != Yielding::never;
    const bool too_late = refused && (refused->code == ErrorCode::conflict || helps);
    if (decision.created || asked || too_late) gathered_.asked.emplace_back(event, decision);
    for (const Effect& effect : decision.act)
        gathered_.orders.push_back({.effect = effect, .message = head::order_of(cluster_, effect, {})});
    for (auto& entry : batch.entries) gathered_.entries.push_back(std::move(entry));
}

void SimHead::begin_commit() {
    if (writing_ || !gathered_.wanted) return;
    gathered_.received = received_;
    writing_ = std::exchange(gathered_, {});
    later(world_.disk_ms(), [this] { commit(); });
}

void SimHead::commit() {
    if (dies("before its commit")) return;
    for (const state::Entry& entry : writing_->entries) {
        for (const Record& record : entry.records) apply(disk_.cluster, record);
        disk_.journal.push_back(entry);
    }
    if (gathered_.entries.empty()) world_.oracle.durable(disk_.cluster, cluster_);
    if (dies("after its commit")) return;
    const Pending done = *std::exchange(writing_, std::nullopt);
    acknowledge(done);
    perform(done);
    if (up_ && gathered_.wanted) plan_decide();
}

void SimHead::acknowledge(const Pending& done) {
    for (const auto& [event, decision] : done.asked) world_.users->answered(event, decision);
    for (const auto& [node, seq] : done.received) disk_.news_seen[node] = seq;
    for (auto& [node, session] : sessions_) {
        if (!session.registered || session.acknowledged == disk_.news_seen[node]) continue;
        session.acknowledged = disk_.news_seen[node];
        world_.to_agent(node, session.connection, protocol::NewsAck{session.acknowledged});
    }
}

void SimHead::perform(const Pending& done) {
    for (const auto& [effect, message] : done.orders) {
        if (dies("between two effects")) return;
        world_.oracle.performs(effect, disk_.cluster);
        world_.say("head", transcripts::text_of(cluster_, effect));
        const std::string node = head::addressee(effect).value;
        const auto session = sessions_.find(node);
        // It is sent again when the node registers.
        if (session == sessions_.end() || !session->second.registered) continue;
        if (message && !head::overtaken(cluster_, effect)) world_.to_agent(node, session->second.connection, *message);
    }
}

void SimHead::arm_timer() {
    const auto wake = next_wake(cluster_);
    if (!wake) return;
    later(std::max(wake->ms - world_.now().ms, wake_pause_ms), [this, timer = ++timer_] {
        if (timer == timer_) take(TimePassed{});
    });
}

void SimHead::check_leases() {
    const head::LeaseSteps steps = leases_.check(world_.now().ms);
    for (const head::LeaseLost& lost : steps.lost) {
        const auto node = cluster_.nodes.find(NodeId{lost.node});
        if (node == cluster_.nodes.end() || node->second.state == NodeState::lost) continue;
        const Time answers = world_.answers_since(lost.node) + Duration{head::LeaseRules{}.dial_ms + dial_slack_ms};
        if (lost.silent_ms < node_timeout_ms && world_.machine_answers(lost.node) && answers < world_.now())
            throw Violation{lost.node + " is taken for lost after " + std::to_string(lost.silent_ms) +
                            " ms, and its machine answers other nodes"};
        take(NodeLost{.node = {lost.node}, .why = lost.why});
    }
    dial(steps.dial);
    later(lease_check_ms, [this] { check_leases(); });
}

void SimHead::dial(const std::vector<head::LeaseDial>& dials) {
    for (const head::LeaseDial& one : dials) {
        const auto session = sessions_.find(one.by);
        if (one.by != head::dialled_by_head && session != sessions_.end() && session->second.registered)
            world_.to_agent(
                one.by, session->second.connection,
                protocol::DialPeer{.id = one.id, .node = one.node, .patience_ms = head::LeaseRules{}.dial_ms});
        if (one.by != head::dialled_by_head) continue;
        later(world_.settings.latency_ms, [this, one] {
            if (world_.head_reaches(one.node)) return leases_.dialled(one.id, one.by, true);
            later(head::LeaseRules{}.dial_ms, [this, one] { leases_.dialled(one.id, one.by, false); });
        });
    }
}

void SimHead::take_leaving(const std::string& node, const protocol::Leaving& wish) {
    take(NodeDrained{
        .node = {node}, .by = node, .reason = wish.why, .deadline = Duration{wish.left_ms}, .by_itself = true});
}

void SimHead::opened(const std::string& node, std::uint64_t connection) {
    sessions_[node] = {.connection = connection};
}

void SimHead::closed(const std::string& node, std::uint64_t connection) {
    const auto entry = sessions_.find(node);
    if (entry == sessions_.end() || entry->second.connection != connection) return;
    sessions_.erase(entry);
    leases_.connected(node, false);
}

void SimHead::heard(const std::string& node, std::uint64_t connection, const protocol::FromAgent& message) {
    const auto entry = sessions_.find(node);
    if (!up_ || entry == sessions_.end() || entry->second.connection != connection) return;
    Session& session = entry->second;
    leases_.heard(node, world_.now().ms);
    if (const auto why = head::objection(cluster_, NodeId{node}, message);
        why && !std::holds_alternative<protocol::News>(message))
        throw Violation{"an honest agent is not believed: " + node + " of " + *why};
    if (std::holds_alternative<protocol::Hello>(message)) {
        session.welcomed = true;
        return world_.to_agent(node, connection,
                               protocol::Welcome{.cluster_id = cluster_.meta.cluster_id,
                                                 .heartbeat_ms = heartbeat_ms,
                                                 .node_timeout_ms = node_timeout_ms,
                                                 .news_seen = disk_.news_seen[node]});
    }
    if (const auto* full = std::get_if<protocol::Register>(&message)) {
        if (full->next_news <= received_[node]) {  // A new installation, whose numbers begin anew.
            received_[node] = disk_.news_seen[node] = 0;
            if (writing_) writing_->received[node] = 0;
        }
        session.registered = true;
        take(head::registered(cluster_, NodeId{node}, *full, "10.0.0.9"));
        if (full->leaving) take_leaving(node, *full->leaving);
        dial(leases_.registered(node, world_.now().ms, true).dial);
    }
    if (const auto* wish = std::get_if<protocol::Leaving>(&message); wish != nullptr && session.registered)
        take_leaving(node, *wish);
    if (const auto* answer = std::get_if<protocol::PeerDialled>(&message))
        leases_.dialled(answer->id, node, answer->answered);
    if (const auto* batch = std::get_if<protocol::NewsBatch>(&message); batch != nullptr && session.registered)
        for (const protocol::News& one : batch->items) take_news(node, one);
    if (const auto* news = std::get_if<protocol::News>(&message); news != nullptr && session.registered)
        take_news(node, *news);
}

void SimHead::take_news(const std::string& node, const protocol::News& news) {
    if (news.seq <= received_[node]) return;
    received_[node] = news.seq;
    plan_decide();  // News that are no event are acknowledged after a commit as well.
    if (const auto why = head::objection(cluster_, NodeId{node}, news))
        throw Violation{"an honest agent is not believed: " + node + " of " + *why};
    if (const auto* report = std::get_if<protocol::Reported>(&news.what)) {
        if (const Attempt* attempt = head::find_attempt(cluster_, report->attempt);
            attempt != nullptr && report->index == 1)
            take(FirstReport{attempt->id});
    } else if (auto event = head::event_of(cluster_, NodeId{node}, world_.now(), news)) {
        take(*std::move(event));
    }
}

void SimHead::verify_journal() const {
    Cluster replayed;
    replayed.meta.cluster_id = disk_.cluster.meta.cluster_id;
    for (const state::Entry& entry : disk_.journal)
        if (decide(replayed, entry.now, entry.event).save != entry.records)
            throw Violation{"replaying the journal gives other records"};
    if (!(replayed == disk_.cluster)) throw Violation{"replaying the journal gives another state"};
}

}  // namespace rtrain::sim
