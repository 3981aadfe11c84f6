// The environment of a worker: torchrun's whole set, ours, the job's. Pure: a table of variables over the launch.
#pragma once

#include <map>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::agent {

struct WorkerPlace {  // what the environment says of the node and of this worker's files
    std::string node, run_path, socket, key, worker_library;
    std::string scratch, tmpdir;  // the directory on the scratch disk, and the short name of it
    std::string working_dir, start_dir, code_list, error_file, driver_file;
    std::string head_address, head_ca;  // how a worker asks the head: host:port, PEM
    std::string tool_path;
    std::string interface;                         // the network card that has the node's address
    std::map<std::string, std::string> inherited;  // of the agent
    std::vector<std::string> devices;              // what CUDA calls device i; missing: its number
};

using Environment = std::map<std::string, std::string>;
// Returns the variables of the agent's environment that jobs inherit: PATH, HOME, USER, language, time zone, proxies
// and CAs, and those that the operator names in `more` ("NAME", "PREFIX*").
Environment passed_on(const Environment& own, const std::vector<std::string>& more);
// Returns why the operator may not name this variable; empty: it is allowed.
std::string wrong_pass_env(const std::string& name);
Environment worker_environment(const protocol::Prepare& prepare, const protocol::Launch& launch,
                               const protocol::LaunchWorker& worker, const spec::Job& job, const WorkerPlace& place);
std::string attempt_text(const protocol::Prepare& prepare, std::uint32_t number);  // "c0ffee-17-a2"
// Entry LOCAL_RANK is that rank's first device; a rank with a fraction or several devices sees only its own.
std::string visible_devices(const protocol::Launch& launch, const protocol::LaunchWorker& worker,
                            const std::vector<std::string>& names);

}  // namespace rtrain::agent
