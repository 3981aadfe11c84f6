// Makes the Kubernetes documents of `rtrain kubernetes render` from a job, as JSON. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct WorkerSet {     // a StatefulSet whose pods are nodes of the cluster
    std::string name;  // empty: no worker set is scaled
    std::optional<std::uint32_t> replicas;
};
struct ManifestWish {
    spec::Job job;            // the job, including its name
    std::string code;         // content of a zstd tar archive of the working directory; empty: no code is included
    std::string code_in_pod;  // path of the code in the pods; empty: there is no code
    std::string image, name_space = "rtrain", head = "rtrain-head:7433", token_secret = "rtrain-user";
    // volume claim for shared storage, and its path in the pods; empty `claim`: no volume
    std::string claim = "rtrain-shared", claim_path = "/mnt/shared";
    std::string secrets_from;  // name of a Kubernetes Secret with the values of the job's secrets
    std::string kueue_queue;   // name of a Kueue queue; empty: Kueue is not used
    WorkerSet workers;
    bool shutdown_after_finish = false;
};

// Returns a ConfigMap with spec and code, the Job, and for worker sets an account that may scale that one set. Refuses
// what Kubernetes cannot hold, and storage that is lost with the workers if these are ended.
Result<std::vector<nlohmann::json>> job_manifests(const ManifestWish& wish);
// turns a run's name into a valid Kubernetes name: "gpt-1b" for "GPT_1b"
std::string object_name(const std::string& run_name);

}  // namespace rtrain::cmd
