// Entrypoints written as one string.
#include "daemon/agent/entrypoint.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain::agent;

namespace {
std::string run_as(const std::string& text) { return without_shell_layer({"sh", "-c", text}, "/usr/bin:/bin").at(2); }
}  // namespace

TEST_CASE("a plain command replaces its shell, so that its death is its own") {
    CHECK(run_as("sleep 5") == "exec sleep 5");
    CHECK(run_as("sleep \"$SECONDS_LEFT\"") == "exec sleep \"$SECONDS_LEFT\"");
    CHECK(run_as("./train --lr 0.1") == "exec ./train --lr 0.1");
}

TEST_CASE("what needs a shell keeps it") {
    for (const std::string text :
         {"sleep 1; sleep 2", "sleep 1 && true", "sleep 1 | cat", "sleep 1 > out", "A=1 sleep 1", "exit 3",
          "no-such-program x", "", "   ", "$PROGRAM x", "(sleep 1)", "sleep 1 &"}) {
        CHECK(run_as(text) == text);
    }
    CHECK(without_shell_layer({"python", "-c", "x"}, "/usr/bin") == std::vector<std::string>{"python", "-c", "x"});
}
