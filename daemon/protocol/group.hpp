// What the agents of one attempt say to each other: WebSocket /v1/group on the port of the coordinator (the agent of
// rank 0's node); GET /v1/probe there answers 200. The report group lives here, so its barrier needs no head.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "daemon/protocol/attempt_ref.hpp"
#include "scheduler/model/result.hpp"

namespace rtrain::protocol {

// clang-format off: fields that belong together stand on one line
struct GroupJoin {
    AttemptRef attempt{}; std::string node{}; std::vector<std::uint32_t> ranks{};
    bool operator==(const GroupJoin&) const = default;
};
struct StagedFile {
    std::uint32_t rank = 0; std::string path{}; std::int64_t bytes = 0; std::string sha256{};
    bool operator==(const StagedFile&) const = default;
};
struct GroupReport {  // all of a node's ranks have come to report `index`
    std::uint64_t index = 0;
    std::map<std::uint32_t, std::string> metrics_json{};
    bool checkpoint = false;           // some rank brought files
    std::string directory_name{};        // rank 0's wish; with `exact` also where a rank's files lie already
    std::vector<StagedFile> files{};     // staged; hashes empty until uploaded
    std::string checkpoint_error{};      // why some rank's files are missing: nobody's of this report are committed
    std::string error_reason{};          // its kind, one word of a notice
    bool sync = false;                   // some rank waits for the commit
    bool exact = false;                  // the node takes a directory without an attempt; rank 0's: the wish is claimed
    bool deeper = false;                 // the node takes one that lies deeper in the run's
    bool operator==(const GroupReport&) const = default;
};
// Sent to the coordinator: the ranks of a node that wait in report `index` while others do not, and those that have
// ended well. Sent back: why report `index` can never pass.
struct GroupArrived {
    std::uint64_t index = 0; std::vector<std::uint32_t> ranks{};
    std::vector<std::uint32_t> ended{};  // their last report is `index` - 1
    std::vector<std::uint32_t> ended_unwatched{};  // while their node had no agent: their last report is not known
    std::uint64_t broadcast = 0;  // that the ranks of `broadcast_ranks` wait in; 0: none
    std::vector<std::uint32_t> broadcast_ranks{};
    std::string hopeless{};
    bool operator==(const GroupArrived&) const = default;
};
struct GroupUploaded {  // from the coordinator: some node's part, or the manifest, is not stored at present
    std::uint64_t index = 0; std::vector<StagedFile> files{}; std::string error{}; std::string error_reason{};
    bool operator==(const GroupUploaded&) const = default;
};
// the barrier is passed; where files go
struct GroupReleased {
    std::uint64_t index = 0; std::string directory{};
    std::vector<std::string> skip{};  // files of this node that a lower rank of another node has as well
    bool sync = false;                // `reported` comes with the commit
    bool operator==(const GroupReleased&) const = default;
};
struct GroupCommitted {
    std::uint64_t index = 0; std::string directory{}; std::string error{};
    bool operator==(const GroupCommitted&) const = default;
};
// Sent to the coordinator: this node's ranks have come to broadcast `index`. Back: all have, and rank 0's bytes.
struct GroupBroadcast {
    std::uint64_t index = 0; std::string data{};  // on the wire: base64
    bool operator==(const GroupBroadcast&) const = default;
};
// Sent by the coordinator: these ranks are waited for; they are to write down where they are.
struct GroupStacks {
    std::vector<std::uint32_t> ranks{}; std::string why{};
    bool operator==(const GroupStacks&) const = default;
};
using GroupMessage = std::variant<GroupJoin, GroupReport, GroupArrived, GroupUploaded, GroupReleased, GroupCommitted,
                                  GroupBroadcast, GroupStacks>;
std::string encode(const GroupMessage&);
// Errors: invalid, also for what is_checkpoint_directory refuses, and for files that would leave it.
Result<GroupMessage> decode_group(const std::string&);
// Whether a checkpoint of a run may lie at `text`, relative to the run's directory. It is one entry of that (no '/', no
// zero byte, not "." or "..", 1 to 255 bytes), or a deeper directory by the rules of storage::checkpoint_path_fault.
bool is_checkpoint_directory(std::string_view text);

}  // namespace rtrain::protocol
