// Advice: sentences that say what a run's measured times and memory mean, and what its user can do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rtrain {

enum class AdviceKind { straggler, data, checkpoint, memory };
const char* to_text(AdviceKind kind);

struct Advice {
    AdviceKind kind = AdviceKind::straggler;
    std::string text;
    bool operator==(const Advice&) const = default;
};

// Of the last minutes; shares are of the time, 0 to 1.
struct RunFacts {
    std::string name;  // of the run, for the commands that are named
    bool gpus = false;
    double data_share = 0, checkpoint_share = 0;  // mean over the ranks
    struct Slow {
        std::uint32_t rank = 0;
        std::string node;
        double data_share = 0;
    };
    std::vector<Slow> slow;  // by rank
    double others_wait = 0;  // share of the time in which the others wait for them
    struct Rise {
        std::uint32_t rank = 0;
        double bytes_per_report = 0;  // 0: it does not report
        double bytes_per_minute = 0;
        std::optional<double> minutes_left;  // until its node's memory is full
    };
    std::vector<Rise> rises;  // by rank
};

std::vector<Advice> advice(const RunFacts& facts);

}  // namespace rtrain
