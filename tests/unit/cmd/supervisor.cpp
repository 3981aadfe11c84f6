// When a daemon is started again, and after which pause.
#include "cmd/daemons/supervisor.hpp"

#include <nlohmann/json.hpp>

#include "tests/unit/catch.hpp"

using namespace rtrain::cmd;

TEST_CASE("a killed daemon is started again within 200 ms, and later each time it dies soon") {
    CHECK(pause_before_restart({.signal = 9}, 0) == 50);
    CHECK(pause_before_restart({.signal = 11, .ran_ms = 100}, 50) == 100);
    CHECK(pause_before_restart({.signal = 9, .ran_ms = 100}, 8'000) == 10'000);
    CHECK(pause_before_restart({.signal = 9, .ran_ms = 10'000}, 8'000) == 50);
}

TEST_CASE("what the next start would end of as well is not started again") {
    for (const int code : {0, 2, 3, 4, 6, 11}) CHECK_FALSE(pause_before_restart({.exit_code = code}, 0));
    for (const int code : {5, 7, 8, 10}) CHECK(pause_before_restart({.exit_code = code}, 0) == 50);
}

TEST_CASE("a daemon's answer that was cut off is an error that names its log") {
    CHECK(answer_of({.pid = 0, .handed_over = R"({"port": 1})"}, "/d/head.log")->at("port") == 1);
    for (const char* torn : {"", R"({"port": 1)", "[1]"}) {
        const auto answer = answer_of({.pid = 0, .handed_over = torn}, "/d/head.log");
        REQUIRE_FALSE(answer);
        CHECK(answer.error().message.find("which is no JSON object") != std::string::npos);
        CHECK(answer.error().next == "read its log, /d/head.log");
    }
}
