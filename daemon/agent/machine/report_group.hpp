// The report group of one attempt: a barrier over its ranks, one message per node and report. `LocalRanks` gathers the
// ranks of this node; `Coordinator` (on rank 0's node) gathers the nodes, releases reports, names who is missing, and
// commits checkpoints. Pure: every function appends to `out`.
//
//   rank ─report─► LocalRanks ─GroupReport─► Coordinator ─GroupReleased─► LocalRanks ─reported─► ranks
//                  LocalRanks ─upload, GroupUploaded─► Coordinator ─manifest, GroupCommitted─► LocalRanks ─committed─►
//                  ranks
#pragma once

#include "daemon/agent/machine/messages.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain::agent {

// The answer of a node that has lost its part of a checkpoint in its agent's restart.
inline constexpr const char* part_lost = "its agent was restarted, and its part is lost";
// The reason by which a node takes back that its storage is silent: the ranks wait for the checkpoint again.
inline constexpr const char* storage_answers = "storage_answers";

inline constexpr std::int64_t backoff_max_ms = 60'000;  // between tries to store a part or a manifest
// The ranks do not wait for a checkpoint of which nothing has moved for so long: the storage may hang. The time doubles
// with each such checkpoint until one is stored, so that a slow storage gets its time.
inline constexpr std::int64_t silence_first_ms = 5'000, silence_max_ms = 640'000;

std::string seconds(std::int64_t ms);  // returns a text such as "30.0"

// One checkpoint's files on this node, until the coordinator has settled it.
struct LocalUpload {
    std::uint64_t index = 0;
    std::string directory;
    StagedPaths staged;
    std::set<std::string> skip;
    bool sync = false, running = false, done = false;
    std::vector<protocol::StagedFile> files;  // with hashes after the upload
    std::optional<Time> retry_at;
    std::int64_t backoff_ms = 1'000;
    Time advanced_at;                        // when a try last got further than all before
    std::int64_t bytes = 0, most_bytes = 0;  // progress of the present try, and of the best one before
    std::uint32_t in_vain = 0;               // number of tries in a row that moved something but got no further
    Time answered_at;                        // when a try last began, moved something, or ended
    bool silent = false;                     // the coordinator has the message that nothing moves
    bool operator==(const LocalUpload&) const = default;
};

struct LocalRanks {
    AttemptKey attempt;
    std::uint32_t number = 0;  // number of the attempt in its run
    bool coordinates = false;  // the coordinator is in this agent, so no message crosses the network
    std::set<std::uint32_t> ranks;
    UploadMode mode = UploadMode::async;
    std::string local_run_path;
    std::uint64_t passed = 0;                      // number of the last released report
    std::map<std::uint32_t, worker::Report> come;  // the ranks' reports with number passed + 1
    std::map<std::uint32_t, Time> came;            // arrival times of the ranks in `come`; other entries are unused
    std::map<std::uint32_t, std::map<std::uint64_t, worker::Report>> ahead;  // later reports of ranks that sent several
    std::optional<Time> partial_at;  // when to send the coordinator the arrived ranks, while some are missing
    std::optional<protocol::GroupReport> complete;  // sent, but not released yet
    std::map<std::uint64_t, StagedPaths> staged;    // by report, until it is settled
    std::optional<LocalUpload> upload;
    std::optional<std::uint64_t> given_up_try;  // the replaced upload's try; the next upload waits for its end
    bool storage_silent = false;                // nothing has moved since the storage became silent or unreachable
    std::int64_t silence_ms = silence_first_ms;
    std::optional<Time> claiming_at;  // since when the name of report passed + 1's checkpoint is being claimed
    std::optional<protocol::GroupReleased> asked;        // the coordinator's request for a report not reached here yet
    std::map<std::uint64_t, worker::Committed> settled;  // the last few results, for workers that reconnect
    std::string hopeless;                                // why report passed + 1 can never pass
    std::set<std::uint32_t> ended;  // successfully: these ranks send no report after `passed`, except those in `come`
    // Ranks that ended successfully while no agent watched them; `ranks` lacks them. Each has passed report `passed`,
    // and perhaps the next one. The release of that moves them to `ended`.
    std::set<std::uint32_t> ended_unwatched;
    std::uint64_t broadcast_passed = 0;
    std::map<std::uint32_t, worker::Broadcast> broadcast_come;
    std::optional<Time> broadcast_partial_at;  // when to send the coordinator the waiting ranks, while some are missing
    std::string broadcast_data;                // data of broadcast_passed, for workers that ask again
    bool operator==(const LocalRanks&) const = default;
};

struct Gathered {
    std::map<std::string, protocol::GroupReport> nodes;
    std::set<std::uint32_t> ranks;
    Time since;
    Time warn_at;
    std::int64_t warn_every_ms = 30'000;
    bool waiting_noticed = false;          // a notice was sent about the wait for the upload of the checkpoint before
    std::optional<Time> hopeless_sent_at;  // time of the last such message
    bool operator==(const Gathered&) const = default;
};

struct Commit {
    std::uint64_t index = 0;
    std::string directory, metrics_json;
    std::set<std::string> nodes_waiting;
    std::map<std::string, std::vector<std::string>> skips;  // by node: files that a lower rank on another node has too
    std::vector<protocol::StagedFile> files;
    Time since, stored_at;  // time since which all parts are stored
    std::int64_t wall_ms = 0, blocked_ms = 0;
    bool sync = false, writing = false;
    Time writing_at;             // the manifest's try that runs has begun
    bool manifest_late = false;  // that try has had no answer for long: a newer checkpoint may begin beside it
    std::string trouble;         // the last error; a newer checkpoint may replace this one
    std::string trouble_reason;  // the kind of the error
    std::optional<Time> retry_at;
    std::int64_t backoff_ms = 1'000;
    bool operator==(const Commit&) const = default;
};

