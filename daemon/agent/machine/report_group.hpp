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

// What a node answers that has lost its part of a checkpoint in its agent's restart.
inline constexpr const char* part_lost = "its agent was restarted, and its part is lost";

inline constexpr std::int64_t backoff_max_ms = 60'000;  // between tries to store a part or a manifest

std::string seconds(std::int64_t ms);  // "30.0"

// One checkpoint's files on this node, until the coordinator has settled it.
struct LocalUpload {
    std::uint64_t index = 0;
    std::string directory;
    StagedPaths staged;
    std::set<std::string> skip;
    bool sync = false, running = false, done = false;
    std::vector<protocol::StagedFile> files;  // with hashes, once done
    std::optional<Time> retry_at;
    std::int64_t backoff_ms = 1'000;
    Time moved_at, advanced_at;              // the try that runs has moved something; a try has brought it further
    std::int64_t bytes = 0, most_bytes = 0;  // so far it came: this try, the best before it
    std::uint32_t in_vain = 0;               // tries in a row that moved something and came no further
    bool operator==(const LocalUpload&) const = default;
};

struct LocalRanks {
    AttemptKey attempt;
    std::uint32_t number = 0;  // of the attempt in its run
    bool coordinates = false;  // the coordinator is in this agent: no message goes over the network
    std::set<std::uint32_t> ranks;
    UploadMode mode = UploadMode::async;
    std::string local_run_path;
    std::uint64_t passed = 0;                      // the last released report
    std::map<std::uint32_t, worker::Report> come;  // of report passed + 1
    std::map<std::uint32_t, Time> came;            // when each rank of `come` came; entries of other ranks mean nothing
    std::map<std::uint32_t, std::map<std::uint64_t, worker::Report>> ahead;  // later ones, of ranks that said several
    std::optional<Time> partial_at;                 // when to tell who has come, while some have not
    std::optional<protocol::GroupReport> complete;  // sent, not released yet
    std::map<std::uint64_t, StagedPaths> staged;    // by report, until it is settled
    std::optional<LocalUpload> upload;
    std::optional<protocol::GroupReleased> asked;  // by the coordinator, for a report that our ranks have not come to
    std::map<std::uint64_t, worker::Committed> settled;  // the last few, for workers that come back
    std::string hopeless;                                // why report passed + 1 can never pass
    std::set<std::uint32_t> ended;  // well: they bring no report after `passed`, unless it is in `come`
    // Ranks that ended well while no agent watched, which `ranks` lacks. Each has passed report `passed`, and perhaps
    // the next one. The release of that moves them to `ended`.
    std::set<std::uint32_t> ended_unwatched;
    std::uint64_t broadcast_passed = 0;
    std::map<std::uint32_t, worker::Broadcast> broadcast_come;
    std::optional<Time> broadcast_partial_at;  // when the coordinator is sent who waits, while some have not come
    std::string broadcast_data;                // of broadcast_passed, for workers that ask again
    bool operator==(const LocalRanks&) const = default;
};

struct Gathered {
    std::map<std::string, protocol::GroupReport> nodes;
    std::set<std::uint32_t> ranks;
    Time since;
    Time warn_at;
    std::int64_t warn_every_ms = 30'000;
    bool waiting_noticed = false;          // for the upload of the checkpoint before
    std::optional<Time> hopeless_sent_at;  // the last time
    bool operator==(const Gathered&) const = default;
};

struct Commit {
    std::uint64_t index = 0;
    std::string directory, metrics_json;
    std::set<std::string> nodes_waiting;
    std::map<std::string, std::vector<std::string>> skips;  // by node: files that a lower rank elsewhere has as well
    std::vector<protocol::StagedFile> files;
    Time since, stored_at;  // all parts are
    std::int64_t wall_ms = 0, blocked_ms = 0;
    bool sync = false, writing = false;
    std::string trouble;         // the last error; a newer checkpoint may replace this one
    std::string trouble_reason;  // its kind
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
    std::uint64_t counter = 0;                   // directories named, over all attempts of the run
    std::uint64_t counter_before = 0;            // this attempt
    std::map<std::string, std::uint64_t> names;  // given on a wish in this attempt, and the last number behind each
    protocol::GroupCommitted committed{};        // the newest commit of this attempt
    protocol::GroupCommitted given_up{};         // the newest checkpoint that never will be one, and why
    std::uint64_t warnings = 0;
    std::int64_t timeout_ms = 0;                   // a report that waits for longer never passes; 0: no limit
    std::map<std::uint32_t, std::uint64_t> ended;  // ranks that have ended well, and their last report
    std::set<std::uint32_t> ended_unwatched;       // their last report is `passed` or the next one
    // This coordinator has released report `passed` itself, so that no rank has passed a later one. An agent that was
    // restarted learns from its ranks how far the group is at least.
    bool knows_passed = true;
    std::map<std::string, double> stop_at;  // the job's `stop`
    bool enough = false;                    // it was reached: nobody passes a further report
    std::uint64_t broadcast_passed = 0;
    std::map<std::uint64_t, std::set<std::string>> broadcast_nodes;
    std::map<std::uint64_t, std::set<std::uint32_t>>
        broadcast_ranks;  // that have come, of nodes that have not as a whole
    bool stuck_broadcast_noticed = false;
    std::string broadcast_data;
    bool operator==(const Coordinator&) const = default;
};

