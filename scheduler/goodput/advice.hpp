// Advice: sentences that explain a run's measured times and memory, and what its user can do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/ids.hpp"

namespace rtrain {

enum class AdviceKind { missing_ranks, straggler, data, checkpoint, memory };
const char* to_text(AdviceKind kind);

struct Advice {
    AdviceKind kind = AdviceKind::straggler;
    std::string text;
    bool operator==(const Advice&) const = default;
};

// Measured in the last minutes. Shares are fractions of the time, 0 to 1.
struct RunFacts {
    std::string name;  // name of the run, for the suggested commands
    bool gpus = false;
    double data_share = 0, checkpoint_share = 0;  // means over the ranks
    struct Slow {
        std::uint32_t rank = 0;
        std::string node;
        double data_share = 0;
    };
    std::vector<Slow> slow;  // sorted by rank
    double others_wait = 0;  // fraction of the time in which the other ranks wait for them
    struct Rise {
        std::uint32_t rank = 0;
        double bytes_per_report = 0;  // 0: the run does not report
        double bytes_per_minute = 0;
        std::optional<double> minutes_left;  // until the memory of the rank's node is full
    };
    std::vector<Rise> rises;                          // sorted by rank
    struct InReport {                                 // some ranks wait in a report, others have not come to it
        std::vector<std::uint32_t> missing, waiting;  // sorted; neither is empty
        Duration lasts;                               // since the first of them waits
    };
    std::optional<InReport> in_report;
};

std::vector<Advice> advice(const RunFacts& facts);

}  // namespace rtrain
