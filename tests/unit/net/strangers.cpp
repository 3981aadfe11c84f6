// Bytes that no client of rtrain sends: random ones before and inside of TLS, malformed and endless requests. The
// server must answer with an error or close the connection, and serve the next one.
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "tests/unit/net_raw.hpp"
#include "tests/unit/net_world.hpp"

using namespace net_tests;

namespace {

std::string noise(std::mt19937& random, std::size_t bytes) {
    std::string out(bytes, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
}

// A valid request with some of its bytes changed.
std::string nearly(std::mt19937& random) {
    std::string text =
        "POST /v1/runs?a=%20 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for (unsigned i = 0, n = 1 + random() % 4; i < n; ++i) text[random() % text.size()] = static_cast<char>(random());
    return text + "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
}

void still_serves(TestServer& server) {
    auto answer = net::Client(server.endpoint()).call({.target = "/alive"});
    if (!answer) FAIL(answer.error().message);
    CHECK(answer->status == 200);
}

}  // namespace

TEST_CASE("noise on the port, before TLS and inside it, never stops the server") {
    net::ServerOptions options;
    options.idle_timeout_ms = 1'000;
    TestServer server(echo, options);
    std::mt19937 random(7'433);
    for (int i = 0; i < 40; ++i) {
        const int fd = connect_tcp(server.server->port());
        const std::string bytes = noise(random, 1 + random() % 3'000);
        (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        close(fd);
    }
    for (int i = 0; i < 16; ++i) {
        RawTls stranger(server.server->port());
        stranger.say(i % 2 ? noise(random, 1 + random() % 3'000) : nearly(random));
        const std::string answer = stranger.read_all();  // an error answer, or the idle timeout; so the read ends
        CHECK((answer.empty() || answer.starts_with("HTTP/1.1 ")));
    }
    still_serves(server);
}

TEST_CASE("malformed requests get an answer that says so") {
    TestServer server(echo);
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"GARBAGE\r\n\r\n", "400"},
        {"GET /%zz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "400"},
        {"GET /%00 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "400"},
        {"GET http://h/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", "400"},
        {"GET / HTTP/1.1\r\nX: " + std::string(70u << 10, 'x') + "\r\n\r\n", "431"},
    };
    for (const auto& [request, status] : cases) {
        RawTls stranger(server.server->port());
        stranger.say(request);
        const std::string answer = stranger.read_all();
        INFO(request.substr(0, 80));
        CHECK(answer.starts_with("HTTP/1.1 " + status));
    }
    CHECK(server.requests == 0);
    still_serves(server);
}

TEST_CASE("requests in one packet are answered in order") {
    TestServer server(echo);
    RawTls peer(server.server->port());
    peer.say(
        "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nxyGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\nConnection: "
        "close\r\n\r\n");
    const std::string all = peer.read_all();
    const auto a = all.find("POST /a xy"), b = all.find("GET /b"), c = all.find("GET /c");
    CHECK((a != all.npos && b != all.npos && c != all.npos && a < b && b < c));
}

TEST_CASE("plain HTTP on the port is told to use https") {
    TestServer server(echo);
    const int fd = connect_tcp(server.server->port());
    const std::string request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    REQUIRE(send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[1024];
    for (ssize_t n = 0; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        answer.append(buffer, static_cast<std::size_t>(n));
    close(fd);
    CHECK(answer.find("https") != std::string::npos);
    CHECK(server.requests == 0);
}

TEST_CASE("whoever connects and says nothing, or half a request, is let go after the timeout") {
    net::ServerOptions options;
    options.idle_timeout_ms = 1'500;
    TestServer server(echo, options);
    const int silent = connect_tcp(server.server->port());
    char byte = 0;
    CHECK(recv(silent, &byte, 1, 0) <= 0);
    CHECK(errno != EAGAIN);
    close(silent);
    RawTls half(server.server->port());
    half.say("GET / HT");
    CHECK(half.read_all().empty());
    still_serves(server);
}

TEST_CASE("a server with connections of every kind open ends quickly, and their clients learn it") {
    auto server = std::make_unique<TestServer>([](net::Request, auto) {});
    std::vector<std::unique_ptr<RawTls>> peers;
    for (int i = 0; i < 20; ++i) peers.push_back(std::make_unique<RawTls>(server->server->port()));
    peers[0]->say("GET / HT");
    peers[1]->say("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf");
    const int handshaking = connect_tcp(server->server->port());
    const auto begun = std::chrono::steady_clock::now();
    server.reset();
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
    for (auto& peer : peers) CHECK(peer->read_all().empty());
    close(handshaking);
}

TEST_CASE("a caller gets in beside 1,024 idle connections, and the oldest of them goes") {
    rlimit most{};
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    constexpr std::size_t room = 1'024, descriptors = 2 * room + 200;
    if (most.rlim_cur < descriptors) {
        WARN("too few descriptors may be open here for this test");
        return;
    }
    net::ServerOptions options;
    options.idle_timeout_ms = 120'000;
    TestServer server(echo, options);
    std::vector<int> open;
    for (std::size_t i = 0; i < room; ++i) open.push_back(connect_tcp(server.server->port()));
    still_serves(server);
    char byte = 0;
    CHECK(recv(open.front(), &byte, 1, 0) == 0);  // closed without an answer
    for (const int fd : open) close(fd);
    still_serves(server);
}

TEST_CASE("a server without a free descriptor goes on with connections when there is one") {
    if (with_address_sanitizer) return;  // the sanitizers open a pipe to check memory
    net::ServerOptions options;
    options.threads = 2;  // the second thread has had no connection yet
    TestServer server(echo, options);
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server.server->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rlimit none = before;
    none.rlim_cur = 1;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const int connected = connect(caller, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    poll(nullptr, 0, 500);  // the server tries several times to accept it
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(connected == 0);
    close(caller);
    still_serves(server);
    still_serves(server);
}

TEST_CASE("a WebSocket whose other end answers no ping is taken for dead, and its owner is told") {
    Seen<std::string> closed;
    std::shared_ptr<net::Socket> socket;
    TestServer server([&](const net::Request&, const std::shared_ptr<net::Responder>& responder) {
        socket = responder->accept_socket(
            {.on_text = [](const std::string&) {}, .on_closed = [&](const std::string& why) { closed.set(why); }});
    });
    RawTls silent(server.server->port());
    silent.say(
        "GET /v1/agents HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "
        "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    for (int tries = 0; tries < 3 && closed.count() == 0; ++tries) closed.wait(1);  // 20 s, on a slow machine too
    REQUIRE(closed.count() == 1);
    CHECK(closed.all()[0] == "no sign of life from the peer");
    server.home.on_loop([&] { socket.reset(); });
}
