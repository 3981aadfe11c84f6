// The metrics of many ranks in one message. Each rank's metrics have a bound, and so has the message.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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

}  // namespace rtrain::agent
