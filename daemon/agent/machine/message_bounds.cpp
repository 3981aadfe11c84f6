// See message_bounds.hpp.
#include "daemon/agent/machine/message_bounds.hpp"

#include <algorithm>

#include "daemon/protocol/fields_json.hpp"

namespace rtrain::agent {
namespace {

std::string mib(std::size_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

std::size_t metrics_bytes(const protocol::GroupReport& report) {
    std::size_t sum = 0;
    for (const auto& [rank, json] : report.metrics_json) sum += encoded_bytes(json);
    return sum;
}

}  // namespace

std::size_t encoded_bytes(const std::string& text) {
    const auto plain = [](char c) {
        return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x80;
    };
    const auto escaped = [](char c) { return c == '"' || c == '\\'; };
    if (std::all_of(text.begin(), text.end(), plain))
        return text.size() + 2 + static_cast<std::size_t>(std::count_if(text.begin(), text.end(), escaped));
    std::string out;  // control characters take up to six bytes, and invalid UTF-8 bytes three
    protocol::append_text(out, text);
    return out.size();
}

void bound_metrics(std::map<std::uint32_t, std::string>& json_by_rank) {
    std::size_t sum = 0, encoded_sum = 0;
    for (auto& [rank, json] : json_by_rank) {
        const std::size_t bytes = sum + json.size(), encoded = encoded_sum + encoded_bytes(json);
        if (bytes > worker::all_ranks_metrics_bytes_max || encoded > list_bytes_max) {
            json = metrics_left_out;
        } else {
            sum = bytes;
            encoded_sum = encoded;
        }
    }
}

std::size_t list_bytes(const protocol::GroupReport& report) {
    constexpr std::size_t hash_size_and_rank = 160;
    std::size_t sum = 0;
    for (const protocol::StagedFile& file : report.files) sum += encoded_bytes(file.path) + hash_size_and_rank;
    return sum;
}

std::optional<TooLarge> too_large(const protocol::GroupReport& report) {
    const std::size_t files = list_bytes(report), metrics = metrics_bytes(report);
    if (report.files.empty() || files + metrics <= list_bytes_max) return std::nullopt;
    const std::string both = "a node's part of it has " + std::to_string(report.files.size()) +
                             " files, whose list takes " + mib(files) + ", and metrics of " + mib(metrics) +
                             " beside it; " + mib(list_bytes_max) + " is the most that a node may send: ";
    if (metrics > files)
        return TooLarge{.message = both + "report less metrics with a checkpoint", .reason = "metrics_too_large"};
    return TooLarge{.message = both + "write fewer and larger files, or one archive", .reason = "too_many_files"};
}

}  // namespace rtrain::agent
