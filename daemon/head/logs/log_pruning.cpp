// Removing the logs of runs that ended long ago.
#include <filesystem>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::head {

void prune_logs(net::Background background, const Cluster& cluster, const std::string& directory) {
    struct Ended {
        RunId run;
        std::int64_t age_ms = 0;
        std::string job_json;
    };
    std::vector<Ended> all;
    const std::int64_t now = wall_ms();
    for (const auto& [id, run] : cluster.runs)
        if (terminal(run.state) && run.ended_wall_ms != 0) all.push_back({id, now - run.ended_wall_ms, run.job_json});
    const auto prune = [all = std::move(all), logs = directory] {
        std::error_code unseen;
        for (const Ended& one : all) {
            if (!std::filesystem::exists(logs + "/" + std::to_string(one.run.value), unseen)) continue;
            const auto job = spec::job_from_json(one.job_json, spec::JsonFrom::record).job;
            if (one.age_ms > (job ? job->logs_keep_ms : spec::Job{}.logs_keep_ms)) forget_logs(logs, one.run);
        }
    };
    background.offload_at(directory, prune, [] {});
}

}  // namespace rtrain::head
