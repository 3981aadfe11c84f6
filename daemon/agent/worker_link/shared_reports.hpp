// The agent's side of shared report memory (runtime/worker/frames/report_memory.hpp): one for each attempt whose
// workers use it, with a ring of slots for each rank. What is to be told at it is gathered, so that a round of answers
// is one wake-up.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "daemon/agent/machine/messages.hpp"
#include "runtime/worker/frames/report_memory.hpp"

namespace rtrain::agent {

// A round of reports is passed by the agent, or by the ranks themselves before the agent has heard of it. The ranks may
// do so where they are all ranks of the attempt, and nothing but their arrival decides.
enum class Rounds { by_agent, by_ranks };

class SharedReports {
  public:
    struct Place {
        int descriptor = -1;
        std::uint32_t ring = 0;
    };
    std::optional<Place> offer(AttemptKey attempt, std::uint32_t rank, const std::set<std::uint32_t>& ranks, Rounds);
    void taken(AttemptKey attempt, std::uint32_t rank);  // it looks at its ring now
    void left(AttemptKey attempt, std::uint32_t rank);
    void close(AttemptKey attempt) { attempts_.erase(attempt); }

    bool answer(AttemptKey attempt, std::uint32_t rank, std::uint64_t index);  // false: it does not look here
    void notice(AttemptKey attempt, std::uint32_t rank);
    bool beat();  // tells ranks that this agent lives; false: there are none
    void wake();  // the ranks of all attempts for which there is something new

    // What the ranks have posted, round by round.
    struct Message {
        AttemptKey attempt;
        std::uint32_t rank = 0;
        worker::ReportMemory::Posted posted;
    };
    std::vector<Message> take();

  private:
    struct Ring {
        std::uint32_t number = 0;
        std::uint64_t taken = 0;  // up to this report
        bool present = false;     // the rank looks at it
    };
    struct OfAttempt {
        OfAttempt(worker::ReportMemory report_memory, Rounds who) : memory(std::move(report_memory)), rounds(who) {}
        worker::ReportMemory memory;
        Rounds rounds;
        std::map<std::uint32_t, Ring> rings;             // by rank
        std::map<std::uint32_t, std::uint64_t> answers;  // by rank, not told yet
        bool news = false;
    };
    Ring* find(AttemptKey attempt, std::uint32_t rank, OfAttempt*& of);  // null: this rank uses none
    static void write_answers(OfAttempt&);
    std::map<AttemptKey, OfAttempt> attempts_;
};

}  // namespace rtrain::agent
