// The inputs and outputs of the agent's machine. Plain values: adapters convert outputs to I/O and its results to
// inputs. The simulator does the same without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "daemon/agent/machine/memory_limit.hpp"
#include "daemon/agent/machine/node_life.hpp"
#include "daemon/agent/machine/templates.hpp"
#include "daemon/protocol/messages.hpp"
#include "runtime/worker/frames/frames.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::agent {

inline AttemptKey key_of(const protocol::AttemptRef& ref) { return {ref.run, ref.incarnation}; }

enum class UploadMode { async, sync, none };
// A permanent reason of a failed upload or commit: another checkpoint is committed under the name.
inline constexpr const char* name_taken = "name_taken";
using StagedPaths = std::map<std::uint32_t, std::string>;  // key: rank; value: the directory with its files

// clang-format off: fields that belong together stand on one line
// A pending checkpoint, as an agent's restart needs it. Only the coordinator uses the second half.
struct SavedUpload {
    protocol::GroupReleased released{};
    StagedPaths staged{};
    std::string metrics_json{};
    std::int64_t wall_ms = 0, blocked_ms = 0;
    std::map<std::string, std::vector<std::string>> skips{};  // key: node; value: the files that it leaves out
    bool operator==(const SavedUpload&) const = default;
};
// The job's settings for its agents. 0: disabled.
struct AttemptPolicy {
    std::int64_t hang_timeout_ms = 0;       // since a rank's last report; at least the backend's own timeout
    std::int64_t isolation_timeout_ms = 0;  // time without the head
    std::int64_t report_timeout_ms = 0;     // time in which all ranks must reach one report: backend.timeout_s
    std::map<std::string, double> stop_at{};  // the job's `stop`
    std::int64_t memory_bytes = 0;            // memory of each rank; 0: no limit
    bool operator==(const AttemptPolicy&) const = default;
};
// The parts of an attempt that an agent's restart needs. The adapter stores them on disk.
struct SavedAttempt {
    protocol::Prepare prepare{};
    std::uint32_t number = 0;
    std::string from{}, master_address{}; std::uint16_t master_port = 0;
    UploadMode upload = UploadMode::async;
    std::string local_run_path{};
    AttemptPolicy policy{};
    std::optional<protocol::Launch> launch{};
    std::uint64_t passed = 0;          // number of reports whose barrier has certainly passed
    std::uint64_t named = 0;           // number of checkpoint directories that this attempt has named
    std::map<std::string, std::uint64_t> names{};  // as in Coordinator
    bool enough = false;               // the job's `stop` was reached
    std::int64_t asked = 0;            // the newest request (RequestCheckpoint::asked)
    // Number of reports passed at that time; a later committed one fulfils the request.
    std::uint64_t asked_after = 0;
    std::uint64_t committed = 0; std::string committed_as{};  // the newest commit: its report, its directory
    std::optional<SavedUpload> uploading{};  // stored before its first file moves, until its commit is news on disk
    bool operator==(const SavedAttempt&) const = default;
};