struct Coordinator {
    protocol::AttemptRef attempt;
    std::uint32_t world_size = 0;
    std::string own_node;
    std::map<std::string, std::set<std::uint32_t>> nodes;
    std::uint64_t passed = 0;
    std::map<std::uint64_t, Gathered> gathering;
    std::optional<Commit> commit;
    // The commit before, whose manifest may still appear on storage. The manifest of `commit` is written after its end.
    std::optional<Commit> closing;
    std::uint64_t counter = 0;                   // number of directories named, over all attempts of the run
    std::uint64_t counter_before = 0;            // its value before this attempt
    std::map<std::string, std::uint64_t> names;  // requested names of this attempt, with the last number behind each
    protocol::GroupCommitted committed{};        // the newest commit of this attempt
    protocol::GroupCommitted given_up{};         // the newest checkpoint that was given up, with the reason
    std::string replaced_trouble;  // kind of the trouble, noticed before, in which the last checkpoint was replaced
    std::uint64_t warnings = 0;
    std::int64_t timeout_ms = 0;                   // a report that waits longer never passes; 0: no limit
    std::map<std::uint32_t, std::uint64_t> ended;  // ranks that ended successfully, and their last report
    std::set<std::uint32_t> ended_unwatched;       // their last report is `passed` or the next one
    bool knows_passed = true;               // it has released report `passed` itself; false: `passed` is a lower bound
    std::map<std::string, double> stop_at;  // the job's `stop`
    bool enough = false;                    // `stop` was reached, so no further report passes
    std::uint64_t broadcast_passed = 0;
    std::map<std::uint64_t, std::set<std::string>> broadcast_nodes;
    std::map<std::uint64_t, std::set<std::uint32_t>> broadcast_ranks;  // arrived ranks of nodes that are not complete
    bool stuck_broadcast_noticed = false;
    std::string broadcast_data;
    bool operator==(const Coordinator&) const = default;
};

// News of the group for the head. The machine numbers them.
using GroupNews = std::variant<protocol::Reported, protocol::Committed, protocol::Notice>;
struct GroupSink {
    Outputs& out;
    std::vector<GroupNews>& news;
    std::vector<protocol::GroupMessage>& to_coordinator;  // from LocalRanks, if the coordinator is on this node
    std::vector<protocol::GroupMessage>& to_local;        // from the Coordinator to the ranks on its node
    std::int64_t wall_ms = 0;
};

// ---- LocalRanks (local_ranks.cpp) -----------------------------------------------------------------------------------
void rank_joined(LocalRanks&, Time now, std::uint32_t rank, const worker::Hello&, GroupSink&);
// Returns the next report, or broadcast, of a process that represents the rank from now on. Reports of an earlier
// process of the rank are kept.
std::uint64_t next_report_of(const LocalRanks&, std::uint32_t rank);
std::uint64_t next_broadcast_of(const LocalRanks&, std::uint32_t rank);
void rank_reported(LocalRanks&, Time now, std::uint32_t rank, worker::Report, GroupSink&);
// Returns the report in which the rank waits, and since when; nullopt if it does not wait.
struct WaitingReport {
    const worker::Report& report;
    Time since;
};
std::optional<WaitingReport> waiting_report(const LocalRanks&, std::uint32_t rank);
void take_ahead(LocalRanks&, Time now, GroupSink&);
// Records that a rank ended successfully, while this agent watched it or not.
void rank_ended(LocalRanks&, std::uint32_t rank, GroupSink&);
void rank_ended_unwatched(LocalRanks&, Time now, std::uint32_t rank, GroupSink&);
void rank_broadcast(LocalRanks&, Time now, std::uint32_t rank, worker::Broadcast, GroupSink&);
void staged_listed(LocalRanks&, const StagedListed&, GroupSink&);
void from_coordinator(LocalRanks&, Time now, const protocol::GroupMessage&, GroupSink&);
void uploaded(LocalRanks&, Time now, const Uploaded&, GroupSink&);
void joined_coordinator(LocalRanks&, const std::string& node, GroupSink&);  // repeats the unanswered messages
void local_time(LocalRanks&, Time now, GroupSink&);
void resume_upload(LocalRanks&, Time now, const SavedUpload&, Outputs& out);  // after this agent's restart
void give_up_upload(LocalRanks&, GroupSink&);
void broke_off(LocalUpload&, Time now);  // handles a failed try (last_checkpoint.cpp)

// ---- Coordinator (coordinator.cpp) ----------------------------------------------------------------------------------
void from_node(Coordinator&, Time now, const std::string& node, protocol::GroupMessage, GroupSink&);
void resume_commit(Coordinator&, Time now, const SavedUpload&);
std::optional<SavedUpload> saved_upload_of(const LocalRanks&,
                                           // The parts that a restart needs of a checkpoint under way.
                                           const Coordinator*);
void manifest_written(Coordinator&, Time now, const ManifestWritten&, GroupSink&);
void coordinator_time(Coordinator&, Time now, GroupSink&);
void abandon_commit(Coordinator&, const std::string& why, GroupSink&);
// Returns a directory that no checkpoint of the run has had, and that will not be used again (checkpoint_names.cpp).
struct WishedName {
    std::string text{};  // may be empty
    bool exact = false;  // it is claimed on the storage, so the directory has exactly this name
};
struct NewDirectory {
    std::string name;
    std::string first_repeated{};  // the requested name, if it was used before for the first time
};
NewDirectory name_directory(Coordinator&, const WishedName& wish);

std::optional<Time> next_wake(const LocalRanks&);
std::optional<Time> next_wake(const Coordinator&);

}  // namespace rtrain::agent
