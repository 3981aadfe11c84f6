// The event loop: order, timers, descriptors, signals and blocking work.
#include "daemon/net/loop/loop.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/catch.hpp"

using rtrain::net::Loop;

namespace {

constexpr int deadline_ms = 60'000;

// Runs the loop until stop() is called. Fails the test at a deadline.
void run_bounded(Loop& loop) {
    bool late = false;
    auto timer = loop.after(deadline_ms, [&] {
        late = true;
        loop.stop();
    });
    loop.run();
    loop.cancel(timer);
    REQUIRE_FALSE(late);
}

}  // namespace

TEST_CASE("what is posted runs in order on the loop's thread, also from other threads") {
    Loop loop;
    std::vector<int> seen;
    std::thread::id loop_thread = std::this_thread::get_id();
    std::thread other([&] {
        for (int i = 0; i < 1'000; ++i)
            loop.post([&, i] {
                CHECK(std::this_thread::get_id() == loop_thread);
                seen.push_back(i);
            });
        loop.post([&] { loop.stop(); });
    });
    run_bounded(loop);
    other.join();
    REQUIRE(seen.size() == 1'000);
    CHECK(std::is_sorted(seen.begin(), seen.end()));
}

TEST_CASE("what comes next runs right behind its task, before what was posted earlier") {
    Loop loop;
    std::string order;
    loop.next([&] { order += "0"; });  // without a running task, the order is that of the calls
    loop.post([&] {
        loop.next([&] {
            order += "b";
            loop.next([&] { order += "c"; });
        });
        order += "a";
    });
    loop.post([&] { order += "d"; });
    loop.after(1, [&] {
        loop.next([&] { loop.stop(); });
        order += "e";
    });
    run_bounded(loop);
    CHECK(order == "0abcde");
}

TEST_CASE("the longest task counts with what followed it, on the wall clock and as CPU time") {
    Loop loop;
    CHECK(loop.longest_task().wall_us == 0);
    // The clock is under test, so the test sleeps.
    const auto sleep = [] { usleep(20'000); };
    loop.post([&] {
        sleep();
        loop.next([&] {
            sleep();
            loop.next([&] { loop.stop(); });
        });
    });
    run_bounded(loop);
    const Loop::LongestTask longest = loop.longest_task();
    CHECK(longest.wall_us >= 40'000);
    CHECK(longest.cpu_us <= longest.wall_us - 40'000 + 1'000);  // the task slept for most of its time
    loop.post([&] { loop.stop(); });
    run_bounded(loop);
    CHECK(loop.longest_task().wall_us == longest.wall_us);  // neither a read nor short tasks change it
}

TEST_CASE("timers fire in the order of their times, and a cancelled one never does") {
    Loop loop;
    std::string order;
    loop.after(20, [&] { order += "b"; });
    loop.after(1, [&] { order += "a"; });
    auto gone = loop.after(5, [&] { order += "x"; });
    loop.after(40, [&] { loop.stop(); });
    loop.cancel(gone);
    loop.cancel(gone);
    loop.cancel(4'711);
    run_bounded(loop);
    CHECK(order == "ab");
}

TEST_CASE("a timer may cancel another that is due at the same moment, and itself") {
    Loop loop;
    int fired = 0;
    Loop::TimerId first = 0, second = 0;
    first = loop.after(0, [&] {
        ++fired;
        loop.cancel(first);
        loop.cancel(second);
    });
    second = loop.after(0, [&] { ++fired; });
    loop.after(20, [&] { loop.stop(); });
    run_bounded(loop);
    CHECK(fired == 1);
}

TEST_CASE("a readable descriptor is reported until it is unwatched, and stays open") {
    Loop loop;
    int pipe_ends[2];
    REQUIRE(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) == 0);
    REQUIRE(write(pipe_ends[1], "abc", 3) == 3);
    std::string got;
    loop.watch_readable(pipe_ends[0], [&] {
        char byte = 0;
        // Reads one byte at a time, so that the rest must be reported again.
        REQUIRE(read(pipe_ends[0], &byte, 1) == 1);
        got += byte;
        if (got.size() == 3) {
            loop.unwatch(pipe_ends[0]);
            REQUIRE(write(pipe_ends[1], "d", 1) == 1);
            loop.after(10, [&] { loop.stop(); });
        }
    });
    run_bounded(loop);
    CHECK(got == "abc");
    CHECK(fcntl(pipe_ends[0], F_GETFD) >= 0);
    loop.watch_readable(pipe_ends[0], [&] {
        got += "again";
        loop.unwatch(pipe_ends[0]);
        loop.stop();
    });
    run_bounded(loop);
    CHECK(got == "abcagain");
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

TEST_CASE("the end of a process is reported once by its pidfd") {
    Loop loop;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(7);
    int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    REQUIRE(descriptor >= 0);
    int reported = 0;
    loop.watch_readable(descriptor, [&] {
        ++reported;
        loop.after(30, [&] { loop.stop(); });
    });
    run_bounded(loop);
    CHECK(reported == 1);
    loop.unwatch(descriptor);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 7);
    close(descriptor);
}

TEST_CASE("a signal runs its task on the loop, each time") {
    Loop loop;
    int signals = 0;
    loop.on_signal(SIGHUP, [&] {
        if (++signals == 2)
            loop.stop();
        else
            kill(getpid(), SIGHUP);
    });
    loop.post([] { kill(getpid(), SIGHUP); });
    run_bounded(loop);
    CHECK(signals == 2);
}

TEST_CASE("offloaded work runs beside the loop, and its end comes back to it") {
    Loop loop;
    std::thread::id loop_thread = std::this_thread::get_id();
    int done = 0;
    std::atomic<int> worked = 0, on_loop = 0;
    for (int i = 0; i < 50; ++i)
        loop.offload(
            [&] {
                if (std::this_thread::get_id() == loop_thread) ++on_loop;
                ++worked;
            },
            [&] {
                CHECK(std::this_thread::get_id() == loop_thread);
                if (++done == 50) loop.stop();
            });
    run_bounded(loop);
    CHECK(worked == 50);
    CHECK(on_loop == 0);
}

TEST_CASE("what offloaded work throws ends nobody: it is an error of the answer, and what follows still comes") {
    Loop loop;
    std::string message;
    int ended = 0;
    const auto end = [&] {
        if (++ended == 2) loop.stop();
    };
    loop.offload([]() { throw std::runtime_error("no such luck"); }, end);
    loop.offload([]() -> rtrain::Result<int> { throw std::runtime_error("stale file handle"); },
                 [](const rtrain::Error& error) { return error; },
                 [&](const rtrain::Result<int>& answer) {
                     message = answer ? "an answer" : answer.error().message;
                     loop.offload([] { return rtrain::Result<int>(7); },
                                  [](const rtrain::Error& error) { return error; },
                                  [&](const rtrain::Result<int>& next) {
                                      CHECK(next.value() == 7);
                                      end();
                                  });
                 });
    run_bounded(loop);
    CHECK(message.find("stale file handle") != std::string::npos);
}

TEST_CASE("a loop that ends waits for work that has begun and drops the rest") {
    std::atomic<bool> begun = false, finished = false;
    int done = 0;
    std::atomic<bool> release = false;
    std::thread opener;
    {
        Loop loop;
        loop.offload(
            [&] {
                begun = true;
                begun.notify_all();
                release.wait(false);
                finished = true;
            },
            [&] { ++done; });
        begun.wait(false);
        opener = std::thread([&] {
            release = true;
            release.notify_all();
        });
    }
    CHECK(finished);
    CHECK(done == 0);
    opener.join();
}
