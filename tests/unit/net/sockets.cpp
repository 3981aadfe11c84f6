// WebSockets between two loops, event streams, Unix sockets: order, bounds, and the ways in which a connection ends.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/net/unix.hpp"
#include "tests/unit/net_raw.hpp"
#include "tests/unit/net_world.hpp"

using namespace net_tests;

namespace {

// The state that one side of a socket sees.
struct Side {
    Seen<std::string> texts, ends;
    net::SocketEvents events() {
        return {.on_text = [this](std::string text) { texts.set(std::move(text)); },
                .on_closed = [this](std::string why) { ends.set(std::move(why)); }};
    }
};

struct Connected {
    explicit Connected(net::ServerOptions options = {})
        : server(
              [this](net::Request request, auto responder) {
                  if (request.path != "/v1/agents") return responder->send({.status = 403, .body = "not for you"});
                  net::SocketEvents events = far_side.events();
                  events.read = far_reads;
                  far = responder->accept_socket(std::move(events));
                  accepted.set(true);
              },
              options) {}
    ~Connected() {
        near_home.on_loop([this] { near.reset(); });
        server.home.on_loop([this] { far.reset(); });
    }
    Result<Done> dial(const std::string& target = "/v1/agents") {
        std::promise<Result<Done>> outcome;
        net::Endpoint endpoint = server.endpoint();
        endpoint.certificate = pki().node.certificate;
        endpoint.private_key = pki().node.private_key;
        near_home.on_loop([&] {
            net::dial_socket(near_home.loop, endpoint, target, near_side.events(),
                             [&](Result<std::shared_ptr<net::Socket>> socket) {
                                 if (socket) near = *socket;
                                 outcome.set_value(socket ? Result<Done>(Done{}) : Result<Done>(socket.error()));
                             });
        });
        return outcome.get_future().get();
    }
    Side near_side, far_side;
    std::function<net::Loop::Task(std::string)> far_reads;
    Seen<bool> accepted;
    std::shared_ptr<net::Socket> near, far;
    TestServer server;
    LoopThread near_home;
};

}  // namespace

