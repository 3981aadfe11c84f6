// Performs the outputs of the agent machine on the simulated node. The agent may die between any two of them.
#include <signal.h>

#include "storage/checkpoint/run_directory.hpp"
#include "tests/sim/node.hpp"

namespace rtrain::sim {

using namespace agent;

namespace {

constexpr const char* content = "weights";
constexpr const char* content_sha256 = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c";

std::string file_of(std::uint32_t rank) { return "rank-" + std::to_string(rank); }

}  // namespace

struct Carry {
    SimNode& node;
    World& world;
    SimNode::Disk& disk;

    std::string run_of(AttemptKey key) const { return disk.images.at(key).prepare.run_name; }

    // ---- to the head
    void operator()(const ToHead& out) const { world.to_head(node.name_, node.connection_, out.message); }
    void operator()(const SendHeartbeat& out) const {
        world.to_head(node.name_, node.connection_, protocol::Heartbeat{.workers = out.workers});
    }
    void operator()(const CloseHead&) const { world.cut(node.name_); }
    void operator()(const KeepNews& out) const {
        disk.outbox.emplace(out.news.seq, out.news);
        disk.next_news = out.news.seq + 1;
        if (const auto* emptied = std::get_if<protocol::Emptied>(&out.news.what)) {
            if (disk.images.contains(key_of(emptied->attempt)) && node.leaves_its_part(key_of(emptied->attempt)))
                throw Violation{node.name_ + " is empty, and the coordinator waits for its part of a checkpoint"};
            world.oracle.reported_emptied(node.name_, emptied->attempt);
        }
        if (const auto* notice = std::get_if<protocol::Notice>(&out.news.what)) check(*notice);
    }
    void operator()(const DropNews& out) const {
        disk.outbox.erase(disk.outbox.begin(), disk.outbox.upper_bound(out.up_to));
    }

    void check(const protocol::Notice& notice) const {
        if (notice.text.find(agent::part_lost) != std::string::npos) throw Violation{node.name_ + ": " + notice.text};
        if (notice.reason != "checkpoint_given_up") return;
        bool others = false, all_on_their_way = true;
        for (const auto& [name, one] : world.nodes) {
            if (notice.text.find("and " + name + " has not stored its part") == std::string::npos) continue;
            others = true;
            all_on_their_way = all_on_their_way && one->stores_well(key_of(notice.attempt), node.name_);
        }
        if (others ? all_on_their_way : node.uploading_.contains(key_of(notice.attempt)))
            throw Violation{node.name_ + " gives a checkpoint up that is being stored: " + notice.text};
    }

    // ---- the attempt
    void operator()(const StartPreparation& out) const {
        node.later(world.disk_ms() + world.dice.between(1, 50),
                   [n = &node, order = out.prepare] { n->prepared(order); });
    }
    void operator()(const KeepAttempt& out) const { disk.images[key_of(out.saved.prepare.attempt)] = out.saved; }
    void operator()(const CloseAttempt& out) const {
        disk.images.erase(out.attempt);
        node.close_group(out.attempt);
    }
    void operator()(const ForgetAttempt& out) const { disk.images.erase(out.attempt); }
    void operator()(const FetchCheckpoint& out) const {
        node.later(world.disk_ms(),
                   [n = &node, key = out.attempt] { n->input(CheckpointFetched{.attempt = key, .why = ""}); });
    }
    void operator()(const StartWorkers& out) const {
        for (const protocol::LaunchWorker& worker : out.launch.workers)
            node.later(world.dice.between(1, 30),
                       [n = &node, launch = out.launch, worker] { n->spawn(launch, worker); });
    }
    void operator()(const SignalWorker& out) const {
        const ProcessKey key{out.attempt, out.rank};
        const auto entry = node.processes_.find(key);
        if (entry == node.processes_.end() || (out.signal != SIGKILL && entry->second.stubborn)) return;
        if (node.state_.reclaim) world.oracle.fault(entry->second.run);  // It counts if the head is away meanwhile.
        ExitCause cause;
        cause.signal = out.signal;
        world.after(world.dice.between(1, out.signal == SIGKILL ? 3 : 150),
                    [n = &node, key, cause] { n->end_process(key, cause); });
    }
    void operator()(const FinishLogs& out) const {
        node.later(world.disk_ms(), [n = &node, key = out.attempt] { n->input(LogsDone{key}); });
    }

