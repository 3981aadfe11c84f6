// See causes.hpp.
#include "scheduler/model/causes.hpp"

#include <algorithm>

#include "scheduler/model/limits.hpp"

namespace rtrain {
namespace {

constexpr std::size_t cause_bytes_least = 64;  // bytes for a rank among thousands: its first words

bool within_character(const std::string& text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

}  // namespace

std::string cut_text(std::string text, std::size_t most) {
    if (text.size() <= most) return text;
    const auto mark = [](std::size_t bytes) { return " [... " + std::to_string(bytes) + " bytes left out ...] "; };
    const std::size_t room = most - std::min(most, mark(text.size()).size());
    std::size_t head = room * 3 / 4, tail = text.size() - room / 4;
    while (head > 0 && within_character(text, head)) --head;
    while (tail < text.size() && within_character(text, tail)) ++tail;
    return text.substr(0, head) + mark(tail - head) + text.substr(tail);
}

std::size_t cause_bytes_of(const Run& run, const Attempt& attempt, Time now) {
    const std::size_t of_rank =
        std::clamp(limits::causes_bytes_of_attempt / std::max<std::size_t>(attempt.workers.size(), 1),
                   cause_bytes_least, limits::cause_bytes);
    const bool quick = attempt.started_at.ms == 0 || now - attempt.started_at < limits::progress_after;
    const bool of_series = quick && run.failures >= limits::failures_whole;
    return std::min(attempt.first_failure ? of_rank : limits::cause_bytes,
                    of_series ? limits::cause_bytes_of_older : limits::cause_bytes);
}

namespace core {

bool cut_causes(Attempt& attempt, std::size_t most, std::size_t others) {
    const std::size_t each = std::min(most, others / std::max<std::size_t>(attempt.workers.size(), 1));
    bool cut = false;
    for (std::uint32_t rank = 0; rank < attempt.workers.size(); ++rank) {
        if (!attempt.workers[rank].exit) continue;
        std::string& detail = attempt.workers[rank].exit->detail;
        const std::size_t room = attempt.first_failure == Rank{rank} ? most : each;
        if (detail.size() <= room) continue;
        detail = room < cause_bytes_least ? std::string() : cut_text(std::move(detail), room);
        detail.shrink_to_fit();
        cut = true;
    }
    Reason cause = cut_to(attempt.cause, most);
    cut = cut || cause != attempt.cause;
    attempt.cause = std::move(cause);
    return cut;
}

}  // namespace core
}  // namespace rtrain
