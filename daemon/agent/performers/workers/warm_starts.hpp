// Forks a worker from its template, or starts it plainly if no template fits. Makes and ends the templates that the
// machine orders. Unused with --no-warm.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/agent/warm/keepers.hpp"

namespace rtrain::agent {

class WarmStarts {
  public:
    struct Uses {
        net::Loop& loop;  // descriptors of keepers
        Inputs inputs;
        const AgentState& state;
        const ThisNode& node;
        Launcher& launcher;
    };
    explicit WarmStarts(const Uses& uses);

    // Called before the starts of an attempt, with the number of its ranks on this node.
    void expect(AttemptKey key, std::size_t ranks);
    void start(const WorkerStart& worker, const TemplateChoice& choice);
    void not_started(AttemptKey key, std::uint32_t rank) { choose(key, rank, ""); }

    void start_template(const StartTemplate& out);
    void end_template(const EndTemplate& out) { keepers_.end(out.key); }

  private:
    // How the ranks of an attempt were started. One notice names all of them, once the last is known. A rank with an
    // empty `how` counts, and is not in the notice.
    struct Chosen {
        std::size_t left = 0;
        std::map<std::string, std::vector<std::uint32_t>> ranks;
    };
    KeeperEvents events();
    void make_ahead();  // the templates of the agent before this one
    void keep_ready();
    void choose(AttemptKey key, std::uint32_t rank, const std::string& how);
    void start_plainly(const WorkerStart& worker, const std::string& why);
    std::string why_no_template(const TemplateSpec& spec) const;
    void tell_wait(const WorkerStart& worker, const std::string& why);
    void forget_specs();
    void log_unfit(const std::string& key, const std::string& why);  // logs the same reason once

    Uses uses_;
    std::map<std::string, TemplateSpec> specs_;  // the environments in use, by key
    std::map<std::string, std::string> unfit_;   // why no template could be made, by key
    std::set<std::string> ready_;                // templates, by key
    std::map<AttemptKey, Chosen> chosen_;
    std::map<std::uint64_t, std::string> reported_;  // how the last attempt of a run was started, by the run's number
    Keepers keepers_;
};

}  // namespace rtrain::agent
