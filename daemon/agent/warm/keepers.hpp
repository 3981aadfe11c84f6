// Starts the keepers of this agent, one for each template, sends them orders and ends them. A keeper with workers
// outlives the agent. The next agent adopts these workers as it does those of shims, and sends the keeper no order.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/agent/warm/template_spec.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

// Both texts are empty if the agent ended the template, or if the template refused an order that does not fit.
struct TemplateEnd {
    std::string unfit{};   // why the process could not become a template
    std::string failed{};  // the failure of the template or of its keeper
};
struct KeeperEvents {
    std::function<void(const std::string& key, std::int64_t pid, std::int64_t bytes)>
        ready;  // pid and memory are the template's
    std::function<void(const std::string& key, const TemplateEnd&)> ended;
};

class Keepers {
  public:
    // Above the keeper's own deadlines of 10 s.
    static constexpr std::int64_t usual_patience_ms = 60'000;

    // `program` has the verb __keeper; usually /proc/self/exe. `patience_ms` bounds the time to a keeper's next answer.
    Keepers(net::Loop& loop, std::string program, KeeperEvents events, std::int64_t patience_ms = usual_patience_ms);
    ~Keepers();
    Keepers(const Keepers&) = delete;
    Keepers& operator=(const Keepers&) = delete;

    // `log` is the file for the output of the template.
    Status begin(const TemplateSpec& spec, const std::string& log);
    // Ends the template. The keeper still carries out or refuses the orders that were sent before.
    void end(const std::string& key);
    struct Answer {
        pid_t sentinel = 0;  // for Launcher::watch_forked; 0: refused, and no worker runs
        std::string why{};
    };
    struct ForkEvents {
        std::function<void(const Answer&)> answered;  // once, after `fork_worker` has returned
        // Called before `answered` if the keeper is silent and must not be ended, with the reason of the wait.
        std::function<void(const std::string& why)> waits = [](const std::string&) {};
    };
    void fork_worker(const std::string& key, const WorkerStart& worker, const WarmStart& start, ForkEvents events);

  private:
    using Number = std::uint64_t;  // a keeper's number; the keepers of one key follow each other
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
    std::map<Number, std::unique_ptr<Keeper>> keepers_;  // keepers whose answers may still arrive
    std::map<std::string, Number> current_;              // the keepers that take orders, by the key of the template
    std::map<Number, Child> children_;                   // processes of keepers that are not reaped yet
    Number last_keeper_ = 0;
    std::uint64_t last_order_ = 0;
};

}  // namespace rtrain::agent
