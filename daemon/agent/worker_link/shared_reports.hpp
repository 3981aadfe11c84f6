// The agent's side of shared report memory (runtime/worker/frames/report_memory.hpp): one for each attempt whose
// workers use it, with a ring of slots for each rank. Answers are collected, so that a round of answers needs one
// wake-up.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "daemon/agent/machine/messages.hpp"
#include "runtime/worker/frames/report_memory.hpp"

namespace rtrain::agent {

// A round of reports is completed by the agent, or by the ranks themselves before the agent has read it. The ranks may
// do so if they are all ranks of the attempt, and if nothing but their arrival decides.
enum class Rounds { by_agent, by_ranks };

class SharedReports {
  public:
    struct Place {
        int descriptor = -1;
        std::uint32_t ring = 0;
    };
    std::optional<Place> offer(AttemptKey attempt, std::uint32_t rank, const std::set<std::uint32_t>& ranks, Rounds);
    void taken(AttemptKey attempt, std::uint32_t rank);  // the rank reads its ring from now on
    void left(AttemptKey attempt, std::uint32_t rank);
    void close(AttemptKey attempt) { attempts_.erase(attempt); }

    // False if the rank does not read its ring.
    bool answer(AttemptKey attempt, std::uint32_t rank, std::uint64_t index);
    void notice(AttemptKey attempt, std::uint32_t rank);
    bool beat();  // signals to the ranks that this agent lives; false if there are none
    void wake();  // wakes the ranks of all attempts with news

    // Returns the messages that the ranks have posted, round by round.
    struct Message {
        AttemptKey attempt;
        std::uint32_t rank = 0;
        worker::ReportMemory::Posted posted;
    };
    std::vector<Message> take();

  private:
    struct Ring {
        std::uint32_t number = 0;
        std::uint64_t taken = 0;  // number of the last report taken
        bool present = false;     // the rank reads its ring
    };
    struct OfAttempt {
        OfAttempt(worker::ReportMemory report_memory, Rounds who) : memory(std::move(report_memory)), rounds(who) {}
        worker::ReportMemory memory;
        Rounds rounds;
        std::map<std::uint32_t, Ring> rings;             // by rank
        std::map<std::uint32_t, std::uint64_t> answers;  // answers not sent yet, by rank
        bool news = false;
    };
    Ring* find(AttemptKey attempt, std::uint32_t rank, OfAttempt*& of);  // null if the rank has no ring
    static void write_answers(OfAttempt&);
    std::map<AttemptKey, OfAttempt> attempts_;
};

}  // namespace rtrain::agent
