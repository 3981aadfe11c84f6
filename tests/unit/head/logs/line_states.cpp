// Stories of progress bars: which state of a line that is written over a follower gets, and how often.
#include "daemon/head/logs/line_states.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

const LogName rank_0{.run = RunId{1}, .attempt = 1, .rank = 0, .stream = "err"};
const LogName rank_1{.run = RunId{1}, .attempt = 1, .rank = 1, .stream = "err"};

}  // namespace

TEST_CASE("the newest state is the last part that is not blank") {
    CHECK(newest_state("no carriage return") == "");
    CHECK(newest_state("\r  0%|   \r 10%|#  ") == " 10%|#  ");
    CHECK(newest_state("10%\r20%\r") == "20%");                   // print(end="\r")
    CHECK(newest_state("\r100%|###\r        \r") == "100%|###");  // tqdm(leave=False) blanks its bar at the end
    CHECK(newest_state("of DOS\r") == "of DOS");
    CHECK(newest_state("\r\r \r") == "");
    CHECK(newest_state("\r\x1b[31m 50%\x1b[0m of it\x1b[A") == " 50% of it");  // a bar below another one
    CHECK(newest_state("\r\x1b[") == "");
    CHECK(newest_state("a\r" + std::string(5'000, 'x')).size() == 1'000);
}

TEST_CASE("a state is sent once, and the next one of the file 100 ms later") {
    LineStates states(100);
    CHECK(states.next(rank_0, "\r1%", 1'000) == "1%");
    CHECK(states.next(rank_0, "\r1%", 2'000) == std::nullopt);
    CHECK(states.due_ms(2'000) == std::nullopt);
    CHECK(states.next(rank_0, "\r1%\r2%", 2'000) == "2%");
    CHECK(states.next(rank_0, "\r1%\r2%\r3%", 2'010) == std::nullopt);
    CHECK(states.next(rank_1, "\r7%", 2'020) == "7%");  // each rank has its own time
    CHECK(states.due_ms(2'020) == 80);                  // a later call finds the last state
    CHECK(states.next(rank_0, "\r1%\r2%\r3%\r4%", 2'100) == "4%");
    CHECK(states.due_ms(2'100) == std::nullopt);
}

TEST_CASE("a new line of the file begins at once") {
    LineStates states(1'000);
    CHECK(states.next(rank_0, "\r100%", 1'000) == "100%");
    CHECK(states.is_written_over(rank_0));
    CHECK(states.line_ended(rank_0, "\r100%") == "100%");
    CHECK_FALSE(states.is_written_over(rank_0));
    CHECK(states.next(rank_0, "\r100%", 1'001) == "100%");
    CHECK(states.line_ended(rank_0, "0% of it") == "100%");  // the line was cut within a state
    CHECK(states.line_ended(rank_0, "a line") == "");
}
