// Orders machines for waiting runs, and releases idle ones, by two commands of the operator. scheduler/autoscale
// decides.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "daemon/head/autoscale/command.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/loop/intake.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::head {

class Autoscaler {
  public:
    // key of the setting with the orders; they are saved, so that a restarted head does not order again
    static constexpr const char* setting = "autoscale/ordered";
    struct Uses {
        net::Loop& loop;
        Intake events;
        const Cluster& cluster;
        const Clock& clock;
        metrics::Metrics& metrics;
        const HeadOptions& options;
        std::function<void(const std::string& node)> leave;  // removes the node from the cluster permanently
    };
    explicit Autoscaler(Uses uses) : uses_(std::move(uses)) {}
    ~Autoscaler() { stop(); }
    // `ordered`: the value of the setting; does nothing if there are no rules for autoscaling
    void start(const std::optional<std::string>& ordered);
    void stop();  // ends a running command
    // True if the node's machine is being released.
    bool releases(const std::string& node) const { return releasing_ == NodeId{node}; }

  private:
    void look();
    void restore(const std::string& saved);
    void drain_if_joined();
    void look_who_joined();
    void act(const NodesNeeded& needed);
    void order(std::uint32_t nodes);
    void drain(const NodeId& node);
    void release(const NodeId& node);
    void release_over(const NodeId& node, CommandResult result);
    // `still`, if set, is called once the orders are durable. The command runs only if it returns true.
    struct Command {
        CommandWish wish;
        std::string action;
        std::function<bool()> still;
        std::function<void(CommandResult, const std::string& output)> then;
    };
    void run(Command command);
    void ended(const Command& command, const Result<CommandEnd>& end);
    void save_orders(std::function<void()> then);
    void note(const std::string& text, const std::string& node = "");
    void later();
    std::string demand() const;  // text about the waiting demand, the input of commands
    std::string joined() const;
    std::string most() const;
    Time from_wall(std::int64_t ms) const;

    Uses uses_;
    AutoscaleState state_;
    std::thread command_;
    std::atomic<bool> give_up_{false};
    bool running_ = false;  // true from the order of a command to the command's end
    bool begun_ = false;    // true if the order is durable and the command has begun
    std::optional<NodeId> releasing_;
};

}  // namespace rtrain::head