// ---- inputs -------------------------------------------------------------------------------------------------------
struct HeadConnected { bool operator==(const HeadConnected&) const = default; };
struct HeadDisconnected { bool operator==(const HeadDisconnected&) const = default; };
struct HeadMessage { protocol::FromHead message{}; bool operator==(const HeadMessage&) const = default; };
// After this agent's restart, before the first connection: an attempt found on disk. Its workers' ends follow as WorkerExited.
struct AttemptFound {
    SavedAttempt saved{};
    std::map<std::uint32_t, std::int64_t> workers{};  // rank -> pid of the workers that were started
    bool operator==(const AttemptFound&) const = default;
};
struct PreparationDone {
    AttemptKey attempt{};
    std::string why{};          // empty: success
    bool permanent = false;
    std::uint32_t number = 0;   // the claimed number; on nodes without the claim that of the order
    std::string from{}, master_address{};
    std::uint16_t master_port = 0;
    UploadMode upload = UploadMode::async;
    std::string local_run_path{};  // empty: not reachable as files here
    AttemptPolicy policy{};
    std::vector<std::string> notices{}; std::vector<protocol::EarlierCheckpoint> earlier{};
    bool operator==(const PreparationDone&) const = default;
};
struct CheckpointFetched { AttemptKey attempt{}; std::string why{}; bool operator==(const CheckpointFetched&) const = default; };
struct WorkerStarted_ { AttemptKey attempt{}; std::uint32_t rank = 0; std::int64_t pid = 0; bool operator==(const WorkerStarted_&) const = default; };
struct WorkerEnded {
    AttemptKey attempt{}; std::uint32_t rank = 0; ExitCause cause{}; std::int64_t wall_us = 0; bool operator==(const WorkerEnded&) const = default;
};
struct WorkerJoined {  // key, attempt and rank were checked
    AttemptKey attempt{}; std::uint32_t rank = 0; worker::Hello hello{};
    bool operator==(const WorkerJoined&) const = default;
};
struct WorkerMessage {
    AttemptKey attempt{}; std::uint32_t rank = 0; worker::FromWorker message{};
    std::int64_t interval_ms = -1;  // with a report: time since the one before, if the worker sends it
    bool operator==(const WorkerMessage&) const = default;
};
struct WorkerCut { AttemptKey attempt{}; std::uint32_t rank = 0; bool operator==(const WorkerCut&) const = default; };
struct StagedListed {  // `exact`: the wished name is claimed, or none is wished; `in_place`: where in the run files lie already, and stay
    AttemptKey attempt{}; std::uint64_t index = 0; std::vector<protocol::StagedFile> files{}; std::string why{}, reason{}; bool exact = false; std::string in_place{};
    bool operator==(const StagedListed&) const = default;
};
struct Uploaded {
    AttemptKey attempt{}; std::uint64_t index = 0; std::vector<protocol::StagedFile> files{}; std::string why{}, reason{};  // as storage_reason
    bool operator==(const Uploaded&) const = default;
};
// Progress of a running upload, sent at intervals.
struct UploadMoved { AttemptKey attempt{}; std::uint64_t index = 0; std::int64_t bytes = 0; bool operator==(const UploadMoved&) const = default; };
struct ManifestWritten {
    AttemptKey attempt{}; std::uint64_t index = 0; std::string why{}, reason{};
    bool operator==(const ManifestWritten&) const = default;
};
struct PeerMessage {  // from another agent of the attempt; `node` is the name in its certificate
    AttemptKey attempt{}; std::string node{}; protocol::GroupMessage message{};
    bool operator==(const PeerMessage&) const = default;
};
struct GroupConnected { AttemptKey attempt{}; bool operator==(const GroupConnected&) const = default; };  // to the coordinator
struct GroupCut { AttemptKey attempt{}; std::string node{}; bool operator==(const GroupCut&) const = default; };  // empty node: the coordinator
struct LogsDone { AttemptKey attempt{}; bool operator==(const LogsDone&) const = default; };
struct CheckpointGone { std::uint64_t run = 0; std::string directory{}, why{}; bool operator==(const CheckpointGone&) const = default; };
struct ScratchMeasured { std::map<AttemptKey, std::int64_t> bytes{}; bool operator==(const ScratchMeasured&) const = default; };
struct GpusSampled { std::set<std::uint32_t> busy{}; bool operator==(const GpusSampled&) const = default; };  // device numbers
struct TimerFired { bool operator==(const TimerFired&) const = default; };

using Input = std::variant<HeadConnected, HeadDisconnected, HeadMessage, AttemptFound, PreparationDone, CheckpointFetched, WorkerStarted_,
                           WorkerEnded, WorkerJoined, WorkerMessage, WorkerCut, StagedListed, Uploaded, UploadMoved, ManifestWritten,
                           PeerMessage, GroupConnected, GroupCut, LogsDone, CheckpointGone, ScratchMeasured, GpusSampled, ReclaimAsked,
                           AgentDialled, EnvironmentUsed, TemplateWanted, TemplateReady, TemplateEnded, WorkerForked, StartsChosen, MemoryMeasured, TimerFired>;

