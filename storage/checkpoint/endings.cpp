// How an attempt and a run ended, for whoever finds the directory later.

#include "storage/checkpoint/layout.hpp"

namespace rtrain::storage {

using nlohmann::json;

Status write_end(Store& store, const std::string& run_name, const AttemptEnd& end) {
    const json value = {{"schema_version", 1},
                        {"attempt", end.number},
                        {"state", end.state},
                        {"cause", end.cause},
                        {"first_failure_rank", end.first_failure ? json(*end.first_failure) : json()},
                        {"started_wall_ms", end.started_wall_ms},
                        {"ended_wall_ms", end.ended_wall_ms}};
    return store.put(end_path(run_name, end.number), file_text(value));
}

Status write_result(Store& store, const std::string& run_name, const RunOutcome& outcome) {
    const json value = {{"schema_version", 1},
                        {"name", outcome.name},
                        {"cluster_id", outcome.cluster_id},
                        {"run_id", outcome.run_id},
                        {"state", outcome.state},
                        {"reason", outcome.reason},
                        {"attempts", outcome.attempts},
                        {"failures", outcome.failures},
                        {"checkpoint", outcome.checkpoint.empty() ? json() : json(outcome.checkpoint)},
                        {"metrics", embedded(outcome.metrics_json)},
                        {"warnings", outcome.warnings},
                        {"submitted_wall_ms", outcome.submitted_wall_ms},
                        {"ended_wall_ms", outcome.ended_wall_ms}};
    return store.put(run_name + "/result.json", file_text(value));
}

}  // namespace rtrain::storage
