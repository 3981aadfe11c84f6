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

// Measured in the last minutes. A share is a fraction of the time, 0 to 1.
struct RunFacts {
    std::string name;  // name of the run, for the suggested commands
    bool gpus = false;
    // fraction of the time in which a rank waits for data, and for checkpoints; means over the ranks
    double data_share = 0, checkpoint_share = 0;
    struct Slow {
        std::uint32_t rank = 0;
        std::string node;
        double data_share = 0;
    };
    std::vector<Slow> slow;  // sorted by rank
    double others_wait = 0;  // fraction of the time in which the other ranks wait for the slow ones
    struct Rise {
        std::uint32_t rank = 0;
        double bytes_per_report = 0;  // bytes that the run reports on average; 0: it does not report
        double bytes_per_minute = 0;
        std::optional<double> minutes_left;  // minutes until the memory of the rank's node is full
    };
    std::vector<Rise> rises;                          // sorted by rank
    struct InReport {                                 // set if some ranks wait in a report that others have not reached
        std::vector<std::uint32_t> missing, waiting;  // sorted; neither is empty
        Duration lasts;                               // time since the first of these ranks began to wait
    };
    std::optional<InReport> in_report;
};

std::vector<Advice> advice(const RunFacts& facts);

}  // namespace rtrain
