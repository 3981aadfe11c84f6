// `setup:` of a job: a command that is run once per node, command and code, in a copy of the working directory and in a
// virtual environment over the job's interpreter. Its results are kept below <data>/setups/<key>/ and used by every
// later attempt that asks for the same. One setup at a time on a node: two pips would fight for the same cores.
//   <data>/setups/<key>/        the agent's own: no user can write here, so `done` is true
//                       work/   the user's (0700): the working directory as the command left it
//                       venv/   the user's (0700): sees the packages of the interpreter it lies over
//                       done    written last
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/agent/workers/launcher.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

struct SetupOrder {
    AttemptKey attempt;
    std::string command, interpreter;
    std::string code_archive, code_sha256;         // empty: an empty working directory
    std::map<std::string, std::string> inherited;  // of the agent
    std::map<std::string, std::string> variables;  // the job's own: another value is another setup
    WorkerUser user{};
    bool allow_setuid = false;  // the command's programs may gain rights
    std::string log_file;       // appended to
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
// Blocks. `cancelled` ends the command.
SetupResult carry_out(const std::string& setups_dir, const SetupOrder& order, std::int64_t patience_ms,
                      const std::atomic<bool>& cancelled);

class SetupRunner {  // a thread of its own: the pool stays free for uploads
  public:
    static constexpr std::int64_t patience_ms = 3'600'000;
    SetupRunner(net::Background background, std::string setups_dir)
        : background_(background), setups_dir_(std::move(setups_dir)) {}
    ~SetupRunner();
    SetupRunner(const SetupRunner&) = delete;
    SetupRunner& operator=(const SetupRunner&) = delete;

    void run(SetupOrder order, std::function<void(const SetupResult&)> done);  // `done` is called on the loop
    void cancel(AttemptKey attempt);

  private:
    struct Waiting {
        SetupOrder order;
        std::function<void(const SetupResult&)> done;
        std::shared_ptr<std::atomic<bool>> cancelled;
    };
    void next();  // on the loop: starts the thread for the first that waits

    const net::Background background_;
    std::string setups_dir_;
    std::deque<Waiting> waiting_;  // the first one is running when busy_
    bool busy_ = false;
    std::thread thread_;
};

}  // namespace rtrain::agent
