// The keepers of this agent, one for each template: started, given orders, ended. A keeper that has workers outlives
// the agent; the next one has no use for it, and adopts its workers as it does those of shims.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/agent/warm/template_spec.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

struct KeeperEvents {
    std::function<void(const std::string& key, std::int64_t pid, std::int64_t bytes)> ready;  // of the template
    // The template is gone. `unfit`: why it could not be one; empty: it was one.
    std::function<void(const std::string& key, const std::string& unfit)> ended;
};

class Keepers {
  public:
    // `program`: knows the verb __keeper; usually /proc/self/exe.
    Keepers(net::Loop& loop, std::string program, KeeperEvents events);
    ~Keepers();
    Keepers(const Keepers&) = delete;
    Keepers& operator=(const Keepers&) = delete;

    // `log` takes what the template prints.
    Status begin(const TemplateSpec& spec, const std::string& log);
    void end(const std::string& key);
    struct Answer {
        pid_t sentinel = 0;  // as Launcher::watch_forked takes it; 0: refused, and nothing runs
        std::string why{};
    };
    // The answer comes once, after this has returned.
    void fork_worker(const std::string& key, const WorkerStart& worker, const WarmStart& start,
                     std::function<void(const Answer&)> answer);

  private:
    struct Keeper;
    void on_packet(const std::string& key);
    void take(Keeper& keeper, const std::string& packet);
    void lost(const std::string& key);
    void reap(pid_t pid, int pidfd);

    net::Loop& loop_;
    std::string program_;
    KeeperEvents events_;
    std::map<std::string, std::unique_ptr<Keeper>> keepers_;
    std::map<pid_t, int> children_;  // keepers as processes, with their pidfds: to be reaped
    std::uint64_t orders_ = 0;
};

}  // namespace rtrain::agent
