// Every metric of the head: its name without the prefix, its kind, its help text. Nothing else may be exported.
#pragma once

#include <span>
#include <string_view>

namespace rtrain::metrics {

enum class Kind { counter, gauge, histogram };
struct Description {
    std::string_view name;  // "runs": exported as rtrain_runs
    Kind kind;
    std::string_view help;
};
std::span<const Description> descriptions();
const Description& description(std::string_view name);  // RTRAIN_CHECK: it is in the table

}  // namespace rtrain::metrics
