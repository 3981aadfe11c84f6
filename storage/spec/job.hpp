// The job spec: read strictly from YAML, checked as a whole, all problems at once with their positions; canonical JSON
// for the wire; what the scheduler needs of it as a RunSpec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/records.hpp"
#include "scheduler/model/result.hpp"

namespace rtrain::spec {

struct Job {
    std::string name;                     // empty: file stem + 5 letters, made by the submitter
    std::vector<std::string> entrypoint;  // exec form; a string becomes {"sh", "-c", text}
    std::string working_dir;              // as written; relative to the spec's file
    std::map<std::string, std::string> env;
    std::vector<std::string> secrets;  // names
    std::string setup;
    std::string interpreter = "python3";
    std::vector<std::string> preload;
    std::uint32_t workers = 1, workers_max = 1;  // elastic when they differ
    std::int64_t grow_after_ms = 30'000;         // elastic: room for more must have been there for so long
    std::vector<std::string> after;              // "RUN", "RUN:succeeded" or "RUN:ended"
    bool use_gpu = false;
    Resources resources_per_worker;  // complete: defaults filled in
    Strategy placement = Strategy::pack;
    std::optional<std::string> accelerator_type;
    LabelSelector label_selector;
    std::vector<LabelSelector> worker_selectors;  // empty, or one for each worker, beside the other
    std::vector<std::string> nodes, exclude_nodes;
    std::optional<std::string> topology;
    std::string cpu_affinity = "near_gpus";  // near_gpus even none
    bool wait_for_nodes = true;
    Resources trainer_resources;
    std::string backend = "auto";
    std::int64_t backend_timeout_s = 1800;
    std::string network_interface;  // network.interface
    std::string queue = "default";
    std::int32_t priority = 50;
    FailurePolicy failure;
    std::optional<std::int64_t> hang_timeout_ms, isolation_timeout_ms;
    std::string storage_path;  // empty: cluster://
    Retention retention;
    std::string upload = "async";  // async sync none
    bool checkpoint_on_drain = true;
    std::optional<std::int64_t> wall_time_ms, queue_time_ms;
    std::int64_t stop_grace_ms = 10'000;
    std::map<std::string, double> stop;
    std::string logs_show = "auto";
    std::int64_t logs_keep_ms = 14LL * 24 * 3600 * 1000;
    std::int64_t logs_max_bytes = std::int64_t{10} << 30;  // of one rank's stream on its node
    std::vector<std::string> tracking;
    std::map<std::string, std::string> labels;
    bool driver = false;  // submits others: one worker, which may need nothing
    bool operator==(const Job&) const = default;
};

struct ReadOptions {
    std::string file_name = "job.yaml";              // for positions in messages
    std::vector<std::string> sets;                   // --set a.b=v
    std::map<std::string, std::string> environment;  // for ${VAR}
};
struct ReadAnswer {
    std::optional<Job> job;  // none when there are problems
    Problems problems;       // all of them, in the file's order
};
ReadAnswer read_job(const std::string& yaml_text, const ReadOptions& options);
std::string problem_text(const Problem& problem, const std::string& file_name,
                         const std::string& yaml_text);  // with caret

std::string to_json(const Job& job);  // canonical: sorted keys, all fields
// The head's side of the wire: the same checks. A job of a record was accepted, perhaps by a version with other limits:
// these do not hold for it.
enum class JsonFrom { submitter, record };
ReadAnswer job_from_json(const std::string& json, JsonFrom from = JsonFrom::submitter);
std::string json_schema();  // `rtrain schema`

RunSpec run_spec(const Job& job);
std::size_t demand_bytes(const Resources& amounts, const LabelSelector& selector);  // about what a worker's take
std::size_t demand_bytes(const Job& job);                                           // of one worker

// Strict YAML 1.2 to JSON text with positions, for other files too (cluster.yaml, config.yaml).
struct YamlAnswer {
    std::string json;
    std::map<std::string, std::pair<int, int>> positions;
    Problems problems;
};
YamlAnswer strict_yaml(const std::string& text);

// working_dir as one content-addressed archive (zstd tar). Unpacking checks every path against leaving the target.
struct PackedCode {
    std::string file;
    std::string sha256;
    std::int64_t bytes = 0;
    std::uint32_t files = 0;
    std::vector<std::string> secrets{};   // left out: .env, .ssh, private keys and such; of a folder that nobody named
    std::vector<std::string> left_out{};  // links that lead out and special files, each with the reason
};
enum class NamedBy { job, nobody };  // nobody: the folder of the job's file; 100 MiB at most instead of 2 GiB
// `needed`: a file that must be in the archive, else it is refused; empty: none.
Result<PackedCode> pack_directory(const std::string& directory, const std::string& to_directory,
                                  NamedBy named_by = NamedBy::job, const std::string& needed = {});
// Atomic: all or nothing. `finish` does what belongs to it, on the files at the place where they wait for their name.
using FinishUnpacking = std::function<Status(const std::string& directory)>;
Status unpack_archive(const std::string& archive, const std::string& to_directory, const FinishUnpacking& finish = {});

}  // namespace rtrain::spec
