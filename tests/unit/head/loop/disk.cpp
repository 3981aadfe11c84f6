// The head's disks: a reserve that holds during uploads, storages that hang, and names that no file system allows.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "base/json_text.hpp"
#include "tests/unit/head_agent.hpp"
#include "tests/unit/net_raw.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

std::size_t files_below(const std::string& directory) {
    std::size_t count = 0;
    for (const auto& one : std::filesystem::recursive_directory_iterator(directory)) count += one.is_regular_file();
    return count;
}

// The free bytes of a file system. While it hangs, callers wait.
class Room {
  public:
    std::uint64_t free(const std::string& directory) {
        ++asked;
        if (directory == hanging) let_go_.get_future().wait();
        return bytes;
    }
    void let_go() { let_go_.set_value(); }
    std::string hanging;
    std::atomic<std::uint64_t> bytes = 1ull << 40;
    std::atomic<int> asked = 0;

  private:
    struct Latch {
        std::promise<void> promise;
        std::shared_future<void> future = promise.get_future().share();
        std::shared_future<void> get_future() const { return future; }
        void set_value() { promise.set_value(); }
    } let_go_;
};

}  // namespace

TEST_CASE("an upload that takes more than the reserve leaves is refused while it comes, and leaves nothing behind") {
    const TemporaryFolder folder;
    const auto room = std::make_shared<Room>();
    HeadUnderTest head({.data_dir = folder.path, .storage_reserve = 1'000, .free_bytes = [room](const std::string&) {
                            return room->free("any");
                        }});
    room->bytes = 100'000;
    net_tests::RawTls raw(head.started.port);
    raw.say("PUT /v1/storage/big HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + head.admin +
            "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";  // the request's header has no length
    for (int i = 0; i < 10; ++i) raw.say(chunk);
    raw.say("0\r\n\r\n");
    const std::string answer = raw.read_all();
    CHECK(answer.starts_with("HTTP/1.1 507"));
    CHECK(answer.find("make room") != std::string::npos);
    CHECK(eventually([&] { return files_below(folder.path + "/storage") == 0; }));
    CHECK(HeadUnderTest::send(head.endpoint(head.admin),
                              {.method = "PUT", .target = "/v1/storage/small", .body = std::string(9'000, 'x')})
              .status == 201);
}

TEST_CASE("an upload ends, and leaves nothing behind, when its token is revoked") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const json made = head.call("POST", "/v1/tokens", {{"role", "admin"}, {"user", "eve"}}).body;
    net_tests::RawTls raw(head.started.port);
    raw.say("PUT /v1/storage/big HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + made["token"].get<std::string>() +
            "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    const std::string chunk = "40000\r\n" + std::string(0x40000, 'x') + "\r\n";  // more than is written at once
    raw.say(chunk);
    REQUIRE(eventually([&] { return files_below(folder.path + "/storage") == 1; }));
    REQUIRE(head.call("DELETE", "/v1/tokens/" + made["id"].get<std::string>()).status == 200);
    raw.say(chunk);  // the body has no end
    CHECK(raw.read_all().starts_with("HTTP/1.1 401"));
    CHECK(eventually([&] { return files_below(folder.path + "/storage") == 0; }));
}

TEST_CASE("while uploads wait for a storage that hangs, agents and requests are answered") {
    const TemporaryFolder folder;
    const auto room = std::make_shared<Room>();
    room->hanging = folder.path + "/storage";
    HeadUnderTest head({.data_dir = folder.path,
                        .free_bytes = [room](const std::string& directory) { return room->free(directory); }});
    constexpr int uploads = 8;
    std::vector<std::thread> threads;
    std::atomic<int> written = 0;
    for (int i = 0; i < uploads; ++i)
        threads.emplace_back([&, i] {
            net::Client client(head.endpoint(head.admin));
            const auto answer =
                client.call({.method = "PUT", .target = "/v1/storage/f" + std::to_string(i), .body = "x"});
            written += answer && answer->status == 201;
        });
    CHECK(eventually([&] { return room->asked > 0; }));
    for (const char* name : {"n1", "n2", "n3", "n4"}) {
        HandMadeAgent agent(join(head, name), name);  // one in each of the server's threads
        agent.register_node();
        agent.tell(protocol::Notice{.attempt = {}, .text = "here"});
        CHECK(agent.expect<protocol::NewsAck>().seq == 1);
    }
    const Answer blob = HeadUnderTest::send(
        head.endpoint(head.admin), {.method = "PUT", .target = "/v1/blobs/" + std::string(64, '0'), .body = "x"});
    CHECK(blob.status == 422);  // the other disk was used: the hash differs
    CHECK(written == 0);
    room->let_go();
    for (std::thread& thread : threads) thread.join();
    CHECK(written == uploads);
}

TEST_CASE("an upload whose name is none is refused before its body, and leaves nothing behind") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string long_name(300, 'x');
    for (const std::string& target :
         {std::string("/v1/blobs/no-hash"), "/v1/storage/" + long_name, "/v1/storage/run/" + long_name + "/file",
          "/v1/storage/" + std::string(1'100, 'y')}) {
        INFO(target);
        const Answer answer =
            HeadUnderTest::send(head.endpoint(head.admin), {.method = "PUT", .target = target, .body = "bytes"});
        CHECK(answer.status == 400);
        CHECK_FALSE(answer.body["next"].get<std::string>().empty());
        if (target.starts_with("/v1/storage/"))
            CHECK(answer.body["next"].get<std::string>().find("255") != std::string::npos);
    }
    CHECK(files_below(folder.path + "/tmp") == 0);
    CHECK(files_below(folder.path + "/storage") == 0);
    for (const char* method : {"GET", "DELETE"}) CHECK(head.call(method, "/v1/storage/" + long_name).status == 400);
    CHECK(head.call("PUT", "/v1/storage/" + std::string(255, 'x'), json("x")).status == 201);
}

TEST_CASE("times of requests that no clock holds are refused, or count as all there is") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("mine")}}).status == 201);
    for (const json& time :
         {json(std::numeric_limits<std::uint64_t>::max()), json(std::numeric_limits<std::int64_t>::max()),
          json(std::uint64_t{1} << 63), json(1e19), json(-1)}) {
        INFO(json_text(time));
        CHECK(head.call("POST", "/v1/tokens", {{"role", "user"}, {"user", "ann"}, {"expires_ms", time}}).status == 400);
        CHECK(head.call("POST", "/v1/runs/mine/stop", {{"deadline_ms", time}}).status == 400);
        CHECK(head.call("POST", "/v1/nodes/n1/drain", {{"deadline_ms", time}}).status == 400);
    }
    for (const char* since : {"9223372036854775808", "18446744073709551615"})
        CHECK(head.call("GET", std::string("/v1/runs/mine/logs?since_ms=") + since).status == 200);
}

