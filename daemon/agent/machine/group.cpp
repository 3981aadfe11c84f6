// Workers' messages, and the report group inside of the machine. Messages between this node's ranks and a coordinator
// on the same node are passed on here, without a network.
#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {

using namespace protocol;

namespace {

struct Delivery {
    std::vector<GroupNews> news;
    std::vector<GroupMessage> to_coordinator, to_local;
};

// Saves the coordinator's part of the attempt, so that after an agent's restart no name is used twice and a checkpoint
// under way continues.
void remember(Step& step, LocalAttempt& attempt) {
    SavedAttempt& saved = attempt.saved;
    const std::uint64_t named = attempt.coordinator ? attempt.coordinator->counter : saved.named;
    auto uploading = saved.uploading;
    if (attempt.local)
        uploading = saved_upload_of(*attempt.local, attempt.coordinator ? &*attempt.coordinator : nullptr);
    const bool enough = saved.enough || (attempt.coordinator && attempt.coordinator->enough);
    if (named == saved.named && uploading == saved.uploading && enough == saved.enough) return;
    saved.named = named;
    if (attempt.coordinator) {
        saved.names = attempt.coordinator->names;
        saved.committed = attempt.coordinator->committed.index;
        saved.committed_as = attempt.coordinator->committed.directory;
    }
    saved.enough = enough;
    saved.uploading = std::move(uploading);
    saved.passed = attempt.coordinator ? attempt.coordinator->passed : attempt.local->passed;
    step.out.push_back(KeepAttempt{saved});
}

std::optional<std::uint64_t> report_on_its_way(const LocalAttempt& attempt) {
    if (!attempt.local || !attempt.local->upload) return std::nullopt;
    return attempt.local->upload->index;
}

// Keeps this node's part if the report's checkpoint was committed. If the storage is no directory here, the next
// attempt reads that part.
void keep_if_committed(const LocalAttempt& attempt, std::uint64_t report, Outputs& out) {
    const auto settled = attempt.local->settled.find(report);
    if (report_on_its_way(attempt) == report || settled == attempt.local->settled.end()) return;
    if (!settled->second.directory.empty() && attempt.saved.local_run_path.empty())
        out.push_back(KeepCommitted{attempt.local->attempt, report});
}

// Runs `act`, then passes messages on until none is left. The results are sent to the head and stored on disk first, so
// that an agent that dies in between repeats the rest and loses nothing.
template <class Act>
void with_group(Step& step, LocalAttempt& attempt, Act act) {
    Delivery delivery;
    Outputs acts;
    GroupSink sink{acts, delivery.news, delivery.to_coordinator, delivery.to_local, step.wall_ms()};
    const std::uint64_t passed = attempt.local ? attempt.local->passed : 0;
    const auto on_its_way = report_on_its_way(attempt);
    act(sink);
    while (!delivery.to_coordinator.empty() || !delivery.to_local.empty()) {
        auto up = std::move(delivery.to_coordinator);
        const auto down = std::move(delivery.to_local);
        delivery.to_coordinator.clear();
        delivery.to_local.clear();
        for (GroupMessage& message : up)
            if (attempt.coordinator)
                from_node(*attempt.coordinator, step.now, step.state.node, std::move(message), sink);
        for (const GroupMessage& message : down)
            if (attempt.local) from_coordinator(*attempt.local, step.now, message, sink);
    }
    if (attempt.local && attempt.local->passed != passed) {
        attempt.released_at = step.now;
        for (auto& [rank, worker] : attempt.workers) worker_was_busy(step, worker);
    }
    if (on_its_way) keep_if_committed(attempt, *on_its_way, acts);
    for (GroupNews& news : delivery.news) {
        if (auto* commit = std::get_if<Committed>(&news))
            commit->answers = commit->index > attempt.saved.asked_after ? attempt.saved.asked : 0;
        std::visit([&](auto& body) { add_news(step, NewsBody(std::move(body))); }, news);
    }
    remember(step, attempt);
    std::move(acts.begin(), acts.end(), std::back_inserter(step.out));
}

bool answered(const LocalAttempt& attempt) {
    return std::any_of(attempt.local->settled.begin(), attempt.local->settled.end(), [&](const auto& settled) {
        return settled.first > attempt.saved.asked_after && !settled.second.directory.empty();
    });
}

LocalAttempt* with_ranks(Step& step, AttemptKey key) {
    LocalAttempt* attempt = find(step, key);
    return attempt && attempt->local ? attempt : nullptr;
}

}  // namespace

