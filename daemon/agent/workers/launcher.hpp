// Starts workers through the shim, sees their ends at once (pidfd of the shim), and finds them again after a restart of
// the agent by the shim's files.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/hardware/memory_kills.hpp"
#include "daemon/agent/machine/stop_targets.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

struct WorkerUser {  // uid -1: the agent's own
    std::int64_t uid = -1, gid = -1;
    std::string name = "-", home{};
    std::vector<std::int64_t> groups{};  // all groups of the user, as `UserRights` sets them
    bool operator==(const WorkerUser&) const = default;
};
// Returns HOME, USER and LOGNAME of a process that runs as the user; empty for the agent's own user.
std::map<std::string, std::string> user_variables(const WorkerUser& user);

struct WorkerStart {
    AttemptKey attempt;
    std::uint32_t rank = 0;
    std::string directory, out, err, cwd;  // all except the files must exist
    WorkerUser user{};
    std::int64_t wait_ms = 0;  // wait before it becomes its program
    std::vector<std::string> program;
    std::map<std::string, std::string> environment;
    bool allow_setuid = false;           // its programs may gain privileges
    std::string cgroup{}, processors{};  // "0-3,8"; empty: the agent's own
};
struct WorkerEvents {
    std::function<void(AttemptKey, std::uint32_t rank, std::int64_t pid)> started;
    std::function<void(AttemptKey, std::uint32_t rank, const ExitCause&, std::int64_t wall_us)> ended;
    // Returns how many processes of this attempt the kernel ended for memory, where somebody counts them.
    std::function<std::optional<std::uint64_t>(AttemptKey)> oom_kills = [](AttemptKey) { return std::nullopt; };
};

class Launcher {
  public:
    // `shim` is a program with the verb __shim, usually /proc/self/exe.
    Launcher(net::Loop& loop, std::string shim, WorkerEvents events);
    ~Launcher();
    void start(const WorkerStart& worker);
    // Adopts a worker of an earlier agent. Returns its pid if it was started. `ended` is called at its end, or soon if
    // it has already ended.
    std::optional<std::int64_t> adopt(AttemptKey attempt, std::uint32_t rank, const std::string& directory,
                                      const std::string& err);
    // Watches a worker that was started without a shim. Its `started` file names the process `sentinel`, which lives
    // until the worker's end is recorded.
    void watch_forked(const WorkerStart& worker, pid_t sentinel);
    // Sends SIGTERM to the worker's main process, or to the process below it that the signal is for (stop_targets.hpp).
    void stop(AttemptKey attempt, std::uint32_t rank, const std::optional<ProcessId>& holder);
    // Kills the worker's process group. `descendants`: also processes below the worker that have left the group.
    enum class Kill { group, descendants };
    void kill(AttemptKey attempt, std::uint32_t rank, Kill what = Kill::group);
    void look_at_memory(std::int64_t now_ms) { memory_.look(now_ms); }  // called with each heartbeat

  private:
    struct Child;
    using Name = std::pair<AttemptKey, std::uint32_t>;
    void watch_start(const Name& name);
    void watch_end(const Name& name);
    void over(const Name& name);
    void fail_start(const WorkerStart& worker, const std::string& why);

    net::Loop& loop_;
    std::string shim_;
    WorkerEvents events_;
    std::map<Name, std::unique_ptr<Child>> children_;
    ExitCause cause_of_end(const Child& child, const std::map<std::string, std::string>& exit);

    MemoryKills memory_;
};

// Writes the file `place` in the worker's directory, for the shim or keeper. Without it the worker runs on the agent's
// processors and in its cgroup.
void write_place(const WorkerStart& worker);
// Returns a descriptor of the environment in sealed memory, which cannot be changed any more; -errno on failure.
int sealed_environment(const std::map<std::string, std::string>& environment);
// Returns the cause in the shim's `exit` file, with the last lines of stderr.
ExitCause cause_of_exit(const std::map<std::string, std::string>& values, const std::vector<std::string>& program,
                        const std::string& err_file);
std::string last_line(const std::string& file);
std::string end_of(const std::string& file, std::size_t most);
bool has_address_in_use(const std::string& err_file);
// Returns true if `entry` is one of the NUL-terminated entries of an environment or command line from /proc.
bool has_entry(const std::string& environment, const std::string& entry);
// Ends processes that carry RTRAIN_ATTEMPT=<attempt> and RTRAIN_NODE=<node> in their environment, or as a shim's
// arguments. Returns their number. The node is compared because two agents of one cluster may share a machine.
std::size_t kill_strays(const std::string& attempt_text, const std::string& node);

}  // namespace rtrain::agent
