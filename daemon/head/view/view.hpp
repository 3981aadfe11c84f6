// The data from which answers and orders are made: the records, and facts that are not in them. It gives read access
// only.
#pragma once

#include <string>
#include <vector>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/view/reports.hpp"
#include "daemon/head/view/run_names.hpp"
#include "daemon/head/view/waits.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

struct View {
    const Cluster& cluster;
    const Clock& clock;
    const RunNames& names;
    const Reports& reports;
    const Waits& waits;
    std::string run_id(RunId id) const { return run_id_text(cluster.meta.cluster_id, id); }
};

// Finds a run by id, by name (the live one, otherwise the newest), or by an unambiguous prefix of its id.
Result<RunId> find_run(const View& view, const std::string& text);

std::vector<const Attempt*> attempts_of(const Cluster& cluster, RunId run);
// the run's checkpoints, sorted by sequence
std::vector<const Checkpoint*> checkpoints_of(const Cluster& cluster, RunId run);

}  // namespace rtrain::head
