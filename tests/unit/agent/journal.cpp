// The rows of a journal on a node: their order, while the storage does not answer, and over restarts of the agent.
#include "daemon/agent/disk/journal.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

struct Storage {
    std::string lines;
    bool away = false;
    Journal::Append append = [this](const std::string& more) -> Status {
        if (away) return Error{ErrorCode::io, "the storage is away", ""};
        lines += more;
        return Done{};
    };
};

std::ptrdiff_t files_below(const std::string& folder) {
    const std::filesystem::directory_iterator files(folder);
    return std::distance(begin(files), end(files));
}

}  // namespace

TEST_CASE("rows of metrics are delivered in their order and then gone from the node") {
    const Folder folder;
    Storage storage;
    Journal journal(folder.path + "/journal");
    CHECK(journal.empty());
    REQUIRE(journal.add("1\n"));
    REQUIRE(journal.add("2\n"));
    CHECK_FALSE(journal.empty());
    REQUIRE(journal.deliver(storage.append));
    CHECK(journal.empty());
    REQUIRE(journal.add("3\n"));
    REQUIRE(journal.deliver(storage.append));
    CHECK(storage.lines == "1\n2\n3\n");
    CHECK(files_below(folder.path + "/journal") == 0);
}

TEST_CASE("rows of metrics wait on the node while the storage is away, and outlive the agent") {
    const Folder folder;
    Storage storage{.away = true};
    {
        Journal journal(folder.path + "/journal");
        REQUIRE(journal.add("1\n"));
        const Status away = journal.deliver(storage.append);
        REQUIRE_FALSE(away);
        CHECK(away.error().message == "the storage is away");
        REQUIRE(journal.add("2\n"));
        REQUIRE_FALSE(journal.deliver(storage.append));
        REQUIRE(journal.add("3\n"));
    }
    storage.away = false;
    Journal next(folder.path + "/journal");
    CHECK_FALSE(next.empty());
    REQUIRE(next.add("4\n"));
    REQUIRE(next.deliver(storage.append));
    CHECK(storage.lines == "1\n2\n3\n4\n");
}

TEST_CASE("rows of metrics for which the node has no room are kept in memory and said so") {
    const Folder folder;
    const std::string place = folder.path + "/journal";
    Storage storage;
    Journal journal(place);
    std::ofstream(place) << "a file where the folder should be";
    CHECK_FALSE(journal.add("1\n"));
    std::filesystem::remove(place);
    CHECK(journal.add("2\n"));  // after the row before, so it is in memory too, and the error was returned already
    CHECK(journal.add("3\n"));
    CHECK_FALSE(std::filesystem::exists(place));
    REQUIRE(journal.deliver(storage.append));
    REQUIRE(journal.add("4\n"));
    CHECK(files_below(place) == 1);
    REQUIRE(journal.deliver(storage.append));
    CHECK(storage.lines == "1\n2\n3\n4\n");
}
