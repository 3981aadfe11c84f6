// All metrics of the head: name without the prefix, kind, and help text. Nothing else may be exported.
#pragma once

#include <cstddef>
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
std::size_t row_of(std::string_view name);  // RTRAIN_CHECK: the name is in the table

}  // namespace rtrain::metrics
