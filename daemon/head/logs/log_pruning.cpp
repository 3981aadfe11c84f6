// Removes the logs of runs that ended long ago, and counts the rest.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::head {

namespace {

struct Logs {
    RunId run;
    std::int64_t ended_ms_ago = -1;  // ms since the run's end; negative: the run has not ended
    std::string job_json{};
};
struct Scan {
    std::vector<RunId> old;                  // runs that ended longer ago than their `logs.keep`
    std::map<RunId, std::uint64_t> sizes{};  // key: each other run; value: bytes of its logs on disk
};

Scan look(const std::vector<Logs>& all, const std::string& directory) {
    Scan scan;
    std::error_code unseen;
    for (const Logs& logs : all) {
        if (!std::filesystem::exists(directory + "/" + std::to_string(logs.run.value), unseen)) continue;
        const auto job = logs.ended_ms_ago < 0 ? std::optional<spec::Job>()
                                               : spec::job_from_json(logs.job_json, spec::JsonFrom::record).job;
        if (logs.ended_ms_ago > (job ? job->logs_keep_ms : spec::Job{}.logs_keep_ms))
            scan.old.push_back(logs.run);
        else
            scan.sizes[logs.run] = logs_bytes(directory, logs.run);
    }
    return scan;
}

}  // namespace

void LogIntake::prune(const Cluster& cluster) {
    std::vector<Logs> all;
    const std::int64_t now = wall_ms();
    for (const auto& [id, run] : cluster.runs) {
        const bool ended = terminal(run.state) && run.ended_wall_ms != 0;
        all.push_back({.run = id,
                       .ended_ms_ago = ended ? std::max<std::int64_t>(0, now - run.ended_wall_ms) : -1,
                       .job_json = ended ? run.job_json : ""});
    }
    uses_.background.offload_at(
        store_.directory(), [all = std::move(all), directory = store_.directory()] { return look(all, directory); },
        [](const Error& error) {
            std::fprintf(stderr, "rtrain head: logs: %s\n", error.message.c_str());
            return Scan{};
        },
        [this](const Scan& scan) {
            for (const RunId run : scan.old) forget(run);
            for (const auto& [run, size] : scan.sizes)
                uses_.bytes.put(run, Kept::logs, {.files = static_cast<std::int64_t>(size)});
        });
}

}  // namespace rtrain::head
