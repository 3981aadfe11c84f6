// The state that a transcript's commands change: one cluster and its time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/controller.hpp"

namespace rtrain::transcripts {

// "submit big workers=2 gpu=0.5": words in order, and key=value pairs.
struct Command {
    std::string verb;
    std::vector<std::string> words;
    std::map<std::string, std::string> options;

    std::string option(const std::string& key, const std::string& otherwise) const;
    std::int64_t number(const std::string& key, std::int64_t otherwise) const;
};
Command parse_command(const std::string& line);

class Stage {
  public:
    Stage() { cluster_.meta.cluster_id = "c0ffee00"; }
    std::string perform(const Command& command);  // returns the output

  private:
    std::string tell(const Event& event);
    std::string submit(const Command& command);
    std::string planned(const Command& command) const;
    std::string configured(const Command& command);
    std::string registered(const Command& command);
    std::string prepared(const Command& command);
    std::string exited(const Command& command);
    std::string pass(std::int64_t ms);
    std::string table() const;
    std::string node_table() const;
    std::string stopped(const Command& command);
    std::string resized(const Command& command);
    std::string explained(const std::string& name) const;
    const Run* run(const std::string& name) const;
    AttemptId attempt(const std::string& name) const;

    Cluster cluster_;
    Time now_{0};
};

}  // namespace rtrain::transcripts
