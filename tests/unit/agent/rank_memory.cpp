// Stories of a rank's memory, measured on real processes.
#include "daemon/agent/workers/rank_memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/unit/catch.hpp"

using namespace rtrain::agent;

namespace {

constexpr std::int64_t MiB = 1 << 20;

// A process that runs `work` and waits until the test ends it.
class ForkedProcess {
  public:
    explicit ForkedProcess(const std::function<void()>& work) {
        int ready[2];
        REQUIRE(::pipe(ready) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            work();
            [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
            for (;;) ::pause();
        }
        char byte = 0;
        REQUIRE(::read(ready[0], &byte, 1) == 1);
        ::close(ready[0]);
        ::close(ready[1]);
    }
    ~ForkedProcess() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    std::int64_t pid() const { return pid_; }

  private:
    pid_t pid_ = -1;
};

char* touched(std::int64_t bytes, int sharing = MAP_PRIVATE) {
    void* memory =
        ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    std::memset(memory, 1, static_cast<std::size_t>(bytes));
    return static_cast<char*>(memory);
}
void free_memory(char* memory, std::int64_t bytes) { ::munmap(memory, static_cast<std::size_t>(bytes)); }

// True if the amount is about the expected one. The forks share some of this program's own memory.
bool is_about(std::int64_t bytes, std::int64_t expected) {
    static const std::int64_t own = memory_of({::getpid()}, 0).bytes;
    return bytes > expected - 8 * MiB && bytes < expected + own + 8 * MiB;
}

}  // namespace

TEST_CASE("a rank's memory is what its processes have written") {
    const ForkedProcess worker([] { touched(64 * MiB); });
    const auto processes = processes_of_worker(worker.pid());
    CHECK(processes == std::vector<std::int64_t>{worker.pid()});
    const RankMemory memory = memory_of(processes, 32 * MiB);
    CHECK(is_about(memory.bytes, 64 * MiB));
    REQUIRE(memory.largest.size() == 1);
    CHECK(memory.largest[0].pid == worker.pid());
    CHECK_FALSE(memory.largest[0].command.empty());
    CHECK(memory_of(processes, 256 * MiB).largest.empty());
    CHECK(memory_bound(processes) >= memory.bytes);
}

TEST_CASE("forks pay their share of a template's pages, not all of them") {
    char* of_template = touched(96 * MiB);  // this process is the template
    {
        const ForkedProcess first([] { touched(16 * MiB); }), second([] {});
        const RankMemory memory = memory_of({first.pid()}, 0), idle = memory_of({second.pid()}, 0);
        CHECK(is_about(memory.bytes, (96 / 3 + 16) * MiB));
        CHECK(is_about(idle.bytes, 96 / 3 * MiB));
    }
    free_memory(of_template, 96 * MiB);
}

TEST_CASE("loaders of a rank count its memory once, private or shared") {
    for (const int sharing : {MAP_PRIVATE, MAP_SHARED}) {
        const ForkedProcess worker([sharing] {
            touched(64 * MiB, sharing);
            int ready[2];
            if (::pipe(ready) != 0) ::_exit(1);
            for (int loader = 0; loader < 2; ++loader)
                if (::fork() == 0) {
                    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
                    for (;;) ::pause();
                }
            char bytes[2];
            for (std::size_t got = 0; got < 2;) got += static_cast<std::size_t>(::read(ready[0], bytes, 1));
        });
        const auto processes = processes_of_worker(worker.pid());
        CHECK(processes.size() == 3);
        CHECK(is_about(memory_of(processes, 0).bytes, 64 * MiB));
        for (const std::int64_t pid : processes)
            if (pid != worker.pid()) ::kill(static_cast<pid_t>(pid), SIGKILL);
    }
}

TEST_CASE("a rank that grows is measured anew at once") {
    MeasuredRank rank;
    rank.processes = {::getpid()};
    const std::int64_t before = memory_bound(rank.processes);
    CHECK(rank.look(before + 8 * MiB, 0).bytes <= before + MiB);
    char* shared = touched(256 * MiB);
    {
        const ForkedProcess sharer([] {});  // the bound is above the limit, but the amount is not
        const std::int64_t limit = before + 160 * MiB;
        CHECK(rank.look(limit, 0).bytes <= before + 136 * MiB);
        char* more = touched(32 * MiB);
        CHECK(rank.look(limit, 1).bytes > before / 2 + 128 * MiB);
        char* most = touched(160 * MiB);
        const RankMemory above = rank.look(limit, 2);
        CHECK(above.bytes > limit);
        CHECK(above.largest.size() == 1);
        free_memory(most, 160 * MiB);
        free_memory(more, 32 * MiB);
    }
    free_memory(shared, 256 * MiB);
}

TEST_CASE("a process that has ended uses no memory") {
    std::int64_t gone = 0;
    {
        const ForkedProcess worker([] {});
        gone = worker.pid();
    }
    CHECK(memory_of({gone}, 0).bytes == 0);
}
