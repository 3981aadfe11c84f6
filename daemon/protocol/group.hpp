// The messages between the agents of one attempt: WebSocket /v1/group on the port of the coordinator (the agent of rank
// 0's node). GET /v1/probe there answers 200. Reports are collected here, so their barrier needs no head.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "daemon/protocol/attempt_ref.hpp"

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
struct GroupReport {  // all ranks of the node have arrived at report `index`
    std::uint64_t index = 0;
    std::map<std::uint32_t, std::string> metrics_json{};
    bool checkpoint = false;  // some rank reports files
    // rank 0's requested name; with `exact` also the place where a rank's files already are
    std::string directory_name{};
    std::vector<StagedFile> files{};  // staged files; their hashes are empty until they are uploaded
    std::string checkpoint_error{};  // why files of some rank are missing: then no files of this report are committed
    std::string error_reason{};  // kind of the error, one word of a notice
    bool sync = false;  // some rank waits for the commit
    // the node accepts a directory without an attempt in its name; from rank 0: the requested name is claimed
    bool exact = false;
    bool deeper = false;  // the node accepts a directory deeper in the run's directory
    bool operator==(const GroupReport&) const = default;
};
// To the coordinator: the ranks of a node that wait in report `index` while others do not, and those that have ended
// successfully. Back: why report `index` can never pass.
struct GroupArrived {
    std::uint64_t index = 0; std::vector<std::uint32_t> ranks{};
    std::vector<std::uint32_t> ended{};  // Their last report is `index` - 1.
    // They ended while their node had no agent, so their last report is unknown.
    std::vector<std::uint32_t> ended_unwatched{};
    std::uint64_t broadcast = 0;  // the broadcast in which the `broadcast_ranks` wait; 0: none
    std::vector<std::uint32_t> broadcast_ranks{};
    std::string hopeless{};
    bool operator==(const GroupArrived&) const = default;
};
struct GroupUploaded {  // from the coordinator: the part of some node, or the manifest, is not stored at present
    std::uint64_t index = 0; std::vector<StagedFile> files{}; std::string error{}; std::string error_reason{};
    bool operator==(const GroupUploaded&) const = default;
};
// the barrier has passed; names the place of the files
struct GroupReleased {
    std::uint64_t index = 0; std::string directory{};
    std::vector<std::string> skip{};  // files of this node that a lower rank on another node also has
    bool sync = false;  // `reported` is sent after the commit
    bool operator==(const GroupReleased&) const = default;
};
struct GroupCommitted {
    std::uint64_t index = 0; std::string directory{}; std::string error{};
    bool operator==(const GroupCommitted&) const = default;
};
// To the coordinator: this node's ranks have arrived at broadcast `index`. Back: all ranks have arrived, with rank 0's
// bytes.
struct GroupBroadcast {
    std::uint64_t index = 0; std::string data{};  // on the wire: base64
    bool operator==(const GroupBroadcast&) const = default;
};
// From the coordinator: other ranks wait for these ranks, which must write their stacks.
struct GroupStacks {
    std::vector<std::uint32_t> ranks{}; std::string why{};
    bool operator==(const GroupStacks&) const = default;
};
using GroupMessage = std::variant<GroupJoin, GroupReport, GroupArrived, GroupUploaded, GroupReleased, GroupCommitted,
                                  GroupBroadcast, GroupStacks>;
std::string encode(const GroupMessage&);
// Errors: invalid, also for a directory that is_checkpoint_directory refuses, and for files that would lie outside of
// it.
Result<GroupMessage> decode_group(const std::string&);
// Returns true if a checkpoint of a run may lie at `text`, relative to the run's directory. It is either one entry of
// that directory (no '/', no zero byte, not "." or "..", 1 to 255 bytes), or a deeper directory by the rules of
// storage::checkpoint_path_fault.
bool is_checkpoint_directory(std::string_view text);

}  // namespace rtrain::protocol
