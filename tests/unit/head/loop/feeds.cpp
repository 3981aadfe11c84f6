// Followers of feeds: how their streams end.
#include "daemon/head/loop/feeds.hpp"

#include "tests/unit/head_core.hpp"

using namespace rtrain;
using head::Feeds;
using test::run_until;

namespace {

// Records the calls of its methods. Its follower reads nothing.
struct UnreadStream final : net::Stream {
    bool write(std::string) override { return !ended; }
    void close() override { ended = true; }
    void cut() override { was_cut = true; }
    std::size_t waiting() const override { return 0; }
    void on_closed(std::function<void()> task) override { closed = std::move(task); }
    bool ended = false, was_cut = false;
    std::function<void()> closed;
};

}  // namespace

TEST_CASE("a follower whose permission ends after its stream was closed does not get what still waits") {
    net::Loop loop;
    Feeds feeds(loop);
    const auto stream = std::make_shared<UnreadStream>();
    int pumped = 0, asked_since = 0;
    feeds.add(
        stream,
        [&](net::Stream& to) {
            ++pumped;
            to.write("all of it");
            return Feeds::Pumped::ended;
        },
        [&] { return !stream->ended || ++asked_since < 2; });
    CHECK(run_until(loop, [&] { return stream->was_cut; }));
    CHECK(pumped == 1);
}

TEST_CASE("a follower that has read all is let go of") {
    net::Loop loop;
    Feeds feeds(loop);
    const auto stream = std::make_shared<UnreadStream>();
    auto holds = std::make_shared<int>(1);
    const std::weak_ptr<int> held = holds;
    feeds.add(
        stream, [holds = std::move(holds)](net::Stream&) { return Feeds::Pumped::ended; },
        [&, closed = false]() mutable {
            if (stream->ended && !std::exchange(closed, true)) stream->closed();
            return true;
        });
    CHECK(run_until(loop, [&] { return held.expired(); }));
    CHECK_FALSE(stream->was_cut);
}

TEST_CASE("a follower that has more to write is pumped alone; another one with news, or once it is ready") {
    net::Loop loop;
    Feeds feeds(loop);
    const auto stream = std::make_shared<UnreadStream>();
    int slow = 0, idle = 0;
    feeds.add(stream, [&](net::Stream&) { return ++slow, Feeds::Pumped::again; }, [] { return true; });
    const Feeds::Ready ready =
        feeds.add(stream, [&](net::Stream&) { return ++idle, Feeds::Pumped::goes_on; }, [] { return true; });
    CHECK(run_until(loop, [&] { return slow > 4; }));
    CHECK(idle == 1);
    ready();
    CHECK(run_until(loop, [&, seen = slow] { return slow > seen + 2; }));
    CHECK(idle == 2);
    feeds.poke();
    CHECK(run_until(loop, [&] { return idle == 3; }));
}