TEST_CASE("while the disk of logs hangs, agents and requests are answered, and the logs are taken when it goes on") {
    const TemporaryFolder folder;
    const auto room = std::make_shared<Room>();
    room->hanging = folder.path + "/logs";
    HeadUnderTest head({.data_dir = folder.path,
                        .free_bytes = [room](const std::string& directory) { return room->free(directory); }});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("chatty")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    agent.say(protocol::LogChunk{.attempt = attempt, .stream = "out", .bytes = "a line\n"});
    CHECK(eventually([&] { return room->asked > 0; }));
    CHECK(head.call("GET", "/v1/status").status == 200);
    agent.tell(protocol::Notice{.attempt = {}, .text = "here"});
    CHECK_FALSE(agent.heard_any<protocol::LogAck>());
    room->let_go();
    CHECK(agent.expect<protocol::LogAck>().offset == 7);
    CHECK(head.call("GET", "/v1/runs/chatty/logs").text.find("a line") != std::string::npos);
}

TEST_CASE("who follows logs that cannot be read waits alone") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("chatty")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    agent.say(protocol::LogChunk{.attempt = attempt, .stream = "out", .bytes = "a line\n"});
    CHECK(agent.expect<protocol::LogAck>().offset == 7);
    std::string times;
    for (const auto& one : std::filesystem::recursive_directory_iterator(folder.path + "/logs"))
        if (one.path().extension() == ".times") times = one.path();
    REQUIRE(std::filesystem::remove(times));
    REQUIRE(::mkfifo(times.c_str(), 0600) == 0);  // opening it blocks
    std::atomic<bool> came = false;
    std::thread follower([&] {
        net::Client client(head.endpoint(head.admin));
        std::string text;
        (void)client.call({.target = "/v1/runs/chatty/logs?follow=true", .on_piece = [&](std::string_view piece) {
                               text += piece;
                               came = text.find("a line") != std::string::npos;
                               return !came;
                           }});
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (std::chrono::steady_clock::now() < until) REQUIRE(head.call("GET", "/v1/status").status == 200);
    CHECK_FALSE(came);
    const int both = ::open(times.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);  // opening it no longer blocks
    REQUIRE(both >= 0);
    follower.join();
    ::close(both);
    CHECK(came);
}
