// The queues of a cluster, from the file that `rtrain head start --queues` is given (configs/queues.yaml shows one).
#pragma once

#include <optional>
#include <string>

#include "scheduler/model/queues.hpp"
#include "scheduler/model/result.hpp"

namespace rtrain::spec {

struct QueuesAnswer {
    std::optional<Queues> queues;  // none when there are problems
    Problems problems;             // all of them, in the file's order
};
QueuesAnswer read_queues(const std::string& yaml_text);

}  // namespace rtrain::spec
