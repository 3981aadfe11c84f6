// The parts of `step`: one function per kind of input, and their common parts. Only the machine includes this file.
#pragma once

#include <string>

#include "daemon/agent/machine/machine.hpp"

namespace rtrain::agent {

struct Step {
    AgentState& state;
    Time now;
    Outputs out{};
    std::int64_t wall_ms() const { return now.ms + state.wall_minus_now_ms; }
};
using NewsBody = decltype(protocol::News::what);

// ---- news.cpp: messages to the head, and from it
// ---------------------------------------------------------------
void add_news(Step& step, NewsBody what);
void send_late_news(Step& step);
std::optional<Time> news_wake(const AgentState& state);  // when waiting news can be sent; nullopt if they wait for room
void on(Step& step, const HeadConnected& input);
void on(Step& step, const HeadDisconnected& input);
void on(Step& step, const HeadMessage& input);
void on(Step& step, const CheckpointGone& input);
void beat(Step& step);

// ---- attempt.cpp: the life of an attempt on this node
// -----------------------------------------------------------------
protocol::AttemptRef reference(const LocalAttempt& attempt);
LocalAttempt* find(Step& step, AttemptKey key);
void prepare(Step& step, const protocol::Prepare& order);
void launch(Step& step, const protocol::Launch& order);
void stop(Step& step, const protocol::Stop& order);
void on(Step& step, const AttemptFound& input);
void on(Step& step, const PreparationDone& input);
void on(Step& step, const CheckpointFetched& input);
void on(Step& step, const WorkerStarted_& input);
void on(Step& step, const WorkerEnded& input);
void on(Step& step, const LogsDone& input);
void attempt_time(Step& step, LocalAttempt& attempt);
void on(Step& step, const GpusSampled& input);
void on(Step& step, const ScratchMeasured& input);
// Advances the end of an attempt as far as possible: drained, emptied, gone.
void settle_end(Step& step, AttemptKey key);

// ---- last_checkpoint.cpp: uploads that are pending when the ranks have ended
void last_checkpoint_time(Step& step, LocalAttempt& attempt);
std::optional<Time> next_last_checkpoint(const AgentState& state, const LocalAttempt& attempt);
void try_uploads_now(Step& step);
void on(Step& step, const UploadMoved& input);

// ---- watch.cpp: workers that hang, agents that are alone
void worker_was_busy(Step& step, LocalWorker& worker);
void on_heartbeat(Step& step, LocalAttempt& attempt, std::uint32_t rank, const worker::Heartbeat& heartbeat);
void watch_time(Step& step, LocalAttempt& attempt);
std::optional<Time> next_watch(const AgentState& state, const LocalAttempt& attempt);
void end_workers(Step& step, LocalAttempt& attempt, std::int64_t grace_ms);  // attempt.cpp

// ---- memory_limit.cpp: ranks that use more memory than the run asked for
void on(Step& step, const MemoryMeasured& input);

// ---- reclaim.cpp: the node is taken away
void on(Step& step, const ReclaimAsked& input);
void on(Step& step, const AgentDialled& input);
void reclaim_time(Step& step);
std::optional<Time> next_reclaim(const AgentState& state);
std::optional<protocol::Leaving> leaving(const Step& step);  // the message for the head

// ---- templates.cpp: templates of warm workers
void on(Step& step, const EnvironmentUsed& input);
void on(Step& step, const TemplateWanted& input);
void on(Step& step, const TemplateReady& input);
void on(Step& step, const TemplateEnded& input);
void on(Step& step, const WorkerForked& input);
void on(Step& step, const StartsChosen& input);
void templates_time(Step& step);
std::optional<Time> next_template(const AgentState& state);

// ---- group.cpp: workers' messages and the report group
// --------------------------------------------------------------------
void open_group(LocalAttempt& attempt);
void take_early(Step& step, LocalAttempt& attempt);
// Resumes a checkpoint that was under way when the earlier agent died.
void resume_checkpoint(Step& step, LocalAttempt& attempt);
void request_checkpoint(Step& step, const protocol::RequestCheckpoint& order);
void on(Step& step, const WorkerJoined& input);
void on(Step& step, const WorkerMessage& input);
void on(Step& step, const WorkerCut& input);
void on(Step& step, const StagedListed& input);
void on(Step& step, const Uploaded& input);
void on(Step& step, const ManifestWritten& input);
void on(Step& step, const PeerMessage& input);
void on(Step& step, const GroupConnected& input);
void on(Step& step, const GroupCut& input);
void rank_ended_well(Step& step, LocalAttempt& attempt, std::uint32_t rank);
void group_time(Step& step, LocalAttempt& attempt);
bool uploads_settled(const LocalAttempt& attempt);
void abandon_uploads(Step& step, LocalAttempt& attempt, const std::string& why);

}  // namespace rtrain::agent