    // ---- templates of warm workers
    void operator()(const StartTemplate& out) const {
        node.templates_.insert(out.key);
        const WarmPolicy& policy = node.state_.templates.policy;
        if (node.templates_.size() > policy.templates_max) throw Violation{node.name_ + " has too many templates"};
        Dice& dice = node.template_dice_;
        node.later(dice.between(500, 4'000), [n = &node, &dice, key = out.key] {
            if (!n->templates_.contains(key)) return;
            if (dice.one_in(4)) return n->template_ends(key, dice.one_in(2) ? "no module" : "");
            n->input(TemplateReady{key, dice.between(100, 900)});
            if (dice.one_in(4)) n->input(WorkerForked{key});
            const std::string failed = dice.one_in(2) ? "it was killed" : "";
            if (dice.one_in(4))
                n->later(dice.between(1, 9'000), [n, key, failed] { n->template_ends(key, "", failed); });
        });
    }
    void operator()(const EndTemplate& out) const {
        if (node.templates_.erase(out.key) == 0) throw Violation{node.name_ + " ends a template that is not there"};
    }

    // ---- workers and the group
    void operator()(const ToWorker& out) const {
        if (const auto* reported = std::get_if<worker::Reported>(&out.message)) {
            const ProcessKey key{out.attempt, out.rank};
            world.after(1, [n = &node, key, index = reported->index] { n->answered(key, index); });
        }
    }
    void operator()(const DialCoordinator& out) const {
        node.later(1, [n = &node, key = out.attempt, peer = out.peer.node] { n->dial_coordinator(key, peer); });
    }
    void operator()(const ToGroup& out) const { node.send_group(out.attempt, out.node, out.message); }

    // ---- checkpoints
    void operator()(const ListStaged& out) const {
        StagedListed listed{.attempt = out.attempt, .index = out.index, .files = {}, .why = "", .exact = true};
        if (!out.name.empty() && !world.storage_full)
            listed.exact =
                *storage::claim_directory(world.store, run_of(out.attempt), out.name, {out.number, out.index});
        else if (!out.name.empty())
            listed.exact = false;
        for (const auto& [rank, path] : out.staged)
            listed.files.push_back({.rank = rank, .path = file_of(rank), .bytes = 7, .sha256 = ""});
        node.later(1, [n = &node, listed] { n->input(listed); });
    }
    void operator()(const Upload& out) const {
        const std::int64_t ms = world.upload_ms();
        node.upload_begins(out, ms);
        node.later(ms, [n = &node, w = &world, out, run = run_of(out.attempt)] {
            n->upload_ends(out);
            if (!w->storage_full) n->stored_[out.attempt] = out.index;
            agent::Uploaded done{.attempt = out.attempt,
                                 .index = out.index,
                                 .files = {},
                                 .why = w->storage_full ? "no space left" : "",
                                 .reason = w->storage_full ? "storage_full" : ""};
            for (const auto& [rank, path] : out.staged) {
                if (w->storage_full) break;
                (void)w->store.put(run + "/" + out.directory + "/" + file_of(rank), content);
                done.files.push_back({.rank = rank, .path = file_of(rank), .bytes = 7, .sha256 = content_sha256});
            }
            n->input(done);
        });
    }
    // Writing the manifest is the commit. The agent may die before it sends the news.
    void operator()(const WriteManifest& out) const {
        node.later(world.disk_ms(), [n = &node, w = &world, out, run = run_of(out.attempt)] {
            if (!w->storage_full) {
                const auto written = storage::write_manifest(w->store, run, out.manifest);
                if (!written) throw Violation{"writing a manifest: " + written.error().message};
                if (out.manifest.files.size() != out.manifest.world_size)
                    throw Violation{run + " commits " + out.manifest.directory + " without the files of every rank"};
                w->oracle.committed(run, out.manifest.attempt, out.manifest.directory, out.manifest.report);
                w->say(n->name_, run + " commits " + out.manifest.directory);
            }
            if (!w->healed && w->dice.one_in(60)) return n->crash_agent("after its manifest");
            n->input(ManifestWritten{.attempt = out.attempt,
                                     .index = out.manifest.report,
                                     .why = w->storage_full ? "no space left" : "",
                                     .reason = w->storage_full ? "storage_full" : ""});
        });
    }
    void operator()(const KeepCommitted&) const {}
    void operator()(const DropUncommitted& out) const {
        const std::string directory = run_of(out.attempt) + "/" + out.directory;
        if (!world.store.get(directory + "/.manifest.json")) (void)world.store.remove_tree(directory);
    }
    void operator()(const DumpStacks&) const {}  // Logs are not simulated.
    void operator()(const RemoveCheckpoint& out) const {
        node.later(world.disk_ms(), [n = &node, w = &world, order = out.order] {
            const auto claims = storage::read_claims(w->store, order.run_name);
            const bool overtaken = claims && !claims->empty() && claims->back().number > order.newest_attempt;
            if (!overtaken && w->store.get(order.run_name + "/" + order.directory + "/.manifest.json")) {
                w->oracle.deleted(order.run_name, order.directory);
                (void)storage::delete_checkpoint(w->store, order.run_name, order.directory);
                w->say(n->name_, order.run_name + " loses " + order.directory);
            }
            n->input(CheckpointGone{
                .run = order.run, .directory = order.directory, .why = overtaken ? "a newer attempt exists" : ""});
        });
    }
    void operator()(const WriteResultFile& out) const {
        (void)world.store.put(out.order.run_name + "/result.json", out.order.result_json);
    }

    void operator()(const DialAgent& out) const {
        node.later(world.settings.latency_ms, [n = &node, w = &world, order = out.order] {
            if (w->machine_answers(order.node)) return n->input(AgentDialled{.id = order.id, .answered = true});
            n->later(order.patience_ms, [n, id = order.id] { n->input(AgentDialled{.id = id, .answered = false}); });
        });
    }
    void operator()(const EndAgent& out) const { node.end_agent(out.why); }

    // ---- without effect in the simulator: logs, welcomes, stages, metrics
    void operator()(const ResendLogs&) const {}
    void operator()(const LogsAcknowledged&) const {}
    void operator()(const WelcomeWorker&) const {}
    void operator()(const MakeStage&) const {}
    void operator()(const DropStaged&) const {}
    void operator()(const JournalMetrics&) const {}
    void operator()(const WriteEnd&) const {}
};

void SimNode::note_request(const Input& what) {
    const auto* order = std::get_if<HeadMessage>(&what);
    const auto* request = order == nullptr ? nullptr : std::get_if<protocol::RequestCheckpoint>(&order->message);
    if (request == nullptr) return;
    const auto entry = state_.attempts.find(key_of(request->attempt));
    if (entry != state_.attempts.end() && entry->second.coordinator && entry->second.phase == Phase::running)
        world_.oracle.asked(entry->first, request->asked, entry->second.local->passed);
}

void SimNode::input(const Input& what) {
    state_.wall_minus_now_ms = 0;
    note_request(what);
    const Outputs outputs = agent::step(state_, world_.now(), what);
    const std::uint64_t life = life_;
    for (const Output& output : outputs) {
        if (std::holds_alternative<KeepCommitted>(output)) continue;  // All nodes read one store here.
        const bool is_of_template =
            std::holds_alternative<StartTemplate>(output) || std::holds_alternative<EndTemplate>(output);
        Dice& dice = is_of_template ? template_dice_ : world_.dice;
        if (!world_.healed && dice.one_in(4'000)) return crash_agent("between two outputs");
        std::visit(Carry{*this, world_, disk_}, output);
        if (life != life_) return;
    }
    check_templates();
    arm_timer();
}

// Reports the end of a template, also of one that was ready.
void SimNode::template_ends(const std::string& key, const std::string& unfit, const std::string& failed) {
    if (templates_.erase(key) != 0) input(TemplateEnded{key, unfit, failed});
}

void SimNode::check_templates() const {
    std::int64_t bytes = 0;
    for (const auto& [key, one] : state_.templates.all) {
        const bool lives = one.phase == TemplatePhase::starting || one.phase == TemplatePhase::ready;
        if (lives != templates_.contains(key)) throw Violation{name_ + " is wrong about a template"};
        if (one.phase == TemplatePhase::ready) bytes += one.bytes;
    }
    if (bytes > state_.templates.policy.memory_max) throw Violation{name_ + " has templates beyond its bound"};
}

// The claim is on storage before the agent sends its news. If the agent dies in between, the number is skipped.
void SimNode::prepared(const protocol::Prepare& order) {
    const AttemptKey key = key_of(order.attempt);
    PreparationDone done{.attempt = key, .why = "", .number = order.attempt.number};
    if (!world_.healed && world_.dice.one_in(40)) {
        done.why = "the storage path cannot be written";
        done.permanent = world_.dice.one_in(10);
        world_.oracle.preparation_fault(key.run);
        if (done.permanent) world_.oracle.permanent_fault(key.run);
        return input(done);
    }
    if (order.claim) {
        (void)storage::create_run(world_.store, {.name = order.run_name});
        storage::Claim claim{.number = order.attempt.number, .cluster_id = order.cluster_id, .run_id = order.run_id};
        claim.world_size = order.world_size;
        claim.job_json = "{}";
        const auto answer = storage::claim_attempt(world_.store, order.run_name, claim, "");
        if (!answer) throw Violation{"claiming: " + answer.error().message};
        world_.oracle.claimed(order.run_name, answer->number, answer->from);
        world_.say(name_,
                   order.run_name + " attempt " + std::to_string(answer->number) + " is claimed, from " + answer->from);
        if (!world_.healed && world_.dice.one_in(40)) return crash_agent("after its claim");
        done.number = answer->number;
        done.from = answer->from;
        done.master_address = "10.0.0.1";
        done.master_port = 20'000;
    }
    input(done);
}

}  // namespace rtrain::sim
