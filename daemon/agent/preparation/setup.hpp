// The `setup:` command of a job. It runs once per node, command and code, in a copy of the working directory and in a
// virtual environment on top of the job's interpreter. Its results are stored below <data>/setups/<key>/ and used by
// every later attempt with the same key. setup_runner.hpp decides which setups run concurrently.
//  <data>/setups/<key>/        the agent's own; no user can write here, so `done` can be relied on
//                      work/   the user's (0700): the working directory after the command
//                      venv/   the user's (0700): also sees the packages of its base interpreter
//                      done    written last
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>

#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

struct SetupOrder {
    AttemptKey attempt;
    std::string token_user;  // the run's user on the cluster
    std::string command, interpreter;
    std::string code_archive, code_sha256;         // empty: an empty working directory
    std::map<std::string, std::string> inherited;  // the agent's environment
    std::map<std::string, std::string> variables;  // the job's variables; another value makes another setup
    WorkerUser user{};
    bool allow_setuid = false;  // the command's programs may gain privileges
    std::string log_file;       // output is appended to it
    std::string cgroup{};       // the attempt's cgroup, which counts and ends its processes; empty without one
};
struct SetupResult {
    std::string why;          // empty after success
    std::string working_dir;  // the start directory of workers, instead of the packed code
    std::string virtual_env;  // its bin/ comes first on PATH; empty without a Python
};

inline std::string setups_below(const std::string& data_dir) { return data_dir + "/setups"; }
std::string setup_key(const SetupOrder& order);
// Returns the key of agents before this version, which gave <key>/ and its `done` to the user. A setup under that key
// is not used again, but workers that run may still use it.
std::string former_setup_key(const SetupOrder& order);
// Returns the result of an earlier setup; nullopt if the setup must run.
std::optional<SetupResult> kept_setup(const std::string& setups_dir, const SetupOrder& order);
struct SetupBounds {
    std::int64_t patience_ms = 3'600'000;
    std::int64_t bytes_most = std::int64_t{1} << 40;  // bound on the bytes that it makes
};
// Runs the setup. Blocks. `cancelled` ends the command.
SetupResult carry_out(const std::string& setups_dir, const SetupOrder& order, const SetupBounds& bounds,
                      const std::atomic<bool>& cancelled);

}  // namespace rtrain::agent