// What the group wants told to the head; the machine numbers it.
using GroupNews = std::variant<protocol::Reported, protocol::Committed, protocol::Notice>;
struct GroupSink {
    Outputs& out;
    std::vector<GroupNews>& news;
    std::vector<protocol::GroupMessage>& to_coordinator;  // from LocalRanks, when it coordinates itself
    std::vector<protocol::GroupMessage>& to_local;        // from the Coordinator to the ranks beside it
    std::int64_t wall_ms = 0;
};

// ---- LocalRanks (local_ranks.cpp) -----------------------------------------------------------------------------------
void rank_joined(LocalRanks&, Time now, std::uint32_t rank, const worker::Hello&, GroupSink&);
// The report, and the broadcast, that a process begins with which speaks for the rank from now on: what another process
// of the rank has brought stays as it is.
std::uint64_t next_report_of(const LocalRanks&, std::uint32_t rank);
std::uint64_t next_broadcast_of(const LocalRanks&, std::uint32_t rank);
void rank_reported(LocalRanks&, Time now, std::uint32_t rank, worker::Report, GroupSink&);
// Returns the report that the rank waits in and since when; nullopt: it waits in none.
struct WaitingReport {
    const worker::Report& report;
    Time since;
};
std::optional<WaitingReport> waiting_report(const LocalRanks&, std::uint32_t rank);
void take_ahead(LocalRanks&, Time now, GroupSink&);
// A rank has ended well: with this agent watching, or while no agent did.
void rank_ended(LocalRanks&, std::uint32_t rank, GroupSink&);
void rank_ended_unwatched(LocalRanks&, std::uint32_t rank, GroupSink&);
void rank_broadcast(LocalRanks&, Time now, std::uint32_t rank, worker::Broadcast, GroupSink&);
void staged_listed(LocalRanks&, const StagedListed&, GroupSink&);
void from_coordinator(LocalRanks&, Time now, const protocol::GroupMessage&, GroupSink&);
void uploaded(LocalRanks&, Time now, const Uploaded&, GroupSink&);
void joined_coordinator(LocalRanks&, const std::string& node, GroupSink&);  // says again what is unanswered
void local_time(LocalRanks&, Time now, GroupSink&);
void resume_upload(LocalRanks&, const SavedUpload&, Outputs& out);  // after this agent's restart
void give_up_upload(LocalRanks&, GroupSink&);
void broke_off(LocalUpload&, Time now);  // (last_checkpoint.cpp) its try has failed

// ---- Coordinator (coordinator.cpp) ----------------------------------------------------------------------------------
void from_node(Coordinator&, Time now, const std::string& node, protocol::GroupMessage, GroupSink&);
void resume_commit(Coordinator&, Time now, const SavedUpload&);
std::optional<SavedUpload> saved_upload_of(const LocalRanks&,
                                           const Coordinator*);  // what a restart needs of a checkpoint under way
void manifest_written(Coordinator&, Time now, const ManifestWritten&, GroupSink&);
void coordinator_time(Coordinator&, Time now, GroupSink&);
void abandon_commit(Coordinator&, const std::string& why, GroupSink&);
// (checkpoint_names.cpp) A directory that this attempt has not named before, and never will again.
struct WishedName {
    std::string text{};  // may be empty
    bool exact = false;  // it is claimed on storage: the directory's name is this very one
};
struct NewDirectory {
    std::string name;
    std::string first_repeated{};  // the wish, when it is had for the second time
};
NewDirectory name_directory(Coordinator&, const WishedName& wish);

std::optional<Time> next_wake(const LocalRanks&);
std::optional<Time> next_wake(const Coordinator&);

}  // namespace rtrain::agent
