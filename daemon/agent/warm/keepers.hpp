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

struct TemplateEnd {       // both empty: it was one, and was asked to end or has refused an order that does not fit
    std::string unfit{};   // why it could be none
    std::string failed{};  // how it, or its keeper, broke down
};
struct KeeperEvents {
    std::function<void(const std::string& key, std::int64_t pid, std::int64_t bytes)> ready;  // of the template
    std::function<void(const std::string& key, const TemplateEnd&)> ended;
};

class Keepers {
  public:
    // The keeper's own waits are 10 s, and its template's end.
    static constexpr std::int64_t usual_patience_ms = 60'000;

    // `program`: knows the verb __keeper; usually /proc/self/exe. `patience_ms`: for a keeper's next answer.
    Keepers(net::Loop& loop, std::string program, KeeperEvents events, std::int64_t patience_ms = usual_patience_ms);
    ~Keepers();
    Keepers(const Keepers&) = delete;
    Keepers& operator=(const Keepers&) = delete;

    // `log` takes what the template prints.
    Status begin(const TemplateSpec& spec, const std::string& log);
    // Orders that were sent before are still done, or refused, and answered.
    void end(const std::string& key);
    struct Answer {
        pid_t sentinel = 0;  // as Launcher::watch_forked takes it; 0: refused, and nothing runs
        std::string why{};
    };
    struct ForkEvents {
        std::function<void(const Answer&)> answered;  // once, after `fork_worker` has returned
        // Before it, where the keeper is silent and may not be ended: why the worker has not started yet.
        std::function<void(const std::string& why)> waits = [](const std::string&) {};
    };
    void fork_worker(const std::string& key, const WorkerStart& worker, const WarmStart& start, ForkEvents events);

  private:
    using Number = std::uint64_t;  // of a keeper; a key names one keeper after the other
    struct Keeper;
    struct Child {
        pid_t pid;
        int pidfd;
    };
    void on_packet(Number number);
    void take(Keeper& keeper, const std::string& packet);
    void take_answer(Keeper& keeper, std::uint64_t order, const Answer& answer);
    void let_go(Keeper& keeper);
    void on_silence(Number number);
    void lost(Number number);
    void await_answer(Keeper& keeper);
    void close_socket(Keeper& keeper);
    void reap(Number number);

    net::Loop& loop_;
    std::string program_;
    KeeperEvents events_;
    std::int64_t patience_ms_;
    std::map<Number, std::unique_ptr<Keeper>> keepers_;  // those that answer, or may yet
    std::map<std::string, Number> current_;              // by the key of the template: those that take orders
    std::map<Number, Child> children_;                   // keepers as processes: to be reaped
    Number last_keeper_ = 0;
    std::uint64_t last_order_ = 0;
};

}  // namespace rtrain::agent
