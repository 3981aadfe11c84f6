// Work of one run in order, and of different runs concurrently.
#include "daemon/head/base/run_locks.hpp"

#include <string>
#include <vector>

#include "tests/unit/catch.hpp"

using namespace rtrain;

TEST_CASE("work of a run begins when the earlier work of the run has ended") {
    head::RunLocks locks;
    std::string begun;
    std::vector<head::RunLocks::Held> held;
    const auto take = [&](std::uint64_t run, char name) {
        locks.take(RunId{run}, [&, name](head::RunLocks::Held lock) {
            begun += name;
            held.push_back(std::move(lock));
        });
    };
    take(1, 'a');
    take(1, 'b');
    take(1, 'c');
    take(2, 'x');
    CHECK(begun == "ax");
    held[0].reset();
    CHECK(begun == "axb");
    held[2].reset();
    CHECK(begun == "axbc");
    held.clear();
    take(1, 'd');
    CHECK(begun == "axbcd");
}

TEST_CASE("a lock that outlives its locks begins nothing") {
    head::RunLocks::Held kept;
    bool begun = false;
    {
        head::RunLocks locks;
        locks.take(RunId{1}, [&](head::RunLocks::Held lock) { kept = std::move(lock); });
        locks.take(RunId{1}, [&](const head::RunLocks::Held&) { begun = true; });
    }
    kept.reset();
    CHECK_FALSE(begun);
}
