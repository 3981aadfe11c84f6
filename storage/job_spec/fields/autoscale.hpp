// Autoscaling, from the file that `rtrain head start --autoscale` is given (configs/autoscale shows some).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "scheduler/autoscale/autoscale.hpp"

namespace rtrain::spec {

struct AutoscaleRules {
    AutoscalePolicy policy;
    std::vector<std::string> provision, release;  // a program and its arguments; no shell is involved
};
struct AutoscaleAnswer {
    std::optional<AutoscaleRules> rules;  // nullopt if there are problems
    Problems problems;                    // all problems, in the order of the file
};
AutoscaleAnswer read_autoscale(const std::string& yaml_text);

}  // namespace rtrain::spec
