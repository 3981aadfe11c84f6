// The documents of Kubernetes that `rtrain kubernetes render` makes of a job, as JSON. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::cmd {

struct WorkerSet {     // a StatefulSet whose pods are nodes
    std::string name;  // empty: it is left as it is
    std::optional<std::uint32_t> replicas;
};
struct ManifestWish {
    spec::Job job;            // with its name
    std::string code;         // a zstd tar of the working directory; empty: nothing travels along
    std::string code_in_pod;  // where the pods have it already; empty: nowhere
    std::string image, name_space = "rtrain", head = "rtrain-head:7433", token_secret = "rtrain-user";
    std::string claim = "rtrain-shared", claim_path = "/mnt/shared";  // claim empty: none
    std::string secrets_from;                                         // a Secret with the values of the job's secrets
    std::string kueue_queue;                                          // empty: Kueue has no part in it
    WorkerSet workers;
    bool shutdown_after_finish = false;
};

// A ConfigMap with spec and code, the Job, and for worker sets an account that may scale just that one. Refused is what
// Kubernetes could not hold, and storage that ends with the workers where these are to end.
Result<std::vector<nlohmann::json>> job_manifests(const ManifestWish& wish);
std::string object_name(const std::string& run_name);  // as Kubernetes allows it: "gpt-1b" of "GPT_1b"

}  // namespace rtrain::cmd
