// Bounds of one message from a node to rank 0's node: the metrics of its ranks, and the files of its part of a
// checkpoint. They keep each message below the limit of a link (16 MiB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/protocol/group.hpp"
#include "runtime/worker/frames/bounds.hpp"

namespace rtrain::agent {

inline constexpr const char* metrics_left_out =
    R"({"left_out":"the metrics of all ranks in one report have more than 6 MiB"})";

// Bound, in bytes, on a list of checkpoint files with the metrics: some 55,000 files with paths of 60 bytes. Rank 0's
// own node has no such bound, since its list crosses no link. The metrics alone have the same bound.
inline constexpr std::size_t list_bytes_max = 2 * worker::all_ranks_metrics_bytes_max;

// Returns the size of a text in a message, in bytes.
std::size_t encoded_bytes(const std::string& text);

// Keeps the metrics of the lowest ranks that fit, both as texts and in a message. Replaces the others' metrics by a
// note.
void bound_metrics(std::map<std::uint32_t, std::string>& json_by_rank);

// Returns the largest size of the files in a message, in bytes, once each has its hash.
std::size_t list_bytes(const protocol::GroupReport& report);

struct TooLarge {
    std::string message;  // text for people: what is too large, and the remedy
    std::string reason;   // one word for a notice: "too_many_files", "metrics_too_large"
};
// Returns why the files and metrics of a report are too large for one message; nullopt if they are not.
std::optional<TooLarge> too_large(const protocol::GroupReport& report);

}  // namespace rtrain::agent