void open_group(LocalAttempt& attempt) {
    const SavedAttempt& saved = attempt.saved;
    attempt.coordinates = saved.launch->node_rank == 0;
    LocalRanks local{.attempt = key_of(saved.prepare.attempt),
                     .number = saved.number,
                     .coordinates = attempt.coordinates,
                     .mode = saved.upload,
                     .local_run_path = saved.local_run_path,
                     .passed = saved.passed};
    for (const auto& [rank, worker] : attempt.workers) local.ranks.insert(rank);
    attempt.local = std::move(local);
    if (!attempt.coordinates) return;
    Coordinator coordinator{.attempt = reference(attempt),
                            .world_size = saved.prepare.world_size,
                            .passed = saved.passed,
                            .counter = std::max(saved.named, saved.launch->checkpoint_counter),
                            .counter_before = saved.launch->checkpoint_counter,
                            .names = saved.names,
                            .committed = {.index = saved.committed, .directory = saved.committed_as},
                            .timeout_ms = saved.policy.report_timeout_ms,
                            .knows_passed = !attempt.adopted,
                            .stop_at = saved.policy.stop_at,
                            .enough = saved.enough};
    for (const PeerNode& node : saved.prepare.nodes)
        coordinator.nodes[node.node] = {node.ranks.begin(), node.ranks.end()};
    if (!saved.prepare.nodes.empty()) coordinator.own_node = saved.prepare.nodes.front().node;
    attempt.coordinator = std::move(coordinator);
}

void resume_checkpoint(Step& step, LocalAttempt& attempt) {
    if (!attempt.saved.uploading || !attempt.local) return;
    if (attempt.coordinator) resume_commit(*attempt.coordinator, step.now, *attempt.saved.uploading);
    resume_upload(*attempt.local, step.now, *attempt.saved.uploading, step.out);
}

// Requests a checkpoint from the ranks. Ranks that connect later get the request then. A repeated order is sent again,
// since the first may have been lost. A checkpoint whose report passed before the request does not fulfil it, however
// late its commit. The request is stored for a restart of this agent.
void request_checkpoint(Step& step, const RequestCheckpoint& order) {
    LocalAttempt* attempt = with_ranks(step, key_of(order.attempt));
    if (!attempt || attempt->phase != Phase::running) return;
    SavedAttempt& saved = attempt->saved;
    if (order.asked == 0 || order.asked != saved.asked) {
        saved.asked = order.asked;
        saved.asked_after = attempt->local->passed;
        step.out.push_back(KeepAttempt{saved});
    }
    worker::Wanted wish{.what = worker::Wish::checkpoint, .reason = order.reason, .workers = order.workers};
    if (order.left_ms >= 0) wish.deadline_wall_ms = step.wall_ms() + order.left_ms;
    for (const auto& [rank, worker] : attempt->workers)
        if (worker.connected && !worker.signalled) step.out.push_back(ToWorker{key_of(order.attempt), rank, wish});
    attempt->asked = std::move(wish);
}

void on(Step& step, const WorkerJoined& input) {
    LocalAttempt* attempt = with_ranks(step, input.attempt);
    if (!attempt || !attempt->workers.contains(input.rank)) return;
    LocalWorker& worker = attempt->workers[input.rank];
    worker.connected = worker.joined = true;
    step.out.push_back(WelcomeWorker{.attempt = input.attempt,
                                     .rank = input.rank,
                                     .next_index = next_report_of(*attempt->local, input.rank),
                                     .next_broadcast = next_broadcast_of(*attempt->local, input.rank)});
    with_group(step, *attempt,
               [&](GroupSink& sink) { rank_joined(*attempt->local, step.now, input.rank, input.hello, sink); });
    if (worker.signalled || attempt->stop_asked)
        step.out.push_back(ToWorker{input.attempt, input.rank, worker::Wanted{worker::Wish::stop}});
    else if (attempt->asked && !answered(*attempt))
        step.out.push_back(ToWorker{input.attempt, input.rank, *attempt->asked});
}

void on(Step& step, const WorkerMessage& input) {
    LocalAttempt* attempt = with_ranks(step, input.attempt);
    if (!attempt || !attempt->workers.contains(input.rank)) return;
    LocalWorker& worker = attempt->workers[input.rank];
    if (const auto* report = std::get_if<worker::Report>(&input.message)) {
        worker.silent_ms = 0;
        worker_was_busy(step, worker);
        const bool first_time =
            report->index == attempt->local->passed + 1 && !attempt->local->come.contains(input.rank);
        if (input.interval_ms >= 0)
            worker.interval_ms = input.interval_ms;
        else if (first_time && attempt->released_at.ms > 0)
            worker.interval_ms = (step.now - attempt->released_at).ms;
        return with_group(step, *attempt, [&](GroupSink& sink) {
            rank_reported(*attempt->local, step.now, input.rank, *report, sink);
        });
    }
    if (const auto* broadcast = std::get_if<worker::Broadcast>(&input.message))
        return with_group(step, *attempt, [&](GroupSink& sink) {
            rank_broadcast(*attempt->local, step.now, input.rank, *broadcast, sink);
        });
    if (const auto* stage = std::get_if<worker::Stage>(&input.message))
        step.out.push_back(MakeStage{input.attempt, input.rank, stage->spare});
    if (const auto* heartbeat = std::get_if<worker::Heartbeat>(&input.message))
        on_heartbeat(step, *attempt, input.rank, *heartbeat);
    if (const auto* fail = std::get_if<worker::Fail>(&input.message)) worker.fail_text = fail->text;
}

