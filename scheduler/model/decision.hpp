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
    std::string note;  // text of the line in `rtrain events`; empty: no line
    std::optional<RunId> about_run;  // the subjects of the note
    std::optional<NodeId> about_node;
    // RunSubmitted: the new run, or the run that an earlier submission with the same key created
    std::optional<RunId> created;
    std::optional<Error> refused;  // an impossible request (name taken, run not terminal, ...); nothing is saved
    bool operator==(const Decision&) const = default;
};

}  // namespace rtrain
