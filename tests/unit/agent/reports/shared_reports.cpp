// The shared report memory of an attempt: ranks' messages are taken, and one wake-up answers a round. The other end is
// the worker's own library, also over restarts of the agent.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/agent/reports/reporting.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::test;
using worker::ReportMemory;

namespace {

using Arrival = ReportMemory::Arrival;

std::vector<ReportMemory> rings_of(SharedReports& reports, const std::set<std::uint32_t>& ranks,
                                   Rounds rounds = Rounds::by_agent) {
    std::vector<ReportMemory> rings;
    for (const std::uint32_t rank : ranks) {
        const auto place = reports.offer(attempt, rank, ranks, rounds);
        REQUIRE(place);
        auto ring = ReportMemory::open(place->descriptor, place->ring);
        REQUIRE(ring);
        rings.push_back(std::move(*ring));
        reports.taken(attempt, rank);
    }
    return rings;
}

using Posts = std::vector<std::pair<std::uint32_t, std::string>>;
Posts taken(SharedReports& reports) {
    Posts out;
    for (const SharedReports::Message& one : reports.take()) out.emplace_back(one.rank, one.posted.frame);
    return out;
}

void answer_all(SharedReports& reports, const std::set<std::uint32_t>& ranks, std::uint64_t index) {
    for (const std::uint32_t rank : ranks) REQUIRE(reports.answer(attempt, rank, index));
    reports.wake();
}

Arrival report(ReportMemory& ring, std::uint64_t index, const std::string& frame = "report") {
    return ring.arrive(index, ring.post(index, frame, -1));
}

// Returns the number of report memories that this process has mapped: the agent's, and one for each worker that uses
// it.
int mapped_memories() {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("memfd:rtrain-reports") != std::string::npos;
    return count;
}

}  // namespace

TEST_CASE("what ranks post is taken once, and answers to all are told with one wake-up") {
    SharedReports reports;
    auto rings = rings_of(reports, {4, 5, 9});
    for (ReportMemory& ring : rings)
        CHECK(report(ring, 1) == Arrival::notifies);  // the reporting ranks are unknown yet
    CHECK(taken(reports) == Posts{{4, "report"}, {5, "report"}, {9, "report"}});
    CHECK(taken(reports).empty());
    for (const std::uint32_t rank : {4u, 5u, 9u}) CHECK(reports.answer(attempt, rank, 1));
    CHECK_FALSE(rings[2].released(1));
    const std::uint32_t seen = rings[0].wakeups();
    reports.wake();
    CHECK(rings[0].wakeups() == seen + 1);
    for (const ReportMemory& ring : rings) CHECK(ring.released(1));
    for (const ReportMemory& ring : rings) CHECK(ring.heard() == 1);
    CHECK(report(rings[0], 2) == Arrival::waits);
    CHECK(report(rings[2], 2) == Arrival::waits);
    CHECK(report(rings[1], 2) == Arrival::notifies);
    CHECK_FALSE(rings[1].released(2));
}

TEST_CASE(
    "a rank that came or went in the middle of a round makes each one notify the agent until the next answer to all") {
    SharedReports reports;
    auto rings = rings_of(reports, {0, 1, 2}, Rounds::by_ranks);
    answer_all(reports, {0, 1, 2}, 1);
    CHECK(report(rings[0], 2) == Arrival::waits);
    reports.left(attempt, 2);
    CHECK(report(rings[1], 2) == Arrival::notifies);
    CHECK_FALSE(reports.answer(attempt, 2, 2));  // it is answered over its socket
    reports.answer(attempt, 0, 2);               // only one of two; the other's report came before
    reports.wake();
    CHECK(rings[0].released(2));
    CHECK_FALSE(rings[1].released(2));
    CHECK(report(rings[0], 3) == Arrival::notifies);
    CHECK(rings[2].heard() == 1);
}

TEST_CASE("ranks pass granted rounds by themselves, so far ahead of what the agent has heard and no further") {
    SharedReports reports;
    const std::set<std::uint32_t> ranks{3, 8};
    auto rings = rings_of(reports, ranks, Rounds::by_ranks);
    answer_all(reports, ranks, 1);
    const std::uint64_t end = 1 + ReportMemory::ahead_max;
    Posts posts;
    int notified = 0;
    for (std::uint64_t index = 2; index <= end; ++index) {
        const std::string frame = std::to_string(index);
        CHECK(report(rings[index % 2], index, frame) == Arrival::waits);
        CHECK_FALSE(rings[0].released(index));
        const std::uint32_t seen = rings[0].wakeups();
        const Arrival last = report(rings[1 - index % 2], index, frame);
        CHECK(last != Arrival::waits);
        notified += last == Arrival::notifies;
        CHECK(rings[0].wakeups() == seen + 1);
        CHECK(rings[0].released(index));
        CHECK(rings[1].released(index));
        CHECK_FALSE(rings[1].released(index + 1));
        posts.insert(posts.end(), {{3, frame}, {8, frame}});
    }
    CHECK(notified >= 2);  // at half of the grant, at its end, and at intervals
    CHECK(rings[0].heard() == 1);
    CHECK(report(rings[0], end + 1) == Arrival::waits);
    CHECK(report(rings[1], end + 1) == Arrival::notifies);
    CHECK_FALSE(rings[1].released(end + 1));
    posts.insert(posts.end(), {{3, "report"}, {8, "report"}});
    CHECK(taken(reports) == posts);

    const std::uint32_t seen = rings[0].wakeups();
    answer_all(reports, ranks, end);  // they had passed it, so no rank is woken
    CHECK(rings[0].wakeups() == seen);
    CHECK(rings[0].heard() == end);
    answer_all(reports, ranks, end + 1);
    CHECK(rings[0].wakeups() == seen + 1);
    CHECK(rings[0].released(end + 1));
    CHECK(report(rings[0], end + 2) == Arrival::waits);
    report(rings[1], end + 2);
    CHECK(rings[0].released(end + 2));
}

