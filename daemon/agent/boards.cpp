#include "daemon/agent/boards.hpp"

namespace rtrain::agent {

std::optional<Boards::Place> Boards::offer(AttemptKey attempt, std::uint32_t rank,
                                           const std::set<std::uint32_t>& ranks) {
    if (!ranks.contains(rank)) return std::nullopt;
    auto found = boards_.find(attempt);
    if (found == boards_.end()) {
        auto board = worker::Board::create(static_cast<std::uint32_t>(ranks.size()));
        if (!board) return std::nullopt;
        found = boards_.try_emplace(attempt, std::move(*board)).first;
        std::uint32_t seat = 0;
        for (const std::uint32_t one : ranks) found->second.seats[one] = seat++;
    }
    left(attempt, rank);
    const std::uint32_t seat = found->second.seats.at(rank);
    found->second.board.clear(seat);
    return Place{.descriptor = found->second.board.descriptor(), .seat = seat};
}

Boards::OfAttempt* Boards::find(AttemptKey attempt, std::uint32_t rank) {
    const auto found = boards_.find(attempt);
    return found != boards_.end() && found->second.present.contains(rank) ? &found->second : nullptr;
}

// Who comes or goes in the middle of a report is not counted right: until the next answer to all, each one rings.
void Boards::taken(AttemptKey attempt, std::uint32_t rank) {
    const auto found = boards_.find(attempt);
    if (found == boards_.end()) return;
    found->second.present.insert(rank);
    found->second.board.await(0);
}

void Boards::left(AttemptKey attempt, std::uint32_t rank) {
    OfAttempt* one = find(attempt, rank);
    if (!one) return;
    one->present.erase(rank);
    one->answers.erase(rank);
    one->board.await(0);
}

bool Boards::answer(AttemptKey attempt, std::uint32_t rank, std::uint64_t index) {
    OfAttempt* one = find(attempt, rank);
    if (!one) return false;
    one->answers[rank] = index;
    one->news = true;
    return true;
}

void Boards::letter(AttemptKey attempt, std::uint32_t rank) {
    OfAttempt* one = find(attempt, rank);
    if (!one) return;
    one->board.letter(one->seats.at(rank));
    one->news = true;
}

// How many are to come is written before anybody can come.
void Boards::ring() {
    for (auto& [key, one] : boards_) {
        if (!one.news) continue;
        const bool all = one.answers.size() == one.present.size();
        if (!one.answers.empty()) one.board.await(all ? static_cast<std::uint32_t>(one.present.size()) : 0);
        for (const auto& [rank, index] : one.answers) one.board.answer(one.seats.at(rank), index);
        one.answers.clear();
        one.news = false;
        one.board.ring();
    }
}

void Boards::take(AttemptKey attempt, const Hear& hear) {
    const auto found = boards_.find(attempt);
    if (found == boards_.end()) return;
    std::vector<std::pair<std::uint32_t, worker::Board::Posted>> posted;  // hearing one may close the board
    for (const auto& [rank, seat] : found->second.seats)
        if (auto one = found->second.board.take(seat)) posted.emplace_back(rank, std::move(*one));
    for (const auto& [rank, one] : posted) hear(rank, one);
}

}  // namespace rtrain::agent
