// Checks the invariants of docs/architecture.md over head, agents, processes and storage. It observes each of their
// steps.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/agent/machine/messages.hpp"
#include "scheduler/controller.hpp"
#include "scheduler/goodput/time_by_cause.hpp"
#include "tests/sim/budgets.hpp"
#include "tests/sim/clockwork.hpp"
#include "tests/sim/seats.hpp"
#include "tests/sim/yielding.hpp"

namespace rtrain::sim {

class Oracle {
  public:
    // ---- the head: called for each event that it has decided
    void decided(const Event& event, const Decision& decision, const Cluster& after);
    void forgotten(const Cluster& disk);
    void durable(const Cluster& disk, const Cluster& memory) const;
    void performs(const Effect& effect, const Cluster& disk) const;

    // ---- storage
    void claimed(const std::string& run, std::uint32_t number, const std::string& from);
    void committed(const std::string& run, std::uint32_t attempt, const std::string& directory, std::uint64_t report);
    void deleted(const std::string& run, const std::string& directory);

    // ---- nodes
    void started(const std::string& node, agent::AttemptKey key, std::uint32_t rank);
    void exited(const std::string& node, agent::AttemptKey key, std::uint32_t rank, const ExitCause& cause);
    void reported(agent::AttemptKey key, std::uint32_t rank, std::uint64_t index) { reported_[{key, rank}] = index; }
    void passed(agent::AttemptKey key, std::uint64_t index, std::uint32_t world_size) const;
    // Called when the coordinator receives a checkpoint request, with the number of reports that have passed.
    void asked(agent::AttemptKey key, std::int64_t request, std::uint64_t passed) {
        requested_.try_emplace({key, request}, passed);
    }
    // Called when a rank ends with 0 although other ranks report again. `report` is its last one.
    void returned_early(agent::AttemptKey key, std::uint32_t rank, std::uint64_t report);
    void reported_emptied(const std::string& node, const protocol::AttemptRef& ref);
    void fault(std::uint64_t run) { ++faults_[run]; }  // Notes something that a run may count as a failure.
    void preparation_fault(std::uint64_t run) { ++preparation_faults_[run]; }
    void permanent_fault(std::uint64_t run) { permanent_.insert(run); }

    // ---- users
    bool accepted(const std::string& key, RunId run);  // Returns true for the first time.
    void stop_asked(RunId run) { stop_asked_.insert(run); }
    std::size_t removed() const { return removed_.size(); }
    void ended(const Cluster& disk) const;  // Called when the faults are over and no input is left.

  private:
    void note_end(const Run& run);
    void check_late(const Event& event, const Decision& decision) const;
    bool condition_holds(const After& after, const Cluster& cluster) const;
    void check_blocked(const Run& run, const Cluster& cluster) const;
    void check_answer(const Event& event, const Decision& decision, const Cluster& after) const;
    void check_starts(const Decision& decision, const Cluster& after) const;
    void check_time(const Run& run, const Cluster& after) const;
    bool check_lost_condition(const Run& run, const Cluster& disk) const;
    void check_end_of(const Run& run, const Cluster& disk) const;

    struct Line {                                                     // one run on storage
        std::map<std::uint32_t, std::string> from;                    // the claims
        std::map<std::uint32_t, std::vector<std::string>> committed;  // by attempt, in order, without deleted ones
    };
    std::string newest_live(const Line& line, std::uint32_t below) const;

    SeatWatch seats_;
    BudgetWatch budgets_;
    YieldWatch yielding_;
    std::set<AttemptId> over_;            // attempts that have ended by a decision
    std::map<RunId, RunState> ended_as_;  // The terminal states, which are final.
    std::map<RunId, RunState> removed_;   // the states in which removed runs had ended
    std::map<RunId, std::uint32_t> numbers_;
    std::map<std::pair<std::string, std::uint32_t>, RunId> submitted_;  // by key, and index in an array
    std::map<std::string, Line> lines_;
    std::set<std::string>
        latest_may_go_;  // runs that succeeded and had to keep their latest checkpoint only until then
    std::map<std::pair<std::string, agent::AttemptKey>, std::set<std::uint32_t>> alive_;
    std::set<std::pair<std::string, agent::AttemptKey>> emptied_;
    std::map<std::uint64_t, std::uint32_t> faults_, preparation_faults_;
    std::set<std::uint64_t> permanent_;
    std::map<agent::AttemptKey, std::set<std::uint32_t>> succeeded_;                 // ranks that ended with 0
    std::map<std::pair<agent::AttemptKey, std::uint32_t>, std::uint64_t> reported_;  // by rank: its last report
    // For ranks that returned early: their last report
    std::map<std::pair<agent::AttemptKey, std::uint32_t>, std::uint64_t> returned_early_;
    // The number of reports that had passed at the request
    std::map<std::pair<agent::AttemptKey, std::int64_t>, std::uint64_t> requested_;
    std::map<std::pair<std::string, std::string>, std::uint64_t> report_of_;  // by run and directory
    std::map<std::string, RunId> accepted_;
    std::set<RunId> stop_asked_;
};

}  // namespace rtrain::sim
