// The job spec: read strictly from YAML and checked as a whole; all problems are reported at once with their positions.
// Also the canonical JSON that is sent to the head, and the RunSpec for the scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain::spec {

struct Job {
    std::string name;  // empty: the submitter makes a name from the file's stem and 5 letters
    // program and arguments, without a shell; a string in the file becomes {"sh", "-c", text}
    std::vector<std::string> entrypoint;
    std::string working_dir;  // path as written; a relative path starts at the folder of the spec's file
    std::map<std::string, std::string> env;
    std::vector<std::string> secrets;  // names of the secrets, without their values
    std::string setup;
    std::string interpreter = "python3";
    std::vector<std::string> preload;
    std::uint32_t workers = 1, workers_max = 1;  // least and most number of workers; the job is elastic if they differ
    // for elastic jobs: time for which there must have been room for more workers before the run grows
    std::int64_t grow_after_ms = 30'000;
    std::vector<std::string> after;  // "RUN", "RUN:succeeded" or "RUN:ended"
    bool use_gpu = false;
    Resources resources_per_worker;  // amounts for each worker, complete with defaults
    Strategy placement = Strategy::pack;
    std::optional<std::string> accelerator_type;
    LabelSelector label_selector;
    std::vector<LabelSelector> worker_selectors;  // empty, or one for each worker in addition to `selector`
    std::vector<std::string> nodes, exclude_nodes;
    std::optional<std::string> topology;
    std::string cpu_affinity = "near_gpus";  // "near_gpus", "even" or "none"
    bool wait_for_nodes = true;
    Resources trainer_resources;
    std::string backend = "auto";
    std::int64_t backend_timeout_s = 1800;
    std::string network_interface;  // the field network.interface
    std::string queue = "default";
    std::int32_t priority = 50;
    FailurePolicy failure;
    std::optional<std::int64_t> hang_timeout_ms, isolation_timeout_ms;
    std::string storage_path;  // the field storage_path; empty: cluster://
    Retention retention;
    std::string upload = "async";  // "async", "sync" or "none"
    bool checkpoint_on_drain = true;
    std::optional<std::int64_t> wall_time_ms, queue_time_ms;
    std::int64_t stop_grace_ms = 10'000;
    std::map<std::string, double> stop;
    std::string logs_show = "auto";
    std::int64_t logs_keep_ms = 14LL * 24 * 3600 * 1000;
    // bytes for each stream (stdout, stderr) of a rank, on its node
    std::int64_t logs_max_bytes = std::int64_t{10} << 30;
    std::vector<std::string> tracking;
    std::map<std::string, std::string> labels;
    bool driver = false;  // A program that submits other runs. It has one worker, which may need no resources.
    bool operator==(const Job&) const = default;
};

struct ReadOptions {
    std::string file_name = "job.yaml";              // name of the spec's file, for positions in messages
    std::vector<std::string> sets;                   // values of --set: "a.b=v"
    std::map<std::string, std::string> environment;  // values for ${VAR} in the file
};
struct ReadAnswer {
    std::optional<Job> job;  // nullopt if there are problems
    Problems problems;       // all problems, in the order of the file
};
ReadAnswer read_job(const std::string& yaml_text, const ReadOptions& options);
std::string problem_text(const Problem& problem, const std::string& file_name,
                         const std::string& yaml_text);  // each message shows the faulty line with a caret

std::string to_json(const Job& job);  // canonical JSON: sorted keys, all fields
// Reads a job that the head has received, with the same checks. JsonFrom::record: the job comes from the head's
// records. It was accepted before, perhaps by a version with other limits, so limits do not apply.
enum class JsonFrom { submitter, record };
ReadAnswer job_from_json(const std::string& json, JsonFrom from = JsonFrom::submitter);
std::string json_schema();  // the output of `rtrain schema`

RunSpec run_spec(const Job& job);
// approximate bytes that one worker's amounts and selector need
std::size_t demand_bytes(const Resources& amounts, const LabelSelector& selector);
std::size_t demand_bytes(const Job& job);  // the same sum over all workers of the job

// Converts strict YAML 1.2 to JSON text with positions; also for other files (cluster.yaml, config.yaml).
struct YamlAnswer {
    std::string json;
    std::map<std::string, std::pair<int, int>> positions;
    Problems problems;
};
YamlAnswer strict_yaml(const std::string& text);

// Packs working_dir into one archive that is named by its content (zstd tar). Unpacking checks that no path leads out
// of the target.
struct PackedCode {
    std::string file;
    std::string sha256;
    std::int64_t bytes = 0;
    std::uint32_t files = 0;
    // Files that were left out because they may hold secrets (.env, .ssh, private keys). The list is empty if the job
    // names the folder.
    std::vector<std::string> secrets{};
    std::vector<std::string> left_out{};  // links that lead out of the folder and special files, each with the reason
};
// Tells who chose the folder. `nobody`: it is the folder of the job's file, so the archive may have 100 MiB instead of
// 2 GiB.
enum class NamedBy { job, nobody };
// `needed`: a file that the archive must contain, else packing fails; empty: none.
Result<PackedCode> pack_directory(const std::string& directory, const std::string& to_directory,
                                  NamedBy named_by = NamedBy::job, const std::string& needed = {});
// Unpacks all files or none. `finish` is called on the files before they get their final name.
using FinishUnpacking = std::function<Status(const std::string& directory)>;
Status unpack_archive(const std::string& archive, const std::string& to_directory, const FinishUnpacking& finish = {});

}  // namespace rtrain::spec
