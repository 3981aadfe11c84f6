// The agent's socket for workers, tested with frames made by hand: the processes that are accepted, and the connections
// that a stranger may have.
#include "daemon/agent/worker_link/worker_server.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

constexpr AttemptKey attempt{.run = 7, .incarnation = 1};
constexpr std::int64_t nobody = 65534;

// An agent that welcomes each accepted process, and records the ranks' messages.
struct Agent {
    explicit Agent(net::UnixLimits limits = {}, std::int64_t uid = -1) {
        std::filesystem::create_directory(folder);
        std::filesystem::permissions(folder, std::filesystem::perms(0755));
        auto listening = WorkerServer::listen(
            loop, path,
            [this](const Input& input) {
                if (const auto* joined = std::get_if<WorkerJoined>(&input))
                    server->send(joined->attempt, joined->rank, worker::Welcome{});
                cuts += std::holds_alternative<WorkerCut>(input);
                stages += std::holds_alternative<WorkerMessage>(input);
            },
            limits);
        REQUIRE(listening);
        server = std::move(*listening);
        server->answer_readers([](AttemptKey, std::uint32_t) { return worker::Welcome{}; });
        std::filesystem::permissions(path, std::filesystem::perms(0666));
        server->admit(
            "run-a1",
            {.attempt = attempt, .key = "key", .ranks = {0, 1}, .uid = uid, .holder_file = [this](std::uint32_t rank) {
                 return folder + "/holder-" + std::to_string(rank);
             }});
        thread = std::thread([this] { loop.run(); });
    }
    ~Agent() {
        loop.post([this] {
            server.reset();
            loop.stop();
        });
        thread.join();
        if (!keeps_folder) std::filesystem::remove_all(folder);
    }
    bool keeps_folder = false;
    std::atomic<int> cuts{0}, stages{0};
    std::string folder =
        (std::filesystem::temp_directory_path() / ("rtrain-workers-" + std::to_string(::getpid()))).string();
    std::string path = folder + "/sock";
    net::Loop loop;
    std::unique_ptr<WorkerServer> server;
    std::thread thread;
};

// A worker's end of the socket. It waits for the agent's messages, at most 10 s.
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
        if (hello.place == worker::Place::untold) hello.place = place;
        say(hello);
    }
    // Returns the next message, or the end of the connection: "refuse: ...", "closed", "nothing".
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
    bool closed_now() const {
        char byte = 0;
        return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    }
    static std::string name_of(const std::string& body) {
        auto message = worker::decode_from_agent(body);
        if (!message) return message.error().message;
        if (const auto* refuse = std::get_if<worker::Refuse>(&*message)) return "refuse: " + refuse->message;
        const auto* welcome = std::get_if<worker::Welcome>(&*message);
        if (!welcome) return body;
        return welcome->holder == 0 ? "welcome" : "reads, " + std::to_string(welcome->holder) + " has the place";
    }
    int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    worker::Place place = worker::Place::wanted;
    worker::FrameReader reader;
    bool connected = false;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a process is welcome with its attempt's key, a rank of this node, and one hello") {
    Agent agent;
    Line right(agent.path), wrong_key(agent.path), wrong_rank(agent.path), no_hello(agent.path);
    right.hello();
    CHECK(right.heard() == "welcome");
    right.hello({.rank = 1});
    CHECK(contains(right.heard(), "refuse: a connection is for one rank"));
    wrong_key.hello({.key = "guessed"});
    CHECK(contains(wrong_key.heard(), "refuse: wrong key"));
    wrong_rank.hello({.rank = 2});
    CHECK(contains(wrong_rank.heard(), "has no rank 2 on this node"));
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
    CHECK(contains(deep.heard(), "more than 128 levels"));
    huge.raw(std::string("\3\xb0\0\0[", 5));  // 59 MiB
    CHECK(huge.heard() == "closed");
    right.hello();
    CHECK(right.heard() == "welcome");
}

TEST_CASE("a user's connections that say nothing do not keep another user's ranks out") {
    if (::geteuid() != 0) return;  // needs a process of another user
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
        std::vector<std::unique_ptr<Line>> others;  // so many that one must be closed: of the user with more
        for (int i = 0; i < 4; ++i) others.push_back(std::make_unique<Line>(agent.path));
        for (auto& one : others) one->hello({.rank = 1});
        return others.back()->heard() == "welcome";
    }));
}

TEST_CASE("a process of another user is refused, also with the right key") {
    if (::geteuid() != 0) return;  // needs a process of another user
    const std::int64_t own = 65533;
    Agent agent({}, own);
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
    CHECK(contains(heard, "refuse: attempt run-a1 runs as user 65533, and this process as user 65534"));
}