TEST_CASE("a round with a report that went over the socket is the agent's") {
    SharedReports reports;
    const std::set<std::uint32_t> ranks{0, 1};
    auto rings = rings_of(reports, ranks, Rounds::by_ranks);
    answer_all(reports, ranks, 1);
    CHECK(rings[0].arrive(2, false) == Arrival::waits);
    CHECK(report(rings[1], 2) == Arrival::notifies);
    CHECK_FALSE(rings[1].released(2));
    CHECK(taken(reports) == Posts{{1, "report"}});
    answer_all(reports, ranks, 2);
    CHECK(report(rings[1], 3) == Arrival::waits);
    CHECK(rings[0].arrive(3, false) == Arrival::notifies);
    CHECK_FALSE(rings[0].released(3));
    answer_all(reports, ranks, 3);
    CHECK(report(rings[1], 4) == Arrival::waits);
    CHECK(report(rings[0], 4) != Arrival::waits);
    CHECK(rings[0].released(4));
}

TEST_CASE("many ranks at once pass each round once, with an agent that hears of them all in their order") {
    constexpr std::uint64_t rounds = 2'000;
    constexpr std::uint32_t count = 4;
    SharedReports reports;
    std::set<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < count; ++rank) ranks.insert(rank);
    auto rings = rings_of(reports, ranks, Rounds::by_ranks);
    answer_all(reports, ranks, 1);
    std::atomic<std::uint64_t> slowest_wrong{0};
    std::vector<std::atomic<std::uint64_t>> at(count);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < count; ++rank)
        threads.emplace_back([&, rank] {
            ReportMemory& ring = rings[rank];
            for (std::uint64_t index = 2; index <= rounds; ++index) {
                at[rank] = index;
                const std::string frame = std::to_string(index);
                while (!ring.post(index, frame, -1)) std::this_thread::yield();
                ring.arrive(index, true);
                for (;;) {
                    const std::uint32_t seen = ring.wakeups();
                    if (ring.released(index)) break;
                    ring.wait(seen, std::chrono::milliseconds(200));
                }
                for (const auto& other : at) slowest_wrong += other < index;
            }
        });
    std::map<std::uint32_t, std::uint64_t> heard;
    std::uint64_t wrong = 0, passed = 1;
    const auto until = std::chrono::steady_clock::now() + long_enough * 3;
    while (passed < rounds && std::chrono::steady_clock::now() < until) {
        for (const auto& [rank, text] : taken(reports)) {
            const std::uint64_t before = heard.contains(rank) ? heard[rank] : 1;
            wrong += std::stoull(text) != before + 1;
            heard[rank] = std::stoull(text);
        }
        std::uint64_t least = heard.size() == count ? rounds : 1;
        for (const auto& [rank, index] : heard) least = std::min(least, index);
        if (least > passed) answer_all(reports, ranks, passed = least);
        std::this_thread::yield();
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(passed == rounds);
    CHECK(wrong == 0);
    CHECK(slowest_wrong == 0);
}

TEST_CASE("a frame that is too long, or finds its slot in use, goes over the socket") {
    SharedReports reports;
    auto rings = rings_of(reports, {0});
    CHECK_FALSE(rings[0].post(1, std::string(ReportMemory::frame_max + 1, 'x'), -1));
    CHECK(rings[0].post(2, std::string(ReportMemory::frame_max, 'x'), 17));
    CHECK_FALSE(rings[0].post(2 + ReportMemory::slots, "y", -1));
    rings[0].arrive(2, true);
    const auto heard = reports.take();
    REQUIRE(heard.size() == 1);
    CHECK(heard[0].posted.frame == std::string(ReportMemory::frame_max, 'x'));
    CHECK(heard[0].posted.index == 2);
    CHECK(heard[0].posted.interval_ms == 17);
    CHECK(rings[0].post(2 + ReportMemory::slots, "y", -1));
}

