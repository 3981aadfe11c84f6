// Users of the simulated cluster. They submit, stop and drain, and repeat a request with the same key until it is
// answered.
#pragma once

#include "tests/sim/world.hpp"

namespace rtrain::sim {

class Users {
  public:
    explicit Users(World& world);
    void begin();
    void answered(const Event& event, const Decision& decision);  // Called when the event is durable.
    bool done() const { return unanswered_.empty(); }
    std::size_t runs() const { return runs_; }  // the number of runs that will be submitted
    void stop_what_waits();                     // Stops runs that could never be placed, once the faults are over.
    void remove_some_run();                     // Removes a run that is over and has no open request.
    void request(const std::string& key, const Event& event);

  private:
    void repeat(const std::string& key);
    RunSubmitted after_another(RunSubmitted event);
    void submit_helper(int index);
    void let_some_yield();

    World& world_;
    std::map<std::string, Event> unanswered_;
    std::set<RunId> removing_;
    std::size_t runs_ = 0;
};

// The behaviour of a run's worker processes, which follows from the seed and the run's name.
struct Script {
    std::uint64_t steps = 5, checkpoint_every = 1;
    std::string checkpoint_name{};  // the same for all reports; empty: the program names none
};
Script script_of(const std::string& run_name);

}  // namespace rtrain::sim
