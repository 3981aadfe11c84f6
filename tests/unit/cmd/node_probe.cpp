// The reading of the line that a node's program prints for `rtrain doctor --cluster`.
#include "cmd/client/node_probe.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::cmd;

namespace {

NodeAnswer read_line(const std::string& line, std::int64_t begun_ms = 1'000, std::int64_t ended_ms = 2'000) {
    NodeAnswer answer;
    read_answer(line, begun_ms, ended_ms, answer);
    return answer;
}

}  // namespace

TEST_CASE("a node's line is read") {
    const NodeAnswer answer = read_line(
        R"({"python": "3.11.2", "executable": "/usr/bin/python", "torch": "2.13.0", "accelerator": "CUDA 13.0",
            "rtrain": "0.1.0", "gpus": 8, "time_ms": 1500, "unreachable": ["n2:7434: refused"]})");
    CHECK(answer.failed.empty());
    CHECK(answer.python == "3.11.2");
    CHECK(answer.executable == "/usr/bin/python");
    CHECK(answer.torch == "2.13.0");
    CHECK(answer.accelerator == "CUDA 13.0");
    CHECK(answer.rtrain == "0.1.0");
    CHECK(answer.drivers_gpus == 8);
    CHECK(answer.ahead_ms == 0);
    CHECK(answer.unreachable == std::vector<std::string>{"n2:7434: refused"});
}

TEST_CASE("a clock outside of the probe's time is ahead or behind") {
    CHECK(read_line(R"({"time_ms": 9000})").ahead_ms == 7'000);
    CHECK(read_line(R"({"time_ms": 400})").ahead_ms == -600);
    CHECK(read_line(R"({"time_ms": 18446744073709551615})").ahead_ms == (std::int64_t{1} << 53) - 2'000);
}

TEST_CASE("a node's line of another form says nothing of the node") {
    CHECK(read_line("no json").failed == "the line of the program there is not JSON");
    CHECK(read_line("[1]").failed == "the line of the program there is not JSON");
    const NodeAnswer answer =
        read_line(R"({"python": 3, "torch": null, "gpus": -1, "time_ms": "now", "unreachable": "all"})");
    CHECK(answer.python.empty());
    CHECK(answer.torch.empty());
    CHECK(answer.drivers_gpus == -1);
    CHECK(answer.ahead_ms == 0);
    CHECK(answer.unreachable.empty());
}

TEST_CASE("a node's texts are cut and lose their control characters") {
    CHECK(read_line(R"({"torch": "2\u001b[31m\n"})").torch == "2 [31m ");
    CHECK(read_line("{\"torch\": \"" + std::string(100'000, 'x') + "\"}").torch.size() == 200);
    std::string many = "{\"unreachable\": [\"a\"";
    for (int i = 0; i < 1'000; ++i) many += ",\"a\"";
    CHECK(read_line(many + "]}").unreachable.size() == 32);
}
