// Bounds of one message from a node to rank 0's node: the metrics of its ranks, and the files of its part of a
// checkpoint. With them no message is longer than a link takes (16 MiB).
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

// The most bytes of a list of checkpoint files with the metrics beside it: some 55,000 files of a path of 60 bytes.
// Rank 0's own node has no such bound, as its list crosses no link. The metrics alone have no more either.
inline constexpr std::size_t list_bytes_max = 2 * worker::all_ranks_metrics_bytes_max;

// Returns what a text takes in a message, in bytes.
std::size_t encoded_bytes(const std::string& text);

// Keeps the metrics of the lowest ranks as far as there is room, for the texts and for what they take in a message. The
// others' metrics say that they are left out.
void bound_metrics(std::map<std::uint32_t, std::string>& json_by_rank);

// Returns what the files take at most in a message, in bytes, once each has its hash.
std::size_t list_bytes(const protocol::GroupReport& report);

struct TooLarge {
    std::string message;  // for people: what is too large, and what to do
    std::string reason;   // one word of a notice: "too_many_files", "metrics_too_large"
};
// Returns why the files of a report, with its metrics, are too much for one message; nothing: they are not.
std::optional<TooLarge> too_large(const protocol::GroupReport& report);

}  // namespace rtrain::agent