TEST_CASE("texts go both ways, whole and in order, with any bytes in them") {
    Connected pair;
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    std::string odd("\xff\x00\xfe text", 8), large(3u << 20, 'L');
    pair.near_home.on_loop([&] {
        for (int i = 0; i < 1'000; ++i) CHECK(pair.near->send(std::to_string(i)));
        CHECK(pair.near->send(odd));
        CHECK(pair.near->send(large));
        CHECK(pair.near->send(""));
    });
    pair.server.home.on_loop([&] {
        CHECK(pair.far->peer().certificate_name == "node:n1");
        CHECK(pair.far->send(large));
    });
    REQUIRE(pair.far_side.texts.wait(1'003));
    REQUIRE(pair.near_side.texts.wait(1));
    auto texts = pair.far_side.texts.all();
    for (int i = 0; i < 1'000; ++i) REQUIRE(texts[static_cast<std::size_t>(i)] == std::to_string(i));
    CHECK(texts[1'000] == odd);
    CHECK(texts[1'001] == large);
    CHECK(texts[1'002].empty());
    CHECK(pair.near_side.texts.all().front() == large);
}

TEST_CASE("texts may be read by the connection's own thread, and what that gives runs on the loop, in order") {
    Connected pair;
    Seen<std::thread::id> readers, tellers;
    pair.far_reads = [&](std::string text) -> net::Loop::Task {
        readers.set(std::this_thread::get_id());
        return [&, text = "read " + text] {
            tellers.set(std::this_thread::get_id());
            pair.far_side.texts.set(text);
        };
    };
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    std::thread::id home;
    pair.server.home.on_loop([&] { home = std::this_thread::get_id(); });
    pair.near_home.on_loop([&] {
        for (const char* text : {"one", "two", "three"}) CHECK(pair.near->send(text));
    });
    REQUIRE(pair.far_side.texts.wait(3));
    CHECK(pair.far_side.texts.all() == std::vector<std::string>{"read one", "read two", "read three"});
    CHECK(tellers.all() == std::vector<std::thread::id>(3, home));
    CHECK(readers.all().front() != home);
}

TEST_CASE("a long text that is being read delays no other connection") {
    net::ServerOptions options;
    options.threads = 1;
    Connected pair(options);
    std::promise<void> release;
    Seen<std::size_t> begun;
    pair.far_reads = [&, released = release.get_future().share()](std::string text) -> net::Loop::Task {
        begun.set(text.size());
        if (text.size() > 1'000) released.wait_for(patience);
        return [&, text = std::move(text)] { pair.far_side.texts.set(text); };
    };
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    const std::string large(1u << 20, 'L');
    pair.near_home.on_loop([&] {
        for (const std::string& text : {std::string("first"), large, std::string("last")}) CHECK(pair.near->send(text));
    });
    REQUIRE(begun.wait(2));
    net::Endpoint endpoint = pair.server.endpoint();
    endpoint.answer_timeout_ms = 5'000;
    const auto other = net::Client(endpoint).call({.target = "/v1/other"});
    CHECK(pair.far_side.texts.count() == 1);
    release.set_value();
    REQUIRE(pair.far_side.texts.wait(3));
    CHECK(pair.far_side.texts.all() == std::vector<std::string>{"first", large, "last"});
    REQUIRE(other.ok());
    CHECK(other->status == 403);
}

TEST_CASE("a connection pauses while the loop is behind, and continues") {
    Connected pair;
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    std::promise<void> release;
    pair.server.home.loop.post([released = release.get_future().share()] { released.wait_for(patience); });
    const std::string large(1u << 20, 'L');
    constexpr std::size_t texts = 40;  // 16 MiB may wait for the loop
    pair.near_home.on_loop([&] {
        for (std::size_t sent = 0; sent < texts; ++sent) CHECK(pair.near->send(large));
    });
    CHECK_FALSE(pair.near_side.ends.wait(1, std::chrono::milliseconds(500)));
    release.set_value();
    CHECK(pair.far_side.texts.wait(texts, std::chrono::seconds(20)));
    CHECK(pair.near_side.ends.count() == 0);
}

TEST_CASE("a server ends while a long text is being read") {
    Connected pair;
    std::promise<void> release;
    Seen<std::size_t> begun;
    pair.far_reads = [&, released = release.get_future().share()](std::string text) -> net::Loop::Task {
        begun.set(text.size());
        released.wait_for(patience);
        return [&] { pair.far_side.texts.set("too late"); };
    };
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    pair.near_home.on_loop([&] { CHECK(pair.near->send(std::string(1u << 20, 'L'))); });
    REQUIRE(begun.wait(1));
    std::thread releases([&] {
        pair.near_side.ends.wait(1);  // The server has begun to end.
        release.set_value();
    });
    pair.server.stop();
    releases.join();
    CHECK(pair.far_side.texts.count() == 0);
}

TEST_CASE("what was sent before a close arrives, then both sides learn of the end, once") {
    Connected pair;
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    pair.server.home.on_loop([&] {
        pair.far->send("last words");
        pair.far->close("replaced by a newer connection");
        CHECK_FALSE(pair.far->send("too late"));
        pair.far->close("again");
    });
    REQUIRE(pair.near_side.ends.wait(1));
    REQUIRE(pair.far_side.ends.wait(1));
    CHECK(pair.near_side.texts.all() == std::vector<std::string>{"last words"});
    CHECK(pair.near_side.ends.all() == std::vector<std::string>{"replaced by a newer connection"});
    pair.near_home.on_loop([&] {
        CHECK_FALSE(pair.near->send("nobody there"));
        pair.near->close("done");
    });
    CHECK(pair.far_side.ends.count() == 1);
    CHECK(pair.near_side.ends.count() == 1);
}

TEST_CASE("a server that ends closes its sockets and tells nobody on its own side any more") {
    Connected pair;
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    pair.server.stop();
    REQUIRE(pair.near_side.ends.wait(1));
    CHECK(pair.near_side.ends.all().front().find("shutting down") != std::string::npos);
    pair.server.home.on_loop([&] { CHECK_FALSE(pair.far->send("x")); });
    CHECK(pair.far_side.ends.count() == 0);
}

TEST_CASE("an upgrade that is refused tells why") {
    Connected pair;
    auto refused = pair.dial("/v1/other");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::unauthorised);
    CHECK(refused.error().message.find("not for you") != std::string::npos);
    CHECK(pair.near_side.ends.count() == 0);
}

TEST_CASE("a send queue is bounded") {
    Connected pair;
    REQUIRE(pair.dial().ok());
    REQUIRE(pair.accepted.wait(1));
    std::promise<void> release;
    auto released = release.get_future().share();
    pair.server.home.loop.post([released] { released.wait(); });  // blocks the reader's loop
    std::size_t taken = 0;
    pair.near_home.on_loop([&] {
        while (taken < 64 && pair.near->send(std::string(8u << 20, 'q'))) ++taken;
    });
    CHECK(taken >= 8);
    CHECK(taken < 64);
    release.set_value();
    CHECK(pair.far_side.texts.wait(taken));
}

TEST_CASE("small messages are quick: twenty thousand a second between two loops") {
    Connected pair;
    REQUIRE(pair.dial().ok());
    constexpr std::size_t count = 20'000;
    pair.near_home.on_loop([&] {
        for (std::size_t i = 0; i < count; ++i) pair.near->send("{\"type\":\"heartbeat\",\"sequence\":123456}");
    });
    const auto begun = std::chrono::steady_clock::now();
    REQUIRE(pair.far_side.texts.wait(count));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    WARN(static_cast<int>(count / took.count()) << " messages a second");
}

TEST_CASE("an event stream goes piece by piece, ends cleanly, and the connection is used again") {
    std::atomic<bool> took_more = true;
    TestServer server([&](net::Request request, auto responder) {
        if (request.path != "/events") return responder->send({.body = "plain"});
        auto stream = responder->stream("text/event-stream");
        for (int i = 0; i < 100; ++i) stream->write("data: " + std::to_string(i) + "\n\n");
        stream->close();
        took_more = stream->write("late");
    });
    net::Client client(server.endpoint());
    std::string all, expected;
    for (int i = 0; i < 100; ++i) expected += "data: " + std::to_string(i) + "\n\n";
    auto answer = client.call({.target = "/events", .on_piece = [&](std::string_view piece) {
                                   all += piece;
                                   return true;
                               }});
    if (!answer) FAIL(answer.error().message);
    CHECK(all == expected);
    CHECK(answer->content_type == "text/event-stream");
    CHECK(client.call({.target = "/"})->body == "plain");
    CHECK_FALSE(took_more);
}

TEST_CASE("a stream on a connection that carried one before goes on, whatever was the other's last piece") {
    std::shared_ptr<net::Stream> kept;
    TestServer server([&](net::Request request, auto responder) {
        auto stream = responder->stream("text/event-stream");
        if (request.path != "/kept") {
            stream->write("all of it\n\n");
            return stream->close();
        }
        kept = stream;
        kept->write("1\n\n");
    });
    net::Client client(server.endpoint());
    // The last piece contains data only if the stream is closed before it is sent. So the test repeats.
    for (int i = 0; i < 20; ++i) REQUIRE(client.call({.target = "/whole"})->body == "all of it\n\n");
    std::string heard;
    auto answer = client.call({.target = "/kept", .on_piece = [&](std::string_view piece) {
                                   heard += piece;
                                   server.home.on_loop([&] {
                                       CHECK(kept->write(heard.size() == 3 ? "2\n\n" : ""));
                                       if (heard.size() == 6) kept->close();
                                   });
                                   return true;
                               }});
    if (!answer) FAIL(answer.error().message);
    CHECK(heard == "1\n\n2\n\n");
    server.home.on_loop([&] { kept.reset(); });
}

TEST_CASE("a follower that goes away is told to the stream's owner") {
    Seen<bool> closed;
    std::shared_ptr<net::Stream> kept;
    TestServer server([&](net::Request, auto responder) {
        kept = responder->stream("text/event-stream");
        kept->on_closed([&] { closed.set(true); });
        kept->write("data: 1\n\n");
    });
    net::Client client(server.endpoint());
    auto answer = client.call({.target = "/", .on_piece = [](std::string_view) { return false; }});
    REQUIRE(answer.ok());
    REQUIRE(closed.wait(1));
    server.home.on_loop([&] {
        CHECK_FALSE(kept->write("more"));
        kept.reset();
    });
    CHECK(closed.count() == 1);
}

TEST_CASE("a follower that does not read is cut when it lags four megabytes behind") {
    Seen<bool> closed;
    std::shared_ptr<net::Stream> kept;
    TestServer server([&](net::Request, auto responder) {
        kept = responder->stream("text/event-stream");
        kept->on_closed([&] { closed.set(true); });
        kept->write("data: 1\n\n");
    });
    net::Client client(server.endpoint());
    std::promise<void> release;
    Seen<bool> began;
    bool read_to_the_end = true;
    std::thread reader([&] {
        auto ended = client.call({.target = "/", .on_piece = [&](std::string_view) {
                                      if (began.count() == 0) {
                                          began.set(true);
                                          release.get_future().wait();
                                      }
                                      return true;
                                  }});
        read_to_the_end = ended.ok();
    });
    REQUIRE(began.wait(1));
    std::size_t written = 0;
    server.home.on_loop([&] {
        while (written < (256u << 20) && kept->write(std::string(64u << 10, 'x'))) written += 64u << 10;
    });
    CHECK(written >= 3u << 20);
    CHECK(written < 64u << 20);
    CHECK(closed.wait(1));
    release.set_value();
    reader.join();
    CHECK_FALSE(read_to_the_end);
    server.home.on_loop([&] { kept.reset(); });
}

TEST_CASE("a stream that is cut ends at once without what waits, also when its follower does not read") {
    constexpr std::size_t piece = 1u << 20;
    const bool closed_before = GENERATE(false, true);
    Seen<bool> closed;
    std::shared_ptr<net::Stream> kept;
    TestServer server([&](net::Request, auto responder) {
        kept = responder->stream("text/event-stream");
        kept->on_closed([&] { closed.set(true); });
        kept->write("data: 1\n\n");
    });
    const auto follow = [&] {
        auto follower = std::make_unique<RawTls>(server.endpoint().port, "", "", Buffers::little);
        follower->say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        std::string heard;
        for (int i = 0; i < 100 && heard.find("data: 1") == std::string::npos; ++i) heard += follower->read_some();
        return follower;
    };
    const auto pieces_taken = [&](std::size_t most) {
        std::size_t taken = 0;
        for (bool takes = true; takes && taken < most; taken += takes ? 1 : 0) {
            server.home.on_loop([&] { takes = kept->write(std::string(piece, 'x')); });
            closed.wait(closed.count() + 1, std::chrono::milliseconds(50));  // lets the kernel take more meanwhile
        }
        return taken;
    };
    std::size_t most = 0;
    {
        const auto other = follow();
        most = pieces_taken(64);  // the kernel's buffer and four waiting pieces are full, then the connection is closed
        REQUIRE(closed.wait(1));
        REQUIRE(most >= 4);
    }
    const auto follower = follow();
    const std::size_t taken = pieces_taken(most - 1);
    CHECK(taken == most - 1);
    server.home.on_loop([&] {
        if (closed_before) kept->close();
        kept->cut();
    });
    CHECK(follower->read_all().size() < taken * piece);  // at most the pieces that the kernel had
    CHECK(closed.wait(2));
    server.home.on_loop([&] {
        CHECK_FALSE(kept->write("late"));
        kept.reset();
    });
}

TEST_CASE("a stream that is cut while nothing waits ends cleanly, and the connection is used again") {
    std::shared_ptr<net::Stream> kept;
    TestServer server([&](net::Request request, auto responder) {
        if (request.path != "/events") return responder->send({.body = "plain"});
        kept = responder->stream("text/event-stream");
        kept->write("data: 1\n\n");
    });
    net::Client client(server.endpoint());
    auto answer = client.call({.target = "/events", .on_piece = [&](std::string_view) {
                                   server.home.on_loop([&] { kept->cut(); });
                                   return true;
                               }});
    if (!answer) FAIL(answer.error().message);
    CHECK(client.call({.target = "/"})->body == "plain");
    server.home.on_loop([&] { kept.reset(); });
}

namespace {

int connect_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

struct UnixWorld {
    explicit UnixWorld(net::UnixLimits limits = {}) {
        home.on_loop([this, limits] {
            const auto accept = [this](std::shared_ptr<net::Socket> socket) {
                net::Socket* raw = socket.get();
                kept.push_back(std::move(socket));
                return net::SocketEvents{.on_text =
                                             [this, raw](std::string text) {
                                                 if (text == "hello") net::introduced(*raw);
                                                 texts.set(std::move(text));
                                                 raw->send("re: " + texts.all().back());
                                                 if (texts.all().back() == "bye") raw->close("bye");
                                             },
                                         .on_closed = [this](std::string why) { ends.set(why); }};
            };
            auto listening = net::listen_unix(home.loop, path, accept, limits);
            if (!listening) FAIL(listening.error().message);
            server = std::move(listening).value();
        });
    }
    ~UnixWorld() {
        home.on_loop([this] {
            server.reset();
            kept.clear();
        });
    }
    std::string path = (std::filesystem::temp_directory_path() / ("rtrain-unix-" + std::to_string(getpid()))).string();
    Seen<std::string> texts, ends;
    std::vector<std::shared_ptr<net::Socket>> kept;
    LoopThread home;
    std::unique_ptr<net::UnixServer> server;
};

}  // namespace

TEST_CASE("workers talk over a Unix socket in frames, cut at any byte") {
    UnixWorld world;
    struct stat facts{};
    REQUIRE(stat(world.path.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
    const int fd = connect_unix(world.path);
    const std::string frames("\0\0\0\2hi\0\0\0\0\0\0\0\3bye", 17);
    for (char byte : frames) REQUIRE(write(fd, &byte, 1) == 1);
    std::string got;
    char buffer[256];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;) got.append(buffer, static_cast<std::size_t>(n));
    CHECK(got == std::string("\0\0\0\6re: hi\0\0\0\4re: \0\0\0\7re: bye", 29));
    CHECK(world.texts.all() == std::vector<std::string>{"hi", "", "bye"});
    REQUIRE(world.ends.wait(1));
    CHECK(world.ends.all() == std::vector<std::string>{"bye"});
    close(fd);
}

TEST_CASE("a frame over the limit and a torn frame end their connection alone") {
    UnixWorld world;
    const int greedy = connect_unix(world.path), torn = connect_unix(world.path), good = connect_unix(world.path);
    REQUIRE(write(greedy, "\xff\xff\xff\xff", 4) == 4);
    REQUIRE(world.ends.wait(1));
    CHECK(world.ends.all().front().find("over the limit") != std::string::npos);
    REQUIRE(write(torn, "\0\0\0\5ab", 6) == 6);
    close(torn);
    REQUIRE(world.ends.wait(2));
    REQUIRE(write(good, "\0\0\0\1x", 5) == 5);
    REQUIRE(world.texts.wait(1));
    close(greedy), close(good);
}

namespace {

void send_frame(int fd, const std::string& body, std::size_t announced) {
    std::string frame;
    for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<char>(announced >> shift & 0xff));
    frame += body;
    for (std::size_t at = 0; at < frame.size();) {
        const ssize_t sent = ::send(fd, frame.data() + at, frame.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) return;  // the connection was closed; the test checks that at the other end
        at += static_cast<std::size_t>(sent);
    }
}

bool ends_now(int fd) {
    char byte = 0;
    return ::recv(fd, &byte, 1, 0) == 0;
}

}  // namespace

TEST_CASE("a peer that has not said who it is may send little, and not for long") {
    UnixWorld world({.stranger_bytes = 100, .stranger_ms = 300});
    const int long_one = connect_unix(world.path), idle = connect_unix(world.path), known = connect_unix(world.path);
    send_frame(known, "hello", 5);
    send_frame(long_one, "x", 101);
    REQUIRE(world.ends.wait(1));
    CHECK(world.ends.all()[0] == "a message of 101 bytes is over the limit of 100");
    REQUIRE(world.ends.wait(2));
    CHECK(world.ends.all()[1] == "it has not said who it is in time");
    CHECK(ends_now(idle));
    send_frame(known, std::string(1'000, 'x'), 1'000);
    REQUIRE(world.texts.wait(2));
    CHECK(world.ends.all().size() == 2);
    close(long_one), close(idle), close(known);
}

TEST_CASE("of many peers that do not say who they are the oldest make room, and known ones are left alone") {
    UnixWorld world({.strangers_of_user = 3});
    const int known = connect_unix(world.path);
    send_frame(known, "hello", 5);
    REQUIRE(world.texts.wait(1));
    std::vector<int> strangers;
    for (int i = 0; i < 10; ++i) strangers.push_back(connect_unix(world.path));
    REQUIRE(world.ends.wait(7));
    CHECK(world.ends.all().front() == "too many connections that have not said who they are");
    for (std::size_t i = 0; i < 7; ++i) CHECK(ends_now(strangers[i]));
    send_frame(strangers[7], "hello", 5);
    send_frame(known, "still here", 10);
    REQUIRE(world.texts.wait(3));
    CHECK(world.ends.all().size() == 7);
    for (const int fd : strangers) close(fd);
    close(known);
}

TEST_CASE("messages that are never finished are bounded in bytes and in time, the oldest goes first") {
    UnixWorld world({.stranger_bytes = 1'000, .unfinished_of_user = 250'000, .unfinished_ms = 1'500});
    std::vector<int> peers;
    for (int i = 0; i < 3; ++i) {
        peers.push_back(connect_unix(world.path));
        send_frame(peers.back(), "hello", 5);
        REQUIRE(world.texts.wait(static_cast<std::size_t>(i) + 1));
        send_frame(peers.back(), std::string(100'000, 'x'), 59u << 20);
    }
    REQUIRE(world.ends.wait(1));
    CHECK(world.ends.all()[0] == "too many bytes of messages that are not finished");
    char answer[13];
    REQUIRE(::recv(peers[0], answer, sizeof answer, MSG_WAITALL) == 13);
    CHECK(ends_now(peers[0]));
    REQUIRE(world.ends.wait(3));
    CHECK(world.ends.all()[2] == "a message was not finished in time");
    const int honest = connect_unix(world.path);
    send_frame(honest, "hello", 5);
    send_frame(honest, std::string(200'000, 'y'), 200'000);
    REQUIRE(world.texts.wait(5));
    CHECK(world.texts.all().back().size() == 200'000);
    for (const int fd : peers) close(fd);
    close(honest);
}

TEST_CASE("a socket file left by a killed process is taken over, a living one is not") {
    UnixWorld world;
    net::Loop loop;
    auto second = net::UnixServer::listen(loop, world.path, [](auto) { return net::SocketEvents{}; });
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::conflict);
    const std::string stale = world.path + "-stale";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    stale.copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    close(fd);
    CHECK(net::UnixServer::listen(loop, stale, [](auto) { return net::SocketEvents{}; }).ok());
    auto long_path = net::UnixServer::listen(loop, std::string(200, 'p'), [](auto) { return net::SocketEvents{}; });
    REQUIRE_FALSE(long_path.ok());
    CHECK(long_path.error().code == ErrorCode::invalid);
}
