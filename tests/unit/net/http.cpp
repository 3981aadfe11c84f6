// Requests and answers between the real server and the real client, over TLS on loopback.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/net/http/http_parser.hpp"
#include "tests/unit/net_raw.hpp"
#include "tests/unit/net_world.hpp"

using namespace net_tests;
namespace fs = std::filesystem;

namespace {

struct TempDir {
    TempDir() {
        std::string pattern = (fs::temp_directory_path() / "rtrain-net-XXXXXX").string();
        path = mkdtemp(pattern.data());
    }
    ~TempDir() { fs::remove_all(path); }
    fs::path path;
};

void write_pattern(const fs::path& path, std::size_t megabytes) {
    std::ofstream out(path, std::ios::binary);
    for (std::size_t i = 0; i < megabytes; ++i) {
        std::string block(1u << 20, static_cast<char>('a' + i % 26));
        out.write(block.data(), static_cast<std::streamsize>(block.size()));
    }
}

bool same_files(const fs::path& a, const fs::path& b) {
    std::ifstream one(a, std::ios::binary), two(b, std::ios::binary);
    std::string left(1u << 20, '\0'), right(1u << 20, '\0');
    while (one && two) {
        one.read(left.data(), static_cast<std::streamsize>(left.size()));
        two.read(right.data(), static_cast<std::streamsize>(right.size()));
        if (one.gcount() != two.gcount() || left != right) return false;
    }
    return one.eof() && two.eof();
}

std::size_t resident_peak_kib() {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6));
    return 0;
}

}  // namespace

