// Users of the simulated cluster: they submit, stop, drain, and ask again (with the same key) until they are answered.
#pragma once

#include "tests/sim/world.hpp"

namespace rtrain::sim {

class Users {
  public:
    explicit Users(World& world);
    void begin();
    void answered(const Event& event, const Decision& decision);  // durable
    bool done() const { return unanswered_.empty(); }
    std::size_t runs() const { return runs_; }  // that there will be
    void stop_what_waits();                     // faults are over: what could never be placed is taken back
    void remove_some_run();                     // one that is over, of which nothing more is asked
    void request(const std::string& key, const Event& event);

  private:
    void repeat(const std::string& key);
    RunSubmitted after_another(RunSubmitted event);

    World& world_;
    std::map<std::string, Event> unanswered_;
    std::set<RunId> removing_;
    std::size_t runs_ = 0;
};

// What the worker processes of a run do; a function of the seed and the run's name.
struct Script {
    std::uint64_t steps = 5, checkpoint_every = 1;
    std::string checkpoint_name{};  // the same for all; empty: none is wished
};
Script script_of(const std::string& run_name);

}  // namespace rtrain::sim
