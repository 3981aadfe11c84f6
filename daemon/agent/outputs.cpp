// Assigns each output of the machine to the part that performs it. The outputs of a step are performed in their order.
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/parts.hpp"

namespace rtrain::agent {
namespace {

template <class... Rows>
struct Table : Rows... {
    using Rows::operator()...;
};
template <class... Rows>
Table(Rows...) -> Table<Rows...>;  // Clang 16 does not deduce an aggregate's arguments

}  // namespace

void Agent::perform(Output output) {
    const Table table{
        // ---- to the head: performers/head
        [this](const ToHead& out) { head_.send(out.message); },
        [this](const CloseHead& out) { head_.close(out); },
        [this](const KeepNews& out) { news_.keep(out); },
        [this](const DropNews& out) { news_.drop(out); },
        [this](SendHeartbeat& out) {
            workers_.look_at_memory();
            heartbeats_.send(out);
        },
        [this](const ResendLogs&) {
            logs_.resend();
            pending_.deliver_all();
        },
        [this](const LogsAcknowledged& out) { logs_.acknowledged(out.ack); },
        // ---- to workers: performers/workers
        [this](const StartWorkers& out) { workers_.start(out); },
        [this](const SignalWorker& out) { workers_.signal(out); },
        [this](const DumpStacks& out) { workers_.dump_stacks(out); },
        [this](const StartTemplate& out) { workers_.start_template(out); },
        [this](const EndTemplate& out) { workers_.end_template(out); },
        [this](const WelcomeWorker& out) { messages_.welcome(out); },
        [this](const ToWorker& out) { messages_.send(out); },
        [this](const MakeStage& out) { messages_.make_stage(out); },
        // ---- to other agents: performers/peers
        [this](const DialCoordinator& out) { peers_.dial(out); },
        [this](const ToGroup& out) { peers_.send(out); },
        [this](const DialAgent& out) { peers_.dial_agent(out); },
        // ---- to storage, and to this node's disk: performers/storage
        [this](const StartPreparation& out) { preparations_.start(out); },
        [this](const KeepAttempt& out) { saved_.save(out); },
        [this](const FetchCheckpoint& out) { checkpoints_.fetch(out); },
        [this](const ListStaged& out) { checkpoints_.list_staged(out); },
        [this](const DropStaged& out) { checkpoints_.drop_staged(out); },
        [this](const Upload& out) { checkpoints_.upload(out); },
        [this](const WriteManifest& out) { checkpoints_.write_manifest(out); },
        [this](const KeepCommitted& out) { checkpoints_.keep_committed(out); },
        [this](const DropUncommitted& out) { checkpoints_.drop_uncommitted(out); },
        [this](const JournalMetrics& out) { journals_.add(out); },
        [this](const FinishLogs& out) { ends_.finish_logs(out); },
        [this](const WriteEnd& out) { pending_.write_end(out); },
        [this](const ForgetAttempt& out) {
            pending_.forget(out.attempt);
            checkpoints_.drop_kept(out.attempt.run);
        },
        [this](const RemoveCheckpoint& out) { run_files_.remove_checkpoint(out); },
        [this](const WriteResultFile& out) { run_files_.write_result(out); },
        // ---- to all of them
        [this](const CloseAttempt& out) { close(out); },
        [this](const EndAgent& out) { end(out); },
    };
    std::visit(table, output);
}

// Closes an attempt that has ended: refuses its workers and peers, excludes it from adoption by the next agent, and
// removes its files.
void Agent::close(const CloseAttempt& out) {
    messages_.dismiss(out.attempt);
    peers_.close(out.attempt);
    saved_.mark_ended(out.attempt);
    ends_.close(out);
}

// Ends the agent and its workers, because the node is drained or its time is over. No later agent adopts workers here.
void Agent::end(const EndAgent& out) {
    log_info("node " + node_.name() + " was drained: " + out.why);
    end_workers_ = true;
    loop_.net().stop();
}

}  // namespace rtrain::agent
