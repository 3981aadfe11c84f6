// A decision: the records to save and the effects to perform for one event.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/events.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain {

// clang-format off: one a line where they fit
struct Decision {
    std::vector<Record> save;
    std::vector<Effect> act;
    std::string note;                // one line for `rtrain events`; empty: not worth showing
    std::optional<RunId> about_run;  // what the note is about
    std::optional<NodeId> about_node;
    std::optional<RunId> created;         // RunSubmitted: the new run, or the one its key made before
    std::optional<Error> refused;         // a request that cannot be: nothing is saved (name taken, run not terminal, ...)
    bool operator==(const Decision&) const = default;
};

}  // namespace rtrain
