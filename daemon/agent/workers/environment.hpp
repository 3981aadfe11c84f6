// The environment of a worker: torchrun's whole set, rtrain's variables, the job's. Pure: a table of variables over the
// launch.
#pragma once

#include <map>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::agent {

struct WorkerPlace {  // the values about the node and this worker's files
    std::string node, run_path, socket, key, worker_library;
    std::string scratch, tmpdir;  // the directory on the scratch disk, and its short name
    std::string working_dir, start_dir, code_list, error_file, driver_file;
    std::string head_address, head_ca;  // the head's host:port, and its CA as PEM
    std::string tool_path;
    std::string interface;                         // the network interface with the node's address
    std::map<std::string, std::string> inherited;  // the agent's environment
    std::vector<std::string> devices;              // CUDA's name of device i; missing: its number
};

using Environment = std::map<std::string, std::string>;
// Returns the variables of the agent's environment that jobs inherit: PATH, HOME, USER, language, time zone, proxies
// and CAs, and those that the operator names in `more` ("NAME", "PREFIX*"). "*" names all but those that a launcher
// sets for each rank and those that belong to the agent's process.
Environment passed_on(const Environment& own, const std::vector<std::string>& more);
// Returns why the operator may not name this variable; empty if it is allowed.
std::string wrong_pass_env(const std::string& name);
Environment worker_environment(const protocol::Prepare& prepare, const protocol::Launch& launch,
                               const protocol::LaunchWorker& worker, const spec::Job& job, const WorkerPlace& place);
std::string attempt_text(const protocol::Prepare& prepare, std::uint32_t number);  // "c0ffee-17-a2"
// Returns CUDA_VISIBLE_DEVICES. Entry LOCAL_RANK is that rank's first device. A rank with a fraction or several devices
// sees only its own.
std::string visible_devices(const protocol::Launch& launch, const protocol::LaunchWorker& worker,
                            const std::vector<std::string>& names);

}  // namespace rtrain::agent