TEST_CASE("a worker that writes the largest numbers everywhere gets no more than its slots read, and no endless look") {
    SharedReports reports;
    const auto place = reports.offer(attempt, 0, {0}, Rounds::by_agent);
    REQUIRE(place);
    reports.taken(attempt, 0);
    const auto bytes = static_cast<std::size_t>(::lseek(place->descriptor, 0, SEEK_END));
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, place->descriptor, 0);
    REQUIRE(page != MAP_FAILED);
    std::memset(page, 0xff, bytes);
    const Posts posts = taken(reports);
    CHECK(posts.size() <= ReportMemory::slots);
    for (const auto& [rank, frame] : posts) CHECK(frame.size() == ReportMemory::frame_max);
    CHECK(taken(reports).empty());
    ::munmap(page, bytes);
}

TEST_CASE("who waits is woken; the memory cannot be cut short, and has no further rings") {
    SharedReports reports;
    const auto place = reports.offer(attempt, 0, {0}, Rounds::by_agent);
    REQUIRE(place);
    CHECK(::ftruncate(place->descriptor, 0) != 0);
    CHECK_FALSE(ReportMemory::open(place->descriptor, 1));
    CHECK_FALSE(reports.offer(attempt, 3, {0}, Rounds::by_agent));
    auto ring = ReportMemory::open(place->descriptor, place->ring);
    REQUIRE(ring);
    reports.taken(attempt, 0);
    const std::uint32_t seen = ring->wakeups();
    CHECK_FALSE(ring->wait(seen, std::chrono::milliseconds(1)));
    bool heard = false;
    std::thread waiting([&] { heard = ring->wait(seen, long_enough); });
    reports.notice(attempt, 0);
    reports.wake();
    waiting.join();
    CHECK(heard);
    CHECK(ring->messages() == 1);
    reports.wake();  // there is no answer
    CHECK(ring->wakeups() == seen + 1);
}

TEST_CASE(
    "two workers' reports pass in shared memory, long ones over the sockets, and all are heard before they close") {
    const Folder folder;
    const std::string path = folder.path + "/sock", note = R"({"a":")" + std::string(2'000, 'x') + "\"}";
    ReportAgent agent(path);
    Reporter first(path, "0"), second(path, "1");
    std::atomic<int> wrong{0};
    const auto work = [&](Reporter& one) {
        for (int i = 1; i <= 300; ++i) wrong += one.report(i % 100 == 50 ? note : metrics_of(i)) != RTW_OK;
    };
    std::thread other([&] { work(second); });
    work(first);
    other.join();
    CHECK(wrong == 0);
    CHECK(mapped_memories() == 3);

    agent.loop.post([&] { agent.server->send(attempt, 1, worker::Wanted{worker::Wish::checkpoint}); });
    agent.loop.post([&] { agent.server->wake(); });
    const auto until = std::chrono::steady_clock::now() + long_enough;
    while (rtw_wanted(second.handle) != 1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(rtw_wanted(second.handle) == 1);
    CHECK(rtw_wanted(first.handle) == 0);

    first.close();
    CHECK(agent.passed == 300);
    second.close();
    agent.end();
    for (int i = 1; i <= 300; ++i)
        for (const std::uint32_t rank : {0u, 1u})
            wrong += agent.reports[static_cast<std::uint64_t>(i)][rank] != (i % 100 == 50 ? note : metrics_of(i));
    CHECK(wrong == 0);
}

TEST_CASE("an agent that ends in the middle of rounds that the ranks have passed leaves none out") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    constexpr int agents = 6, rounds = 3'000;
    auto agent = std::make_unique<ReportAgent>(path);
    Reporter first(path, "0"), second(path, "1");
    std::atomic<int> wrong{0}, at{0};
    const auto work = [&](Reporter& one) {
        for (int i = 1; i <= rounds; ++i) {
            wrong += one.report(metrics_of(i)) != RTW_OK;
            at = i;
        }
    };
    std::thread one([&] { work(first); }), other([&] { work(second); });
    std::map<std::uint64_t, std::map<std::uint32_t, std::string>> reports;
    std::uint64_t had_passed = 0;
    const auto end_agent = [&] {
        agent->end();
        for (auto& [index, ranks] : agent->reports)
            if (index <= agent->passed) reports[index].merge(ranks);
        had_passed = std::max<std::uint64_t>(had_passed, agent->passed);  // the last one may come after all rounds
        agent.reset();
    };
    for (int i = 1; i < agents; ++i) {
        const auto until = std::chrono::steady_clock::now() + long_enough;
        while (at < rounds * i / agents && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        end_agent();
        agent = std::make_unique<ReportAgent>(path);
    }
    one.join();
    other.join();
    CHECK(wrong == 0);
    first.close();
    second.close();
    end_agent();
    CHECK(had_passed == rounds);
    int missing = 0;
    for (int i = 1; i <= rounds; ++i)
        for (const std::uint32_t rank : {0u, 1u})
            missing += reports[static_cast<std::uint64_t>(i)][rank] != metrics_of(i);
    CHECK(missing == 0);
}