// ---- outputs ------------------------------------------------------------------------------------------------------
struct ToHead { protocol::FromAgent message{}; bool operator==(const ToHead&) const = default; };
struct KeepNews { protocol::News news{}; bool operator==(const KeepNews&) const = default; };  // on disk before it is sent
struct DropNews { std::uint64_t up_to = 0; bool operator==(const DropNews&) const = default; };
struct CloseHead { std::string why{}; bool operator==(const CloseHead&) const = default; };
struct SendHeartbeat { std::vector<protocol::WorkerHeartbeat> workers{}; bool operator==(const SendHeartbeat&) const = default; };  // the adapter adds memory
struct ResendLogs { bool operator==(const ResendLogs&) const = default; };  // registered: from the last acknowledged offsets on
struct LogsAcknowledged { protocol::LogAck ack{}; bool operator==(const LogsAcknowledged&) const = default; };
struct StartPreparation { protocol::Prepare prepare{}; bool operator==(const StartPreparation&) const = default; };
struct KeepAttempt { SavedAttempt saved{}; bool operator==(const KeepAttempt&) const = default; };  // on disk, for a restart
struct FetchCheckpoint { AttemptKey attempt{}; std::string from{}; bool operator==(const FetchCheckpoint&) const = default; };
struct StartWorkers { protocol::Launch launch{}; bool operator==(const StartWorkers&) const = default; };
struct SignalWorker {  // SIGTERM goes to the process that stop_targets.hpp chooses, SIGKILL to the whole process group
    AttemptKey attempt{}; std::uint32_t rank = 0; std::int32_t signal = 0;
    bool descendants = false;  // also to processes below the worker that have left its process group
    bool operator==(const SignalWorker&) const = default;
};
struct DumpStacks {  // writes the stacks of these ranks to their logs, and ends no process
    AttemptKey attempt{}; std::vector<std::uint32_t> ranks{}; std::string why{};
    bool operator==(const DumpStacks&) const = default;
};
struct WelcomeWorker { AttemptKey attempt{}; std::uint32_t rank = 0; std::uint64_t next_index = 1, next_broadcast = 1; bool operator==(const WelcomeWorker&) const = default; };
struct ToWorker {
    AttemptKey attempt{}; std::uint32_t rank = 0; worker::FromAgent message{};
    bool operator==(const ToWorker&) const = default;
};
struct MakeStage { AttemptKey attempt{}; std::uint32_t rank = 0; bool spare = false; bool operator==(const MakeStage&) const = default; };  // the adapter answers the worker
struct ListStaged { AttemptKey attempt{}; std::uint64_t index = 0; StagedPaths staged{}; std::string name{}; std::uint32_t number = 0; bool claim = true; bool operator==(const ListStaged&) const = default; };  // `name`: rank 0's wish; `claim`: on storage
struct DropStaged { AttemptKey attempt{}; StagedPaths staged{}; bool operator==(const DropStaged&) const = default; };
struct Upload {  // move or send the staged files below `directory` of attempt `number`, fsync, hash; lower ranks' files win
    AttemptKey attempt{}; std::uint64_t index = 0; std::string directory{}; StagedPaths staged{}; std::set<std::string> skip{}; std::uint32_t number = 0;
    bool operator==(const Upload&) const = default;
};
struct WriteManifest { AttemptKey attempt{}; storage::Manifest manifest{}; bool operator==(const WriteManifest&) const = default; };
struct KeepCommitted { AttemptKey attempt{}; std::uint64_t index = 0; bool operator==(const KeepCommitted&) const = default; };  // this node's part of it is committed, and stays here for a restart
struct DropUncommitted { AttemptKey attempt{}; std::string directory{}; bool operator==(const DropUncommitted&) const = default; };
struct JournalMetrics {  // attempts/NNNNNN/metrics-000001.jsonl
    AttemptKey attempt{}; std::uint64_t index = 0; std::int64_t wall_ms = 0; std::map<std::uint32_t, std::string> metrics_json{};
    bool operator==(const JournalMetrics&) const = default;
};
struct DialCoordinator { AttemptKey attempt{}; protocol::PeerNode peer{}; bool operator==(const DialCoordinator&) const = default; };
struct ToGroup {  // empty node: the coordinator
    AttemptKey attempt{}; std::string node{}; protocol::GroupMessage message{};
    bool operator==(const ToGroup&) const = default;
};
struct FinishLogs { AttemptKey attempt{}; bool operator==(const FinishLogs&) const = default; };  // no process is left: read to the end, copy
struct WriteEnd { AttemptKey attempt{}; storage::AttemptEnd end{}; bool operator==(const WriteEnd&) const = default; };
struct CloseAttempt { AttemptKey attempt{}; bool operator==(const CloseAttempt&) const = default; };  // over: sockets, scratch, strays
struct ForgetAttempt { AttemptKey attempt{}; bool operator==(const ForgetAttempt&) const = default; };  // its files may go
struct RemoveCheckpoint { protocol::Delete order{}; bool operator==(const RemoveCheckpoint&) const = default; };
struct WriteResultFile { protocol::Result_ order{}; bool operator==(const WriteResultFile&) const = default; };
// clang-format on

using Output =
    std::variant<ToHead, KeepNews, DropNews, CloseHead, SendHeartbeat, ResendLogs, LogsAcknowledged, StartPreparation,
                 KeepAttempt, FetchCheckpoint, StartWorkers, SignalWorker, DumpStacks, WelcomeWorker, ToWorker,
                 MakeStage, ListStaged, DropStaged, Upload, WriteManifest, KeepCommitted, DropUncommitted,
                 JournalMetrics, DialCoordinator, ToGroup, FinishLogs, WriteEnd, CloseAttempt, ForgetAttempt,
                 RemoveCheckpoint, WriteResultFile, DialAgent, EndAgent, StartTemplate, EndTemplate>;
using Outputs = std::vector<Output>;

}  // namespace rtrain::agent