void on(Step& step, const WorkerCut& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (attempt && attempt->workers.contains(input.rank)) attempt->workers[input.rank].connected = false;
}

void on(Step& step, const StagedListed& input) {
    LocalAttempt* attempt = with_ranks(step, input.attempt);
    if (attempt) with_group(step, *attempt, [&](GroupSink& sink) { staged_listed(*attempt->local, input, sink); });
}

void on(Step& step, const Uploaded& input) {
    LocalAttempt* attempt = with_ranks(step, input.attempt);
    if (!attempt) return;
    with_group(step, *attempt, [&](GroupSink& sink) { uploaded(*attempt->local, step.now, input, sink); });
    settle_end(step, input.attempt);
}

void on(Step& step, const ManifestWritten& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt || !attempt->coordinator) return;
    with_group(step, *attempt,
               [&](GroupSink& sink) { manifest_written(*attempt->coordinator, step.now, input, sink); });
    settle_end(step, input.attempt);
}

namespace {

// Returns whether a message came over the link that this agent has dialled to the coordinator, or over one with the
// coordinator's certificate. Any node of the cluster can dial this agent.
bool from_its_coordinator(const LocalAttempt& attempt, const std::string& node) {
    const auto& nodes = attempt.saved.prepare.nodes;
    return node.empty() || (!nodes.empty() && node == nodes.front().node);
}

bool is_member(const LocalAttempt& attempt, const std::string& node) {
    const auto& nodes = attempt.saved.prepare.nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](const PeerNode& peer) { return peer.node == node; });
}

bool coordinates_here(const LocalAttempt& attempt, const std::string& node) {
    const auto& nodes = attempt.saved.prepare.nodes;
    return !nodes.empty() && nodes.front().node == node;
}

}  // namespace

void take_early(Step& step, LocalAttempt& attempt) {
    for (const PeerMessage& message : std::exchange(attempt.early, {})) on(step, message);
}

void on(Step& step, const PeerMessage& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    const auto* part = std::get_if<GroupUploaded>(&input.message);
    if (!attempt && part)  // the attempt has ended
        step.out.push_back(ToGroup{input.attempt, input.node, GroupCommitted{.index = part->index}});
    if (!attempt) return;
    with_group(step, *attempt, [&](GroupSink& sink) {
        if (attempt->coordinator) {
            attempt->nodes_cut.erase(input.node);
            from_node(*attempt->coordinator, step.now, input.node, input.message, sink);
        } else if (attempt->local && from_its_coordinator(*attempt, input.node)) {
            from_coordinator(*attempt->local, step.now, input.message, sink);
        } else if (!attempt->local && coordinates_here(*attempt, step.state.node) && is_member(*attempt, input.node)) {
            std::erase_if(attempt->early, [&](const PeerMessage& early) {
                return early.node == input.node && early.message.index() == input.message.index();
            });
            attempt->early.push_back(input);
        }
    });
    settle_end(step, input.attempt);
}

void on(Step& step, const GroupConnected& input) {
    LocalAttempt* attempt = with_ranks(step, input.attempt);
    if (!attempt || attempt->coordinates) return;
    attempt->nodes_cut.erase("");
    with_group(step, *attempt, [&](GroupSink& sink) { joined_coordinator(*attempt->local, step.state.node, sink); });
}

void on(Step& step, const GroupCut& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt) return;
    attempt->nodes_cut.emplace(input.node, step.now);
    // The node repeats these messages when it connects again. If they were handled later, a disconnected node would
    // look connected.
    std::erase_if(attempt->early, [&](const PeerMessage& early) { return early.node == input.node; });
    settle_end(step, input.attempt);
}

void rank_ended_well(Step& step, LocalAttempt& attempt, std::uint32_t rank) {
    if (!attempt.local) return;
    const bool watched = !attempt.adopted || attempt.workers[rank].joined;
    with_group(step, attempt, [&](GroupSink& sink) {
        if (watched)
            rank_ended(*attempt.local, rank, sink);
        else
            rank_ended_unwatched(*attempt.local, step.now, rank, sink);
    });
}

void group_time(Step& step, LocalAttempt& attempt) {
    with_group(step, attempt, [&](GroupSink& sink) {
        if (attempt.local) local_time(*attempt.local, step.now, sink);
        if (attempt.coordinator) coordinator_time(*attempt.coordinator, step.now, sink);
    });
}

// Returns true if this node's uploads are settled: on the coordinator's node when the manifest is done, on other nodes
// when the coordinator has sent the result. A coordinator that is unreachable or restarted must still get this node's
// part.
bool uploads_settled(const LocalAttempt& attempt) {
    if (attempt.coordinator) return !attempt.coordinator->commit && !attempt.coordinator->closing;
    return !attempt.local || !attempt.local->upload;
}

void abandon_uploads(Step& step, LocalAttempt& attempt, const std::string& why) {
    with_group(step, attempt, [&](GroupSink& sink) {
        if (attempt.coordinator) abandon_commit(*attempt.coordinator, why, sink);
        if (attempt.local) give_up_upload(*attempt.local, sink);
    });
}

}  // namespace rtrain::agent
