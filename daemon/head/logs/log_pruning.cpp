// Removing the logs of runs that ended long ago.
#include <filesystem>
#include <memory>
#include <vector>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::head {

void LogIntake::prune(const Cluster& cluster) {
    struct Ended {
        RunId run;
        std::int64_t age_ms = 0;
        std::string job_json;
    };
    std::vector<Ended> all;
    const std::int64_t now = wall_ms();
    for (const auto& [id, run] : cluster.runs)
        if (terminal(run.state) && run.ended_wall_ms != 0) all.push_back({id, now - run.ended_wall_ms, run.job_json});
    const auto old = std::make_shared<std::vector<RunId>>();
    const auto look = [all = std::move(all), old, logs = store_.directory()] {
        std::error_code unseen;
        for (const Ended& ended_run : all) {
            if (!std::filesystem::exists(logs + "/" + std::to_string(ended_run.run.value), unseen)) continue;
            const auto job = spec::job_from_json(ended_run.job_json, spec::JsonFrom::record).job;
            if (ended_run.age_ms > (job ? job->logs_keep_ms : spec::Job{}.logs_keep_ms)) old->push_back(ended_run.run);
        }
    };
    background_.offload_at(store_.directory(), look, [this, old] {
        for (const RunId run : *old) forget(run);
    });
}

}  // namespace rtrain::head
