// Autoscaling, from the file that `rtrain head start --autoscale` is given (configs/autoscale shows some).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/autoscale/autoscale.hpp"
#include "scheduler/model/result.hpp"

namespace rtrain::spec {

struct AutoscaleRules {
    AutoscalePolicy policy;
    std::vector<std::string> provision, release;  // a program and its arguments; no shell reads them
};
struct AutoscaleAnswer {
    std::optional<AutoscaleRules> rules;  // none when there are problems
    Problems problems;                    // all of them, in the file's order
};
AutoscaleAnswer read_autoscale(const std::string& yaml_text);

}  // namespace rtrain::spec