namespace {

// A process that connects, sends hello, reports the answer, and then follows the test's commands.
struct Process {
    explicit Process(const std::string& path, worker::Place place = worker::Place::wanted) {
        REQUIRE(::pipe(words) == 0);
        REQUIRE(::pipe(answers) == 0);
        pid = ::fork();
        if (pid == 0) {
            ::close(words[1]), ::close(answers[0]);  // so that the read ends with the test
            Line line(path);
            line.place = place;
            line.hello();
            for (bool holds = false;;) {
                const std::string text = (holds ? "holds" : line.heard()) + "\n";
                if (::write(answers[1], text.data(), text.size()) < 0) ::_exit(1);
                char word = 0;
                if (::read(words[0], &word, 1) != 1) ::_exit(0);
                if (word == 'r') line.say(worker::Release{});
                if (word == 's') line.say(worker::Stage{});
                if (holds = word == 'f'; holds && ::fork() == 0) {  // holds the connection open until the test ends
                    while (::read(words[0], &word, 1) == 1) {}
                    ::_exit(0);
                }
            }
        }
    }
    ~Process() { end(); }
    void kill() {
        ::kill(pid, SIGKILL);
        ::waitpid(std::exchange(pid, 0), nullptr, 0);
    }
    void end() {
        if (pid > 0) kill();
        for (int* const one : {&words[0], &words[1], &answers[0], &answers[1]}) ::close(std::exchange(*one, -1));
    }
    void tell(char word) { REQUIRE(::write(words[1], &word, 1) == 1); }
    std::string heard() {
        std::string text;
        for (char c = 0; ::read(answers[0], &c, 1) == 1 && c != '\n';) text += c;
        return text;
    }
    int words[2]{}, answers[2]{};
    pid_t pid = 0;
};

bool comes_true(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return condition();
}

}  // namespace

TEST_CASE("a rank's second process reads what it is told, and the first one's connection stays") {
    Agent agent;
    Process first(agent.path);
    CHECK(first.heard() == "welcome");
    const std::string has = "reads, " + std::to_string(first.pid) + " has the place";
    for (const auto place : {worker::Place::wanted, worker::Place::not_wanted}) {
        Process second(agent.path, place);
        CHECK(second.heard() == has);
        second.tell('-');
        CHECK(second.heard() == "closed");
    }
    Line older(agent.path);  // an older library, without the place of a process
    older.place = worker::Place::untold;
    older.hello();
    CHECK(contains(older.heard(), "refuse: rank 0 belongs to process " + std::to_string(first.pid)));
    first.tell('s');
    CHECK(comes_true([&] { return agent.stages == 1; }));
    CHECK(agent.cuts == 0);
}

TEST_CASE("a place passes on when its process ends or gives it up, also while a child holds the old connection open") {
    Agent agent;
    auto first = std::make_unique<Process>(agent.path);
    CHECK(first->heard() == "welcome");
    first->tell('r');
    CHECK(first->heard() == "closed");
    Process second(agent.path);
    CHECK(second.heard() == "welcome");
    Process reader(agent.path, worker::Place::not_wanted);
    CHECK(contains(reader.heard(), "reads, " + std::to_string(second.pid)));
    second.tell('f');
    CHECK(second.heard() == "holds");
    second.kill();
    Process third(agent.path), only_reads(agent.path, worker::Place::not_wanted);
    CHECK(third.heard() == "welcome");
    CHECK(contains(only_reads.heard(), " has the place"));
}

TEST_CASE("one process that connects again has the place, and its old connection's end is not the new one's") {
    Agent agent;
    auto old_one = std::make_unique<Line>(agent.path);
    old_one->hello();
    CHECK(old_one->heard() == "welcome");
    Line new_one(agent.path);
    new_one.hello();
    CHECK(new_one.heard() == "welcome");
    CHECK(old_one->heard() == "closed");
    old_one.reset();
    new_one.say(worker::Stage{});
    CHECK(comes_true([&] { return agent.stages == 1; }));
    CHECK(agent.cuts == 0);
    CHECK_FALSE(new_one.closed_now());
}

TEST_CASE("after the agent's restart the place is still its process's, who ever comes first") {
    auto before = std::make_unique<Agent>();
    Process first(before->path);
    CHECK(first.heard() == "welcome");
    before->keeps_folder = true;
    before.reset();
    Agent agent;
    Process child(agent.path);
    CHECK(contains(child.heard(), "reads, " + std::to_string(first.pid)));
    first.end();
    Process next(agent.path);
    CHECK(next.heard() == "welcome");
}
