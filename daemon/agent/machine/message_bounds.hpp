// Bounds of one message from a node to rank 0's node: the metrics of its ranks, and the files of its part of a
// checkpoint. With them no message is longer than a link takes (16 MiB).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/protocol/group.hpp"
#include "runtime/worker/frames/bounds.hpp"

namespace rtrain::agent {

inline constexpr const char* metrics_left_out =
    R"({"left_out":"the metrics of all ranks in one report have more than 6 MiB"})";

// Keeps the metrics of the lowest ranks as far as there is room. The others' metrics say that they are left out.
inline void bound_metrics(std::map<std::uint32_t, std::string>& json_by_rank) {
    std::size_t sum = 0;
    for (auto& [rank, json] : json_by_rank) {
        if (sum + json.size() > worker::all_ranks_metrics_bytes_max)
            json = metrics_left_out;
        else
            sum += json.size();
    }
}

// The most bytes of a list of checkpoint files with the metrics beside it: some 55,000 files of a path of 60 bytes.
// Rank 0's own node has no such bound, as its list crosses no link.
inline constexpr std::size_t list_bytes_max = 12u << 20;

// Returns what a text takes in a JSON string, in bytes.
inline std::size_t escaped_bytes(const std::string& text) {
    std::size_t sum = text.size();
    for (const char c : text) sum += static_cast<unsigned char>(c) < 0x20 ? 5 : c == '"' || c == '\\' ? 1 : 0;
    return sum;
}

// Returns what the report takes at most in a message, in bytes, once each file has its hash.
inline std::size_t list_bytes(const protocol::GroupReport& report) {
    constexpr std::size_t hash_size_and_rank = 160;
    std::size_t sum = 0;
    for (const protocol::StagedFile& file : report.files) sum += escaped_bytes(file.path) + hash_size_and_rank;
    for (const auto& [rank, json] : report.metrics_json) sum += escaped_bytes(json);
    return sum;
}

inline std::string too_many_files(std::size_t files, std::size_t bytes) {
    return "a node's part of it has " + std::to_string(files) + " files, whose list takes " +
           std::to_string(bytes >> 20) + " MiB, and " + std::to_string(list_bytes_max >> 20) +
           " MiB (about 50,000 files) is the most that a node may send: write fewer and larger files, or one archive";
}

}  // namespace rtrain::agent
