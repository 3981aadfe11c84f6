// The board of an attempt: what ranks post is taken, and one wake-up answers a round; with the worker's own library at
// the other end, over agents that come and go.
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/agent/worker_server.hpp"
#include "runtime/worker/rtrain_worker.h"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using worker::Board;

namespace {

constexpr AttemptKey attempt{.run = 7, .incarnation = 1};
constexpr std::chrono::milliseconds long_enough{20'000};

std::vector<Board> seated(Boards& boards, const std::set<std::uint32_t>& ranks) {
    std::vector<Board> seats;
    for (const std::uint32_t rank : ranks) {
        const auto place = boards.offer(attempt, rank, ranks);
        REQUIRE(place);
        auto seat = Board::open(place->descriptor, place->seat);
        REQUIRE(seat);
        seats.push_back(std::move(*seat));
        boards.taken(attempt, rank);
    }
    return seats;
}

std::vector<std::pair<std::uint32_t, std::string>> taken(Boards& boards) {
    std::vector<std::pair<std::uint32_t, std::string>> out;
    boards.take(attempt,
                [&](std::uint32_t rank, const Board::Posted& posted) { out.emplace_back(rank, posted.frame); });
    return out;
}

// Boards that this process has mapped: the agent's, and one of each worker that sits at it.
int mapped_boards() {
    std::ifstream maps("/proc/self/maps");
    int found = 0;
    for (std::string line; std::getline(maps, line);) found += line.find("memfd:rtrain-board") != std::string::npos;
    return found;
}

using Posts = std::vector<std::pair<std::uint32_t, std::string>>;

}  // namespace

TEST_CASE("what ranks post is taken once, and answers to all are told with one bell") {
    Boards boards;
    auto seats = seated(boards, {4, 5, 9});
    for (Board& seat : seats) {
        REQUIRE(seat.post("report"));
        CHECK(seat.last_to_come());  // nobody knows yet how many will come: each one rings
    }
    CHECK(taken(boards) == Posts{{4, "report"}, {5, "report"}, {9, "report"}});
    CHECK(taken(boards).empty());
    for (const std::uint32_t rank : {4u, 5u, 9u}) CHECK(boards.answer(attempt, rank, 1));
    CHECK(seats[2].answered() == 0);
    const std::uint32_t seen = seats[0].bell();
    boards.ring();
    CHECK(seats[0].bell() == seen + 1);
    for (const Board& seat : seats) CHECK(seat.answered() == 1);
    CHECK_FALSE(seats[0].last_to_come());
    CHECK_FALSE(seats[2].last_to_come());
    CHECK(seats[1].last_to_come());
}

TEST_CASE("a rank that came or went in the middle of a round makes each one ring until the next answer to all") {
    Boards boards;
    auto seats = seated(boards, {0, 1, 2});
    for (const std::uint32_t rank : {0u, 1u, 2u}) boards.answer(attempt, rank, 1);
    boards.ring();
    CHECK_FALSE(seats[0].last_to_come());
    boards.left(attempt, 2);
    CHECK(seats[1].last_to_come());
    CHECK_FALSE(boards.answer(attempt, 2, 2));  // it is answered over its socket
    boards.answer(attempt, 0, 2);               // only one of two: the other's report came before
    boards.ring();
    CHECK(seats[1].last_to_come());
    CHECK(seats[2].answered() == 1);
}

TEST_CASE("a frame that is too long, or comes before the last one was taken, goes over the socket") {
    Boards boards;
    auto seats = seated(boards, {0});
    CHECK_FALSE(seats[0].post(std::string(Board::frame_max + 1, 'x')));
    CHECK(seats[0].post(std::string(Board::frame_max, 'x')));
    CHECK_FALSE(seats[0].post("y"));
    CHECK(taken(boards) == Posts{{0, std::string(Board::frame_max, 'x')}});
    CHECK(seats[0].post("y"));
}

TEST_CASE("who waits at the board hears its bell; its memory cannot be cut short, and has no further seats") {
    Boards boards;
    const auto place = boards.offer(attempt, 0, {0});
    REQUIRE(place);
    CHECK(::ftruncate(place->descriptor, 0) != 0);
    CHECK_FALSE(Board::open(place->descriptor, 1));
    CHECK_FALSE(boards.offer(attempt, 3, {0}));
    auto seat = Board::open(place->descriptor, place->seat);
    REQUIRE(seat);
    boards.taken(attempt, 0);
    const std::uint32_t seen = seat->bell();
    CHECK_FALSE(seat->wait(seen, std::chrono::milliseconds(1)));
    bool heard = false;
    std::thread waiting([&] { heard = seat->wait(seen, long_enough); });
    boards.letter(attempt, 0);
    boards.ring();
    waiting.join();
    CHECK(heard);
    CHECK(seat->letters() == 1);
    boards.ring();  // nothing to tell
    CHECK(seat->bell() == seen + 1);
}

namespace {

// An agent's sockets with the simplest group behind them: a report passes when both ranks have come.
struct Agent {
    explicit Agent(const std::string& path) {
        auto listening = WorkerServer::listen(loop, path, [this](Input input) {
            std::visit([this](const auto& one) { on(one); }, input);
            server->ring();
        });
        REQUIRE(listening);
        server = std::move(*listening);
        server->admit("run-a1", {attempt, "key"});
        thread = std::thread([this] { loop.run(); });
    }
    ~Agent() {
        loop.post([this] {
            server.reset();
            loop.stop();
        });
        thread.join();
    }
    template <class Other>
    void on(const Other&) {}
    void on(const WorkerJoined& joined) { server->welcome(joined.attempt, joined.rank, worker::Welcome{}, {0, 1}); }
    void on(const WorkerSaid& said) {
        const auto* report = std::get_if<worker::Report>(&said.message);
        if (!report) return;
        if (report->index <= passed) return server->send(attempt, said.rank, worker::Reported{report->index});
        come[said.rank] = *report;
        if (come.size() < 2) return;
        passed = report->index;
        lengths.push_back(come[0].metrics_json.size() + come[1].metrics_json.size());
        come.clear();
        for (const std::uint32_t rank : {0u, 1u}) server->send(attempt, rank, worker::Reported{passed.load()});
    }
    net::Loop loop;
    std::unique_ptr<WorkerServer> server;
    std::map<std::uint32_t, worker::Report> come;
    std::atomic<std::uint64_t> passed{0};
    std::vector<std::size_t> lengths;
    std::thread thread;
};

struct Reporter {
    explicit Reporter(const std::string& socket, const std::string& rank) {
        for (const auto& [name, value] : std::map<std::string, std::string>{{"RTRAIN_WORKER_SOCKET", socket},
                                                                            {"RTRAIN_WORKER_KEY", "key"},
                                                                            {"RTRAIN_ATTEMPT", "run-a1"},
                                                                            {"RANK", rank}})
            ::setenv(name.c_str(), value.c_str(), 1);
        INFO(rtw_last_error());
        REQUIRE(rtw_open(&handle) == RTW_OK);
    }
    ~Reporter() { rtw_close(handle); }
    int report(const std::string& metrics) { return rtw_report_metrics(handle, metrics.c_str()); }
    rtw_worker* handle = nullptr;
};

}  // namespace

TEST_CASE("two workers' reports pass at the board, long ones over the sockets, and a new agent's board is another") {
    const std::string folder =
        (std::filesystem::temp_directory_path() / ("rtrain-board-" + std::to_string(::getpid()))).string();
    std::filesystem::create_directory(folder);
    const std::string path = folder + "/sock", metrics = R"({"a":1})",
                      note = R"({"a":")" + std::string(2'000, 'x') + "\"}";
    auto agent = std::make_unique<Agent>(path);
    Reporter first(path, "0"), second(path, "1");
    std::atomic<int> wrong{0};
    const auto both = [&](auto work) {
        std::thread other([&] { work(second); });
        work(first);
        other.join();
    };
    both([&](Reporter& one) {
        for (int i = 0; i < 300; ++i) wrong += one.report(i % 100 == 50 ? note : metrics) != RTW_OK;
    });
    CHECK(wrong == 0);
    CHECK(agent->passed == 300);
    CHECK(mapped_boards() == 3);
    CHECK(agent->lengths[49] == 2 * metrics.size());
    CHECK(agent->lengths[50] == 2 * note.size());

    agent->loop.post([&] { agent->server->send(attempt, 1, worker::Wanted{worker::Wish::checkpoint}); });
    agent->loop.post([&] { agent->server->ring(); });
    const auto until = std::chrono::steady_clock::now() + long_enough;
    while (rtw_wanted(second.handle) != 1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(rtw_wanted(second.handle) == 1);
    CHECK(rtw_wanted(first.handle) == 0);

    agent.reset();
    agent = std::make_unique<Agent>(path);
    agent->passed = 300;
    both([&](Reporter& one) {
        for (int i = 0; i < 100; ++i) wrong += one.report(metrics) != RTW_OK;
    });
    CHECK(wrong == 0);
    CHECK(agent->passed == 400);
    CHECK(mapped_boards() == 3);
    std::filesystem::remove_all(folder);
}