TEST_CASE("a request comes whole and its answer goes back, many times over one connection") {
    Seen<net::Request> seen;
    TestServer server([&](net::Request request, auto responder) {
        seen.set(request);
        responder->send({.status = 201, .body = "{}", .headers = {{"X-Run", "r1"}}});
    });
    net::Endpoint endpoint = server.endpoint();
    endpoint.bearer = "rtu1.id.secret";
    net::Client client(endpoint);
    auto answer = client.call({.method = "POST",
                               .target = "/v1/runs/a%20b?key=x%26y&all&n=1+2",
                               .body = "{\"a\":1}",
                               .headers = {{"X-Key", "v"}}});
    if (!answer) FAIL(answer.error().message);
    CHECK(answer->status == 201);
    CHECK(answer->body == "{}");
    CHECK(answer->content_type == "application/json");
    CHECK(answer->headers.at("x-run") == "r1");
    const net::Request request = seen.all().front();
    CHECK(request.method == "POST");
    CHECK(request.path == "/v1/runs/a b");
    CHECK(request.query.at("key") == "x&y");
    CHECK(request.query.at("all").empty());
    CHECK(request.query.at("n") == "1 2");
    CHECK(request.header("Authorization") == "Bearer rtu1.id.secret");
    CHECK(request.header("x-key") == "v");
    CHECK(request.body == "{\"a\":1}");
    CHECK(request.peer.certificate_name.empty());
    const std::string first_peer = request.peer.address;
    for (int i = 0; i < 2'000; ++i) REQUIRE(client.call({.target = "/" + std::to_string(i)}).ok());
    CHECK(seen.all().back().peer.address == first_peer);
    CHECK(server.requests == 2'001);
}

TEST_CASE("the answers of all statuses and methods keep the connection in step") {
    TestServer server([](net::Request request, auto responder) {
        const int status = std::stoi(request.query.at("s"));
        responder->send({.status = status, .body = status == 204 ? "" : "body"});
    });
    net::Client client(server.endpoint());
    for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE"})
        for (int status : {200, 204, 304, 404, 412, 422, 500, 507}) {
            auto answer = client.call({.method = method, .target = "/?s=" + std::to_string(status)});
            REQUIRE(answer.ok());
            CHECK(answer->status == status);
            const bool has_body = method != std::string("HEAD") && status != 204 && status != 304;
            CHECK(answer->body == (has_body ? "body" : ""));
        }
}

TEST_CASE("a hundred megabytes go up and down through files, with memory bounded") {
    TempDir dir;
    const fs::path original = dir.path / "original", stored = dir.path / "stored", back = dir.path / "back";
    constexpr std::size_t megabytes = 100;
    write_pattern(original, megabytes);
    net::ServerOptions options;
    options.admit = [&](const net::Request& head) -> net::Admission {
        return {.caller = "ana", .body_file = head.method == "PUT" ? stored.string() : std::string()};
    };
    TestServer server(
        [&](net::Request request, auto responder) {
            if (request.method == "PUT") return responder->send({.status = 201, .body = request.body_file});
            responder->send({.content_type = "application/octet-stream", .file = stored});
        },
        options);
    [[maybe_unused]] const std::size_t before = resident_peak_kib();
    net::Client client(server.endpoint());
    std::uint64_t progress = 0;
    auto put = client.call({.method = "PUT",
                            .target = "/blob",
                            .body_file = original,
                            .on_progress = [&](std::uint64_t sent, std::uint64_t total) {
                                CHECK(total == megabytes << 20);
                                progress = sent;
                            }});
    if (!put) FAIL(put.error().message);
    CHECK(put->body == stored.string());
    CHECK(progress == megabytes << 20);
    CHECK(same_files(original, stored));
    auto get = client.call({.target = "/blob", .save_to = back});
    if (!get) FAIL(get.error().message);
    CHECK(get->file == back.string());
    CHECK(same_files(original, back));
    // The address sanitizer delays the release of freed memory.
    CHECK((with_address_sanitizer || resident_peak_kib() - before < 24u << 10));
}

TEST_CASE("a body is made piece by piece while it is sent; one that cannot be made breaks off") {
    std::atomic<int> alive = 0;
    struct Counted {
        explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
        ~Counted() { --count_; }
        std::atomic<int>& count_;
    };
    TestServer server([&](net::Request request, auto responder) {
        net::Response answer{.content_type = "text/plain", .headers = {{"x-behind", "9"}}};
        answer.pieces = [made = 0, fails = request.path == "/fails",
                         held = std::make_shared<Counted>(alive)]() mutable -> std::optional<net::MadePiece> {
            switch (++made) {
                case 1:
                    return net::MadePiece{.bytes = "one "};
                case 2:
                    return net::MadePiece{};
                case 3:
                    if (fails) return std::nullopt;
                    return net::MadePiece{.bytes = std::string(300'000, 'x')};
                default:
                    return net::MadePiece{.bytes = "", .last = true};
            }
        };
        responder->send(std::move(answer));
    });
    net::Client client(server.endpoint());
    for (int i = 0; i < 3; ++i) {
        const auto answer = client.call({.target = "/"});
        REQUIRE(answer.ok());
        CHECK(answer->body == "one " + std::string(300'000, 'x'));
        CHECK(answer->headers.at("x-behind") == "9");
    }
    CHECK(client.call({.method = "HEAD", .target = "/"})->body.empty());
    CHECK_FALSE(client.call({.target = "/fails"}).ok());
    const auto until = std::chrono::steady_clock::now() + patience;
    while (alive != 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(alive == 0);
}

TEST_CASE("a body of which no piece is ready is made no longer once its client has gone") {
    std::atomic<int> alive = 0, asked = 0;
    struct Counted {
        explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
        ~Counted() { --count_; }
        std::atomic<int>& count_;
    };
    TestServer server([&](net::Request, auto responder) {
        net::Response answer{.content_type = "text/plain"};
        answer.pieces = [first = true, &asked, held = std::make_shared<Counted>(alive)]() mutable {
            ++asked;
            return std::optional(net::MadePiece{.bytes = std::exchange(first, false) ? "one" : ""});
        };
        responder->send(std::move(answer));
    });
    const auto comes = [&](const auto& condition) {
        const auto until = std::chrono::steady_clock::now() + patience;
        while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        return condition();
    };
    {
        net::Client client(server.endpoint());
        (void)client.call({.target = "/", .on_piece = [&](std::string_view) {
                               CHECK(comes([&] { return asked > 3; }));
                               return false;
                           }});
    }
    CHECK(comes([&] { return alive == 0; }));
}

TEST_CASE("an upgrade that comes while the answer before is being made is refused, another request is answered next") {
    for (const bool upgrades : {false, true}) {
        TestServer server([&](net::Request, auto responder) {
            net::Response answer{.content_type = "text/plain"};
            answer.pieces = [first = true]() mutable {
                const bool last = !std::exchange(first, false);
                return std::optional(net::MadePiece{.bytes = last ? "" : "made", .last = last});
            };
            responder->send(std::move(answer));
        });
        RawTls raw(server.server->port());
        const std::string upgrade =
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        raw.say("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n" +
                (upgrades ? upgrade : "Connection: close\r\n\r\n"));
        std::string all;
        const auto comes_whole = [&] { return all.find(upgrades ? "400 Bad" : "0\r\n\r\nHTTP/1.1 200") != all.npos; };
        for (std::string some; !comes_whole() && !(some = raw.read_some()).empty();) all += some;
        CHECK(comes_whole());
    }
}

TEST_CASE("a part of a file is sent, and a part is answered") {
    TempDir dir;
    std::ofstream(dir.path / "f") << "0123456789";
    TestServer server([&](net::Request request, auto responder) {
        if (request.method == "GET") return responder->send({.file = dir.path / "f", .file_offset = 7});
        responder->send({.body = request.body});
    });
    net::Client client(server.endpoint());
    CHECK(client.call({.target = "/"})->body == "789");
    CHECK(client.call({.method = "PUT", .target = "/", .body_file = dir.path / "f", .body_file_offset = 4})->body ==
          "456789");
    CHECK(client.call({.method = "PUT", .target = "/", .body_file = dir.path / "f", .body_file_offset = 10})
              ->body.empty());
    CHECK_FALSE(
        client.call({.method = "PUT", .target = "/", .body_file = dir.path / "f", .body_file_offset = 11}).ok());
    CHECK_FALSE(client.call({.method = "PUT", .target = "/", .body_file = dir.path / "none"}).ok());
}

TEST_CASE("a body over the limit is refused with 413, and the server goes on") {
    net::ServerOptions options;
    options.body_limit = 1'000;
    TestServer server(echo, options);
    net::Client client(server.endpoint());
    CHECK(client.call({.method = "POST", .target = "/", .body = std::string(1'000, 'x')})->status == 200);
    auto refused = client.call({.method = "POST", .target = "/", .body = std::string(1'001, 'x')});
    REQUIRE(refused.ok());
    CHECK(refused->status == 413);
    CHECK(refused->body.find("\"code\":\"full\"") != std::string::npos);
    auto large = client.call({.method = "POST", .target = "/", .body = std::string(8u << 20, 'x')});
    REQUIRE(large.ok());
    CHECK(large->status == 413);
    CHECK(client.call({.method = "POST", .target = "/", .body = "y"})->body == "POST / y");
    CHECK(server.requests == 2);
}

TEST_CASE("an upload may be refused before a byte of it is taken") {
    TempDir dir;
    std::atomic<std::uint64_t> sent = 0;
    net::ServerOptions options;
    options.admit = [&](const net::Request& head) -> net::Admission {
        if (head.header("authorization").empty()) return {.refusal = net::Response{.status = 401, .body = "no token"}};
        return {.caller = "ana", .body_file = (dir.path / "up").string()};
    };
    TestServer server(echo, options);
    write_pattern(dir.path / "big", 20);
    net::Client client(server.endpoint());
    auto refused = client.call({.method = "PUT",
                                .target = "/",
                                .body_file = dir.path / "big",
                                .on_progress = [&](std::uint64_t now, std::uint64_t) { sent = now; }});
    REQUIRE(refused.ok());
    CHECK(refused->status == 401);
    CHECK(refused->body.find("no token") != std::string::npos);
    CHECK(sent == 0);
    CHECK(server.requests == 0);
    CHECK_FALSE(fs::exists(dir.path / "up"));
}

TEST_CASE("a full disk under an upload is answered with 507") {
    TempDir dir;
    fs::create_symlink("/dev/full", dir.path / "up");
    net::ServerOptions options;
    options.admit = [&](const net::Request&) -> net::Admission {
        return {.caller = "ana", .body_file = (dir.path / "up").string()};
    };
    TestServer server(echo, options);
    net::Client client(server.endpoint());
    auto answer = client.call({.method = "PUT", .target = "/", .body = "something"});
    REQUIRE(answer.ok());
    CHECK(answer->status == 507);
    CHECK(answer->body.find("\"code\":\"full\"") != std::string::npos);
}

TEST_CASE("a request that nobody answers gets 500, and only the first answer counts") {
    TestServer server([](net::Request request, auto responder) {
        if (request.path == "/dropped") return;
        responder->send({.body = "first"});
        responder->send({.body = "second"});
    });
    net::Client client(server.endpoint());
    CHECK(client.call({.target = "/dropped"})->status == 500);
    CHECK(client.call({.target = "/twice"})->body == "first");
    CHECK(client.call({.target = "/twice"})->body == "first");
}

TEST_CASE("a server that was restarted is reached again by the same client") {
    auto first = std::make_unique<TestServer>(echo);
    net::Endpoint endpoint = first->endpoint();
    net::Client client(endpoint);
    REQUIRE(client.call({.target = "/a"}).ok());
    first.reset();
    auto gone = client.call({.target = "/b"});
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().code == ErrorCode::unreachable);
    net::ServerOptions options;
    options.port = endpoint.port;
    TestServer second(echo, options);
    auto answer = client.call({.method = "POST", .target = "/c", .body = "x"});
    if (!answer) FAIL(answer.error().message);
    CHECK(answer->body == "POST /c x");
}

TEST_CASE("a busy port is a conflict that names the process") {
    TestServer server(echo);
    net::ServerOptions options;
    options.port = server.server->port();
    options.identity = pki().identity();
    LoopThread home;
    auto second = net::Server::listen(home.loop, options, echo);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::conflict);
    CHECK(second.error().message.find("(pid " + std::to_string(getpid()) + ")") != std::string::npos);
}

TEST_CASE("nobody there, and a server that stays silent, are unreachable in bounded time") {
    std::uint16_t port = 0;
    {
        TestServer server(echo);
        port = server.server->port();
    }
    net::Endpoint endpoint{.host = "127.0.0.1", .port = port, .ca = pki().authority.certificate};
    auto refused = net::Client(endpoint).call({.target = "/"});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::unreachable);
    CHECK(refused.error().message.find("Connection refused") != std::string::npos);

    std::vector<std::shared_ptr<net::Responder>> kept;
    TestServer silent([&](net::Request, auto responder) { kept.push_back(responder); });
    endpoint = silent.endpoint();
    endpoint.answer_timeout_ms = 100;
    auto late = net::Client(endpoint).call({.target = "/"});
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::unreachable);
    silent.home.on_loop([&] { kept.clear(); });
}

TEST_CASE("another thread ends a call that waits") {
    std::vector<std::shared_ptr<net::Responder>> kept;
    Seen<bool> asked;
    TestServer server([&](net::Request, auto responder) {
        kept.push_back(responder);
        asked.set(true);
    });
    net::Client client(server.endpoint());
    std::thread other([&] {
        asked.wait(1);
        client.abort();
    });
    auto ended = client.call({.target = "/"});
    other.join();
    REQUIRE_FALSE(ended.ok());
    CHECK(ended.error().message.find("aborted") != std::string::npos);
    server.home.on_loop([&] { kept.clear(); });
}

TEST_CASE("requests that would smuggle lines are not sent") {
    TestServer server(echo);
    net::Client client(server.endpoint());
    CHECK(client.call({.target = "/a b"}).error().code == ErrorCode::usage);
    CHECK(client.call({.target = "/a\r\nX: y"}).error().code == ErrorCode::usage);
    CHECK(client.call({.target = "/", .headers = {{"A", "b\r\nC: d"}}}).error().code == ErrorCode::usage);
    CHECK(server.requests == 0);
}

TEST_CASE("a peer that closed before it said anything has not answered") {
    for (const auto kind : {net::HttpParser::Kind::answer, net::HttpParser::Kind::request}) {
        net::HttpParser parser(kind, [](std::string_view) { return true; });
        parser.put_end();
        CHECK_FALSE(parser.done());
    }
}
