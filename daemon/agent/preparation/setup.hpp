// `setup:` of a job: a command that is run once per node, command and code, in a copy of the working directory and in a
// virtual environment over the job's interpreter. Its results are kept below <data>/setups/<key>/ and used by every
// later attempt that asks for the same. setup_runner.hpp says which of them run beside each other.
//   <data>/setups/<key>/        the agent's own: no user can write here, so `done` is true
//                       work/   the user's (0700): the working directory as the command left it
//                       venv/   the user's (0700): sees the packages of the interpreter it lies over
//                       done    written last
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>

#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

struct SetupOrder {
    AttemptKey attempt;
    std::string token_user;  // whose run it is
    std::string command, interpreter;
    std::string code_archive, code_sha256;         // empty: an empty working directory
    std::map<std::string, std::string> inherited;  // of the agent
    std::map<std::string, std::string> variables;  // the job's own: another value is another setup
    WorkerUser user{};
    bool allow_setuid = false;  // the command's programs may gain rights
    std::string log_file;       // appended to
    std::string cgroup{};       // the attempt's: its processes are counted, and end with it; empty: there is none
};
struct SetupResult {
    std::string why;          // empty: it is done
    std::string working_dir;  // where workers start instead of in the code as it was packed
    std::string virtual_env;  // its bin/ comes first on PATH; empty: there is no Python
};

inline std::string setups_below(const std::string& data_dir) { return data_dir + "/setups"; }
std::string setup_key(const SetupOrder& order);
// Returns the key of agents before this version, which gave <key>/ and its `done` to the user. A setup under that key
// is not used again, but workers that run may still use it.
std::string former_setup_key(const SetupOrder& order);
// What an earlier one has left; none: it has to be carried out.
std::optional<SetupResult> kept_setup(const std::string& setups_dir, const SetupOrder& order);
struct SetupBounds {
    std::int64_t patience_ms = 3'600'000;
    std::int64_t bytes_most = std::int64_t{1} << 40;  // of what it makes
};
// Blocks. `cancelled` ends the command.
SetupResult carry_out(const std::string& setups_dir, const SetupOrder& order, const SetupBounds& bounds,
                      const std::atomic<bool>& cancelled);

}  // namespace rtrain::agent
