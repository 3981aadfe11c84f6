// Fuzzes shared report memory: workers write anything into it, at any time between two reads of the agent.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "daemon/agent/worker_link/shared_reports.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;

namespace {

constexpr std::size_t ranks_most = 3;

// Copies the input over the memory, from `at` on.
void scribble(char* page, std::size_t bytes, std::size_t at, std::string_view what) {
    std::memcpy(page + at, what.data(), std::min(what.size(), bytes - at));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input = fuzz::text_of(data, size);
    const agent::AttemptKey attempt{};
    const auto rounds = fuzz::take_choice(input) % 2 ? agent::Rounds::by_ranks : agent::Rounds::by_agent;
    agent::SharedReports reports;
    std::set<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < ranks_most; ++rank) ranks.insert(rank * 2);
    int descriptor = -1;
    for (const std::uint32_t rank : ranks) {
        const auto place = reports.offer(attempt, rank, ranks, rounds);
        fuzz::promise(place.has_value(), "there is shared memory on this machine");
        descriptor = place->descriptor;
        reports.taken(attempt, rank);
    }
    const auto bytes = static_cast<std::size_t>(::lseek(descriptor, 0, SEEK_END));
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    fuzz::promise(page != MAP_FAILED, "the memory can be mapped");
    while (input.size() >= 4) {
        const std::uint8_t choice = fuzz::take_choice(input);
        const std::size_t place = fuzz::take_choice(input) | std::size_t{fuzz::take_choice(input)} << 8;
        const std::size_t length = std::min<std::size_t>(fuzz::take_choice(input), input.size());
        scribble(static_cast<char*>(page), bytes, place * 8 % bytes, input.substr(0, length));
        input.remove_prefix(length);
        for (const auto& heard : reports.take())
            fuzz::promise(heard.posted.frame.size() <= worker::ReportMemory::frame_max, "a frame fits its slot");
        const std::uint32_t rank = choice % ranks_most * 2;
        if (choice & 4) reports.answer(attempt, rank, choice);
        if (choice & 8) reports.notice(attempt, rank);
        if (choice & 16) reports.left(attempt, rank);
        if (choice & 32) reports.wake();
    }
    ::munmap(page, bytes);
    return 0;
}
