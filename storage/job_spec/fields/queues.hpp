// The queues of a cluster, from the file that `rtrain head start --queues` is given (configs/queues.yaml shows one).
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "scheduler/model/queues.hpp"

namespace rtrain::spec {

struct QueuesAnswer {
    std::optional<Queues> queues;  // nullopt if there are problems
    Problems problems;             // all problems, in the order of the file
};
QueuesAnswer read_queues(const std::string& yaml_text);

}  // namespace rtrain::spec
