// The fate of reported checkpoints, and the checkpoint to resume from.
#include "runtime/worker/rank/checkpoints.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;

namespace {

Report saved(std::uint64_t index, Upload upload = Upload::async) {
    return {.index = index,
            .metrics_json = R"({"step":)" + std::to_string(index) + "}",
            .checkpoint = StagedFiles{.path = "/stage"},
            .upload = upload};
}

using Indexes = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a committed checkpoint with its metrics is the one to resume from") {
    Checkpoints checkpoints;
    checkpoints.on_message(ResumeFrom{.path = "/runs/c0", .directory = "c0"});
    checkpoints.on_message(ResumeFrom{.path = "/runs/c9", .directory = "c9"});
    CHECK(checkpoints.newest()->directory == "c0");
    checkpoints.reported(saved(1));
    CHECK_FALSE(checkpoints.all_committed());
    checkpoints.on_message(Reported{.index = 1, .directory = "c1"});
    CHECK(checkpoints.promised() == 1);
    CHECK_FALSE(checkpoints.is_settled(1));
    checkpoints.on_message(Committed{.index = 1, .directory = "c1", .path = "/runs/c1"});
    CHECK(checkpoints.is_settled(1));
    CHECK(checkpoints.all_committed());
    CHECK(*checkpoints.newest() == ResumeFrom{.path = "/runs/c1", .directory = "c1", .metrics_json = R"({"step":1})"});
    CHECK(checkpoints.first()->directory == "c0");
}

TEST_CASE("a failed upload is returned once and leaves the checkpoint before") {
    Checkpoints checkpoints;
    checkpoints.reported(saved(1));
    checkpoints.on_message(Committed{.index = 1, .error = "no route to the store"});
    CHECK(checkpoints.all_committed());
    CHECK(checkpoints.take_fault() == "the checkpoint of report 1 could not be stored: no route to the store");
    CHECK(checkpoints.take_fault() == std::nullopt);
    CHECK_FALSE(checkpoints.newest());
}

TEST_CASE("a checkpoint that was given up is not awaited") {
    Checkpoints checkpoints;
    checkpoints.reported(saved(1));
    checkpoints.reported(saved(2));
    checkpoints.given_up(1);
    CHECK(checkpoints.awaited() == Indexes{2});
    checkpoints.on_message(Committed{.index = 2});
    CHECK(checkpoints.all_committed());
    CHECK_FALSE(checkpoints.newest());
}

TEST_CASE("reports without stored files are not awaited") {
    Checkpoints checkpoints;
    checkpoints.reported({.index = 1, .metrics_json = "{}"});
    checkpoints.reported(saved(2, Upload::none));
    CHECK(checkpoints.all_committed());
}

TEST_CASE("another rank's checkpoint is awaited over a new connection") {
    Checkpoints checkpoints;
    checkpoints.reported({.index = 5, .metrics_json = "{}"});
    checkpoints.on_message(Reported{.index = 5, .directory = "c5"});
    CHECK(checkpoints.all_committed());
    CHECK(checkpoints.awaited() == Indexes{5});
    checkpoints.on_message(Reported{.index = 5, .directory = ""});  // The storage does not accept it at present.
    CHECK(checkpoints.is_settled(5));
    CHECK(checkpoints.awaited().empty());
}
