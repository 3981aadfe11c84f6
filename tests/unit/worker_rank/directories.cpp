// Staging directories of a rank: requested, given to the program, and spare.
#include "runtime/worker/rank/directories.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;

TEST_CASE("a requested directory is answered once") {
    StagingDirectories directories;
    directories.request();
    CHECK(directories.is_requested());
    directories.on_message({.path = "/stage/a"});
    CHECK_FALSE(directories.is_requested());
    CHECK(directories.answer().path == "/stage/a");
    directories.request();
    CHECK(directories.answer().path.empty());
    directories.withdraw_request();
    CHECK_FALSE(directories.is_requested());
}

TEST_CASE("an answer without a directory has a reason") {
    StagingDirectories directories;
    directories.request();
    directories.on_message({.path = "", .error = "the disk is full", .reason = "storage_full"});
    CHECK(directories.answer().error == "the disk is full");
    directories.request();
    directories.on_message({.path = ""});
    CHECK(directories.answer().error == "the agent could not make a checkpoint directory");
}

TEST_CASE("a directory of the program is taken back once") {
    StagingDirectories directories;
    directories.give_to_program("/stage/a");
    CHECK_FALSE(directories.take_from_program("/stage/b"));
    CHECK(directories.take_from_program("/stage/a"));
    CHECK_FALSE(directories.take_from_program("/stage/a"));
}

TEST_CASE("two spare directories are requested, and at most four are kept") {
    StagingDirectories directories;
    CHECK(directories.request_spares() == 2);
    CHECK(directories.request_spares() == 0);
    directories.on_message({.path = "/spare/1", .spare = true});
    CHECK(directories.request_spares() == 0);
    directories.on_message({.path = "", .error = "no room", .spare = true});
    CHECK(directories.request_spares() == 1);
    directories.forget_spare_requests();
    CHECK(directories.request_spares() == 1);
    CHECK(directories.add_spare("/spare/2"));
    CHECK(directories.add_spare("/spare/3"));
    CHECK(directories.add_spare("/spare/4"));
    CHECK_FALSE(directories.add_spare("/spare/5"));
    CHECK(directories.take_spare() == "/spare/4");
}

TEST_CASE("a spare directory does not answer a request of the program") {
    StagingDirectories directories;
    directories.request();
    directories.on_message({.path = "/spare/1", .spare = true});
    CHECK(directories.is_requested());
    CHECK(directories.take_spare() == "/spare/1");
    CHECK(directories.take_spare() == std::nullopt);
}
