// The agent's socket for workers, as a process meets it that speaks the protocol by hand: who is let in, and what a
// stranger may hold.
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "daemon/agent/worker_server.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

constexpr AttemptKey attempt{.run = 7, .incarnation = 1};
constexpr std::int64_t nobody = 65534;

// An agent that welcomes whoever is let in.
struct Agent {
    explicit Agent(net::UnixLimits limits = {}, std::int64_t uid = -1) {
        std::filesystem::create_directory(folder);
        std::filesystem::permissions(folder, std::filesystem::perms(0755));
        auto listening = WorkerServer::listen(
            loop, path,
            [this](const Input& input) {
                const auto* joined = std::get_if<WorkerJoined>(&input);
                if (joined) server->send(joined->attempt, joined->rank, worker::Welcome{});
            },
            limits);
        REQUIRE(listening);
        server = std::move(*listening);
        std::filesystem::permissions(path, std::filesystem::perms(0666));
        server->admit("run-a1", {.attempt = attempt, .key = "key", .ranks = {0, 1}, .uid = uid});
        thread = std::thread([this] { loop.run(); });
    }
    ~Agent() {
        loop.post([this] {
            server.reset();
            loop.stop();
        });
        thread.join();
        std::filesystem::remove_all(folder);
    }
    std::string folder =
        (std::filesystem::temp_directory_path() / ("rtrain-workers-" + std::to_string(::getpid()))).string();
    std::string path = folder + "/sock";
    net::Loop loop;
    std::unique_ptr<WorkerServer> server;
    std::thread thread;
};

// A worker's end of the socket; what the agent says is waited for, 10 s at most.
struct Line {
    explicit Line(const std::string& path) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        timeval limit{.tv_sec = 10, .tv_usec = 0};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        connected = ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    ~Line() { ::close(socket); }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    void say(const worker::FromWorker& message) { raw(worker::encode(message)); }
    void raw(const std::string& bytes) { ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    void hello(worker::Hello hello = {.rank = 0}) {
        hello.attempt = "run-a1";
        if (hello.key.empty()) hello.key = "key";
        hello.pid = ::getpid();
        say(hello);
    }
    // The next message, or what ended the connection: "refuse: ...", "closed", "nothing".
    std::string heard() {
        for (;;) {
            auto body = reader.next();
            if (body && *body) return name_of(**body);
            char bytes[4096];
            const ssize_t got = ::recv(socket, bytes, sizeof bytes, 0);
            if (got == 0) return "closed";
            if (got < 0) return errno == EAGAIN ? "nothing" : "closed";
            reader.add({bytes, static_cast<std::size_t>(got)});
        }
    }
    static std::string name_of(const std::string& body) {
        auto message = worker::decode_from_agent(body);
        if (!message) return message.error().message;
        if (const auto* refuse = std::get_if<worker::Refuse>(&*message)) return "refuse: " + refuse->message;
        return std::holds_alternative<worker::Welcome>(*message) ? "welcome" : body;
    }
    int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    worker::FrameReader reader;
    bool connected = false;
};

bool tells(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a process is welcome with its attempt's key, a rank of this node, and one hello") {
    Agent agent;
    Line right(agent.path), wrong_key(agent.path), wrong_rank(agent.path), no_hello(agent.path);
    right.hello();
    CHECK(right.heard() == "welcome");
    right.hello({.rank = 1});
    CHECK(tells(right.heard(), "refuse: a connection is for one rank"));
    wrong_key.hello({.key = "guessed"});
    CHECK(tells(wrong_key.heard(), "refuse: wrong key"));
    wrong_rank.hello({.rank = 2});
    CHECK(tells(wrong_rank.heard(), "has no rank 2 on this node"));
    no_hello.say(worker::Stage{});
    CHECK(no_hello.heard() == "closed");
}

TEST_CASE("a hello that nests without bound, or is as long as a broadcast may be, ends its connection alone") {
    Agent agent;
    Line deep(agent.path), huge(agent.path), right(agent.path);
    const std::string brackets = std::string(30'000, '[') + std::string(30'000, ']');
    const std::string body = R"({"type":"report","index":1,"metrics":{"a":)" + brackets + R"(},"upload":"none"})";
    deep.raw(std::string("\0\0", 2) + static_cast<char>(body.size() >> 8) + static_cast<char>(body.size() & 0xff) +
             body);
    CHECK(tells(deep.heard(), "more than 128 levels"));
    huge.raw(std::string("\3\xb0\0\0[", 5));  // 59 MiB
    CHECK(huge.heard() == "closed");
    right.hello();
    CHECK(right.heard() == "welcome");
}

TEST_CASE("a user's connections that say nothing do not keep another user's ranks out") {
    if (::geteuid() != 0) return;  // another user's process is needed
    Agent agent({.strangers_of_user = 8, .strangers = 10, .stranger_ms = 60'000}, nobody);
    const auto as_nobody = [&](auto act) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(::setuid(nobody) == 0 && act() ? 0 : 1);
        int status = 1;
        ::waitpid(child, &status, 0);
        return status == 0;
    };
    std::vector<std::unique_ptr<Line>> idle;
    for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<Line>(agent.path));
    CHECK(idle.front()->heard() == "closed");
    CHECK(as_nobody([&] {
        std::vector<std::unique_ptr<Line>> others;  // so many that someone has to go: of the one who has more
        for (int i = 0; i < 4; ++i) others.push_back(std::make_unique<Line>(agent.path));
        for (auto& one : others) one->hello({.rank = 1});
        return others.back()->heard() == "welcome";
    }));
}

TEST_CASE("a process of another user is refused, also with the right key") {
    if (::geteuid() != 0) return;  // another user's process is needed
    const std::int64_t mine = 65533;
    Agent agent({}, mine);
    std::string heard(200, '\0');
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setuid(nobody) != 0) ::_exit(1);
        Line line(agent.path);
        line.hello();
        const std::string text = line.heard();
        ::_exit(::write(pipe[1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    ::close(pipe[1]);
    const ssize_t got = ::read(pipe[0], heard.data(), heard.size());
    ::close(pipe[0]);
    ::waitpid(child, nullptr, 0);
    heard.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    CHECK(tells(heard, "refuse: attempt run-a1 runs as user 65533, and this process as user 65534"));
}
