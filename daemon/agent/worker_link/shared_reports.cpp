#include "daemon/agent/worker_link/shared_reports.hpp"

#include <algorithm>

namespace rtrain::agent {

std::optional<SharedReports::Place> SharedReports::offer(AttemptKey attempt, std::uint32_t rank,
                                                         const std::set<std::uint32_t>& ranks, Rounds rounds) {
    if (!ranks.contains(rank)) return std::nullopt;
    auto entry = attempts_.find(attempt);
    if (entry == attempts_.end()) {
        auto memory = worker::ReportMemory::create(static_cast<std::uint32_t>(ranks.size()));
        if (!memory) return std::nullopt;
        entry = attempts_.try_emplace(attempt, std::move(*memory), rounds).first;
        std::uint32_t number = 0;
        for (const std::uint32_t owner : ranks) entry->second.rings[owner] = Ring{.number = number++};
    }
    left(attempt, rank);
    Ring& ring = entry->second.rings.at(rank);
    entry->second.memory.clear(ring.number);
    ring.taken = 0;
    return Place{.descriptor = entry->second.memory.descriptor(), .ring = ring.number};
}

SharedReports::Ring* SharedReports::find(AttemptKey attempt, std::uint32_t rank, OfAttempt*& of) {
    const auto entry = attempts_.find(attempt);
    if (entry == attempts_.end()) return nullptr;
    of = &entry->second;
    const auto ring = of->rings.find(rank);
    return ring != of->rings.end() && ring->second.present ? &ring->second : nullptr;
}

// Records that a rank uses its ring. Until the next answer to all ranks, each rank notifies the agent, since ranks may
// differ in how they notify during a report.
void SharedReports::taken(AttemptKey attempt, std::uint32_t rank) {
    const auto entry = attempts_.find(attempt);
    if (entry == attempts_.end()) return;
    if (const auto ring = entry->second.rings.find(rank); ring != entry->second.rings.end())
        ring->second.present = true;
    entry->second.memory.each_notifies();
}

void SharedReports::left(AttemptKey attempt, std::uint32_t rank) {
    OfAttempt* of = nullptr;
    Ring* ring = find(attempt, rank, of);
    if (!ring) return;
    ring->present = false;
    of->answers.erase(rank);
    of->memory.each_notifies();
}

bool SharedReports::answer(AttemptKey attempt, std::uint32_t rank, std::uint64_t index) {
    OfAttempt* of = nullptr;
    if (!find(attempt, rank, of)) return false;
    of->answers[rank] = index;
    return true;
}

void SharedReports::notice(AttemptKey attempt, std::uint32_t rank) {
    OfAttempt* of = nullptr;
    const Ring* ring = find(attempt, rank, of);
    if (!ring) return;
    of->memory.count_message(ring->number);
    of->news = true;
}

// Writes the collected answers: passes the round for all ranks at once if all have the same answer, else writes to each
// rank's ring.
void SharedReports::write_answers(OfAttempt& of) {
    const std::uint64_t index = of.answers.begin()->second;
    const bool same =
        std::all_of(of.answers.begin(), of.answers.end(), [&](const auto& answer) { return answer.second == index; });
    if (same && of.answers.size() == of.rings.size()) {
        of.news = of.memory.pass(index, of.rounds == Rounds::by_ranks) || of.news;
    } else {
        for (const auto& [rank, answer] : of.answers) of.memory.answer(of.rings.at(rank).number, answer);
        of.news = true;
    }
    of.answers.clear();
}

bool SharedReports::beat() {
    for (auto& [key, of] : attempts_) of.memory.beat();
    return !attempts_.empty();
}

void SharedReports::wake() {
    for (auto& [key, of] : attempts_) {
        if (!of.answers.empty()) write_answers(of);
        if (of.news) of.memory.wake_all();
        of.news = false;
    }
}

std::vector<SharedReports::Message> SharedReports::take() {
    std::vector<Message> all;
    for (auto& [attempt, of] : attempts_) {
        const auto first = static_cast<std::ptrdiff_t>(all.size());
        for (auto& [rank, ring] : of.rings)
            of.memory.take(ring.number, ring.taken, [&, of_rank = rank](worker::ReportMemory::Posted posted) {
                all.push_back({attempt, of_rank, std::move(posted)});
            });
        std::stable_sort(all.begin() + first, all.end(),
                         [](const Message& a, const Message& b) { return a.posted.index < b.posted.index; });
    }
    return all;
}

}  // namespace rtrain::agent
