#include "daemon/agent/worker_link/boards.hpp"

#include <algorithm>

namespace rtrain::agent {

std::optional<Boards::Place> Boards::offer(AttemptKey attempt, std::uint32_t rank, const std::set<std::uint32_t>& ranks,
                                           Rounds rounds) {
    if (!ranks.contains(rank)) return std::nullopt;
    auto found = boards_.find(attempt);
    if (found == boards_.end()) {
        auto board = worker::Board::create(static_cast<std::uint32_t>(ranks.size()));
        if (!board) return std::nullopt;
        found = boards_.try_emplace(attempt, std::move(*board), rounds).first;
        std::uint32_t number = 0;
        for (const std::uint32_t one : ranks) found->second.seats[one] = Seat{.number = number++};
    }
    left(attempt, rank);
    Seat& seat = found->second.seats.at(rank);
    found->second.board.clear(seat.number);
    seat.taken = 0;
    return Place{.descriptor = found->second.board.descriptor(), .seat = seat.number};
}

Boards::Seat* Boards::find(AttemptKey attempt, std::uint32_t rank, OfAttempt*& of) {
    const auto found = boards_.find(attempt);
    if (found == boards_.end()) return nullptr;
    of = &found->second;
    const auto seat = of->seats.find(rank);
    return seat != of->seats.end() && seat->second.present ? &seat->second : nullptr;
}

// Who comes or goes in the middle of a report may have told of it elsewhere: until the next answer to all, each rings.
void Boards::taken(AttemptKey attempt, std::uint32_t rank) {
    const auto found = boards_.find(attempt);
    if (found == boards_.end()) return;
    if (const auto seat = found->second.seats.find(rank); seat != found->second.seats.end())
        seat->second.present = true;
    found->second.board.each_rings();
}

void Boards::left(AttemptKey attempt, std::uint32_t rank) {
    OfAttempt* of = nullptr;
    Seat* seat = find(attempt, rank, of);
    if (!seat) return;
    seat->present = false;
    of->answers.erase(rank);
    of->board.each_rings();
}

bool Boards::answer(AttemptKey attempt, std::uint32_t rank, std::uint64_t index) {
    OfAttempt* of = nullptr;
    if (!find(attempt, rank, of)) return false;
    of->answers[rank] = index;
    return true;
}

void Boards::letter(AttemptKey attempt, std::uint32_t rank) {
    OfAttempt* of = nullptr;
    const Seat* seat = find(attempt, rank, of);
    if (!seat) return;
    of->board.letter(seat->number);
    of->news = true;
}

// The same answer for all that there are: from the next report on they know who has come.
void Boards::tell_answers(OfAttempt& of) {
    const std::uint64_t index = of.answers.begin()->second;
    const bool same =
        std::all_of(of.answers.begin(), of.answers.end(), [&](const auto& one) { return one.second == index; });
    if (same && of.answers.size() == of.seats.size()) {
        of.news = of.board.pass(index, of.rounds == Rounds::by_ranks) || of.news;
    } else {
        for (const auto& [rank, answer] : of.answers) of.board.answer(of.seats.at(rank).number, answer);
        of.news = true;
    }
    of.answers.clear();
}

void Boards::ring() {
    for (auto& [key, of] : boards_) {
        if (!of.answers.empty()) tell_answers(of);
        if (of.news) of.board.ring();
        of.news = false;
    }
}

std::vector<Boards::Heard> Boards::take() {
    std::vector<Heard> all;
    for (auto& [attempt, of] : boards_) {
        const auto first = static_cast<std::ptrdiff_t>(all.size());
        for (auto& [rank, seat] : of.seats)
            of.board.take(seat.number, seat.taken, [&, of_rank = rank](worker::Board::Posted posted) {
                all.push_back({attempt, of_rank, std::move(posted)});
            });
        std::stable_sort(all.begin() + first, all.end(),
                         [](const Heard& one, const Heard& other) { return one.posted.index < other.posted.index; });
    }
    return all;
}

}  // namespace rtrain::agent
