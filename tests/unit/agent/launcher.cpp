// Real processes through the shim. This program has the shim's hidden verb.
#include "daemon/agent/workers/launcher.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "daemon/agent/hardware/processes.hpp"
#include "daemon/agent/workers/shim.h"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/run_until.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

// Runs before main: the launcher starts this very program as the shim.
__attribute__((constructor)) void become_shim(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "__shim") == 0) _exit(shim_main(argc, argv));
}

constexpr AttemptKey launched{17, 1};
constexpr std::int64_t patience_ms = 60'000;

// A launcher on a loop, and its events.
struct LaunchStory {
    Folder folder;
    net::Loop loop;
    std::map<std::uint32_t, std::int64_t> started;
    std::map<std::uint32_t, ExitCause> ended;
    std::unique_ptr<Launcher> launcher = make();

    std::unique_ptr<Launcher> make() {
        return std::make_unique<Launcher>(
            loop, "/proc/self/exe",
            WorkerEvents{.started = [this](AttemptKey, std::uint32_t rank, std::int64_t pid) { started[rank] = pid; },
                         .ended = [this](AttemptKey, std::uint32_t rank, const ExitCause& cause,
                                         std::int64_t) { ended[rank] = cause; }});
    }
    WorkerStart worker(std::vector<std::string> program, std::uint32_t rank = 0) {
        const std::string directory = folder.path + "/" + rank_text(rank);
        REQUIRE(make_directory(directory, 0755));
        return {.attempt = launched,
                .rank = rank,
                .directory = directory,
                .out = directory + "/out",
                .err = directory + "/err",
                .cwd = directory,
                .program = std::move(program),
                .environment = {{"PATH", "/usr/bin:/bin"}, {"RTRAIN_ATTEMPT", "test-" + std::to_string(::getpid())}}};
    }
    bool until(const std::function<bool()>& condition) { return test::run_until(loop, condition); }
    bool until_ended(std::size_t workers = 1) {
        return until([this, workers] { return ended.size() == workers; });
    }
};

std::string text_of(const std::string& file) {
    const auto text = read_whole(file);
    return text ? *text : "(" + text.error().message + ")";
}

bool has_text(const std::string& file) {
    const auto text = read_whole(file);
    return text && !text->empty();
}

// A separate tmpfs; needs root.
struct SmallDisk {
    std::string path;
    bool there;
    explicit SmallDisk(std::string at) : path(std::move(at)) {
        REQUIRE(make_directory(path, 0755));
        there = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") == 0;
        if (!there) WARN("skipped: mounting a small tmpfs needs root");
    }
    ~SmallDisk() {
        if (there) ::umount2(path.c_str(), MNT_DETACH);
    }
    void fill() const {
        std::ofstream file(path + "/in-the-way", std::ios::app);
        const std::string page(4096, 'x');
        while (file.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {}
        CHECK_FALSE(write_whole(path + "/more", "x", 0600, Durable::no));
    }
};

bool alive(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0; }

}  // namespace

TEST_CASE("a worker starts in its directory with its environment, and its exit code is told") {
    LaunchStory story;
    auto start = story.worker({"sh", "-c", "pwd; echo $COLOUR; echo oops >&2; exit 3"});
    start.environment["COLOUR"] = "blue";
    story.launcher->start(start);

    REQUIRE(story.until_ended());
    CHECK(story.started.count(0) == 1);
    CHECK(story.ended[0].exit_code == 3);
    CHECK(story.ended[0].detail == "oops");
    CHECK(text_of(start.out) == start.cwd + "\nblue\n");
    CHECK(read_values(start.directory + "/started").at("pid") == std::to_string(story.started[0]));
}

TEST_CASE("the shim has no environment of the job, and the worker has it whole, however large") {
    LaunchStory story;
    const auto shim_of = [](const std::string& text) { return "/proc/" + text.substr(0, text.find('\n')); };
    auto start = story.worker({"sh", "-c", "echo $PPID; tr '\\0' '\\n' </proc/$$/environ | wc -c; read line <gate"});
    REQUIRE(::system(("mkfifo " + start.cwd + "/gate").c_str()) == 0);
    std::size_t bytes = 0;
    for (int i = 0; i < 10; ++i) start.environment["LARGE_" + std::to_string(i)] = std::string(100'000, 'x');
    start.environment["LD_PRELOAD"] = start.cwd + "/not-there.so";
    for (const auto& [name, value] : start.environment) bytes += name.size() + value.size() + 2;
    story.launcher->start(start);
    REQUIRE(story.until([&] {
        const std::string output = text_of(start.out);
        return std::count(output.begin(), output.end(), '\n') == 2;
    }));
    const std::string out = text_of(start.out);
    CHECK(text_of(shim_of(out) + "/environ").empty());
    CHECK(text_of(shim_of(out) + "/cmdline").find("__shim") != std::string::npos);
    CHECK(text_of(shim_of(out) + "/maps").find("rtrain-environment") == std::string::npos);
    const auto seen = std::stoul(out.substr(out.find('\n')));
    CHECK(seen >= bytes);  // a shell adds PWD
    CHECK(seen < bytes + 4'096);
    std::ofstream(start.cwd + "/gate") << "go\n";
    REQUIRE(story.until_ended());
}

namespace {

// Returns a worker's rights and descriptors as the kernel reports them.
std::map<std::string, std::string> rights_of_worker(const WorkerUser& user, bool allow_setuid) {
    LaunchStory story;
    auto start =
        story.worker({"sh", "-c", "cat /proc/$$/status; for d in /proc/$$/fd/*; do echo \"fd:\t${d##*/}\"; done"});
    start.cwd = "/";
    start.user = user;
    start.allow_setuid = allow_setuid;
    const int left_open = ::open("/dev/null", O_RDONLY);  // without close-on-exec
    story.launcher->start(start);
    REQUIRE(story.until_ended());
    ::close(left_open);
    std::map<std::string, std::string> facts;
    std::ifstream lines(start.out);
    for (std::string line; std::getline(lines, line);) {
        const auto colon = line.find(":\t");
        if (colon != std::string::npos)
            facts[line.substr(0, colon)] += (facts.contains(line.substr(0, colon)) ? " " : "") + line.substr(colon + 2);
    }
    return facts;
}

constexpr const char* no_capability = "0000000000000000";

}  // namespace

TEST_CASE("no program of a worker gains rights, unless the agent allows it, and it has no descriptor of the agent") {
    auto facts = rights_of_worker({}, false);
    CHECK(facts["NoNewPrivs"] == "1");
    CHECK(facts["fd"].starts_with("0 1 2"));
    CHECK(facts["fd"].size() <= std::strlen("0 1 2 10"));  // a shell may keep its own descriptors
    CHECK(rights_of_worker({}, true)["NoNewPrivs"] == "0");
}

TEST_CASE("a worker of another user has no capability, and none can come back") {
    if (::geteuid() != 0) {
        WARN("skipped: changes users");
        return;
    }
    const WorkerUser nobody{.uid = 65'534, .gid = 65'534, .name = "nobody", .home = "/"};
    auto facts = rights_of_worker(nobody, false);
    CHECK(facts["Uid"] == "65534\t65534\t65534\t65534");
    CHECK(facts["Gid"] == "65534\t65534\t65534\t65534");
    CHECK(facts["Groups"].find_first_not_of("65534 ") == std::string::npos);
    CHECK(facts["NoNewPrivs"] == "1");
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
        INFO(set);
        CHECK(facts[set] == no_capability);
    }
    auto allowed = rights_of_worker(nobody, true);
    CHECK(allowed["NoNewPrivs"] == "0");
    CHECK(allowed["CapEff"] == no_capability);
    CHECK(allowed["CapPrm"] == no_capability);
    CHECK(allowed["CapBnd"] != no_capability);
}

TEST_CASE("what a worker is before its program is seen by no user, and strays of it are found") {
    if (::geteuid() != 0) {
        WARN("skipped: changes users");
        return;
    }
    LaunchStory story;
    auto start = story.worker({"sh", "-c", "echo it ran"});
    start.cwd = "/";
    start.user = {.uid = 65'534, .gid = 65'534, .name = "nobody", .home = "/"};
    start.wait_ms = patience_ms * 2;
    start.environment["RTRAIN_NODE"] = "node-1";
    story.launcher->start(start);
    REQUIRE(story.until([&] { return read_whole(start.directory + "/started").ok(); }));
    const std::string pid = read_values(start.directory + "/started").at("pid");
    const pid_t other = ::fork();
    if (other == 0) {
        const bool is_other = ::setgid(65'534) == 0 && ::setuid(65'534) == 0;
        const bool seen = ::open(("/proc/" + pid + "/environ").c_str(), O_RDONLY) >= 0 ||
                          ::open(("/proc/" + pid + "/mem").c_str(), O_RDONLY) >= 0 ||
                          ::access(("/proc/" + pid + "/fd/4").c_str(), F_OK) == 0;
        ::_exit(!is_other ? 2 : seen ? 1 : 0);
    }
    int status = 0;
    ::waitpid(other, &status, 0);
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(kill_strays(start.environment["RTRAIN_ATTEMPT"], "node-2") == 0);
    CHECK(kill_strays(start.environment["RTRAIN_ATTEMPT"], "node-1") >= 1);  // the shim; its worker dies with it
    REQUIRE(story.until_ended());
    CHECK(text_of(start.out) == "");
}

TEST_CASE("an entrypoint that does not exist is named, and was never started") {
    LaunchStory story;
    story.launcher->start(story.worker({"./no-such-program"}));
    story.launcher->start(story.worker({"sh", "-c", "no-such-command --now"}, 1));
    REQUIRE(story.until_ended(2));
    CHECK(story.ended[0].never_started);
    CHECK(story.ended[0].detail == "the entrypoint './no-such-program' does not exist on this node");
    CHECK(story.started.count(0) == 0);
    CHECK(story.ended[1].never_started);
    CHECK(story.ended[1].exit_code == 127);
    CHECK(story.ended[1].detail.find("no-such-command") != std::string::npos);
}

TEST_CASE("a kill of a worker reaches its whole group, and what escaped from it ends too") {
    LaunchStory story;
    const auto start =
        story.worker({"sh", "-c", "setsid sleep 1000 & echo $! >escaped; sleep 1000 & echo $! >child; wait"});
    story.launcher->start(start);
    REQUIRE(story.until([&] { return has_text(start.cwd + "/child") && story.started.count(0) == 1; }));

    story.launcher->kill(launched, 0);

    REQUIRE(story.until_ended());
    CHECK(story.ended[0].signal == SIGKILL);
    CHECK_FALSE(alive(std::stol(text_of(start.cwd + "/child"))));
    CHECK_FALSE(alive(std::stol(text_of(start.cwd + "/escaped"))));
}

TEST_CASE("a stop of a shell reaches its commands, and what these have started goes on") {
    LaunchStory story;
    const std::string traps = "trap 'echo got it >caught; exit 7' TERM; sleep 1000 & echo \\$! >inner; echo >up; wait";
    const auto start = story.worker({"sh", "-c", "cd . && sh -c \"" + traps + "\"; echo $? >status; exit 3"});
    story.launcher->start(start);
    REQUIRE(story.until([&] { return has_text(start.cwd + "/up"); }));

    story.launcher->stop(launched, 0, {});

    REQUIRE(story.until_ended());
    CHECK(story.ended[0].exit_code == 3);  // the outer shell was not signalled
    CHECK(text_of(start.cwd + "/status") == "7\n");
    CHECK(text_of(start.cwd + "/caught") == "got it\n");
    CHECK_FALSE(alive(std::stol(text_of(start.cwd + "/inner"))));  // it ended with the rank
}

TEST_CASE("a stop reaches the holder below programs that leave the signal at its default") {
    LaunchStory story;
    const auto start =
        story.worker({"env", "sh", "-c", "(sh -c 'echo $$ >holder; sleep 1000; exit 5'; exit 6); exit 4"});
    story.launcher->start(start);
    REQUIRE(story.until([&] { return has_text(start.cwd + "/holder"); }));
    const std::int64_t holder = std::stol(text_of(start.cwd + "/holder"));

    story.launcher->stop(launched, 0, process_of(holder));

    REQUIRE(story.until_ended());
    CHECK(story.ended[0].exit_code == 4);
    CHECK_FALSE(alive(holder));
}

TEST_CASE("a stop reaches no process outside of the rank, whoever is called its holder") {
    LaunchStory story;
    const auto start = story.worker({"sleep", "1000"});
    story.launcher->start(start);
    REQUIRE(story.until([&] { return story.started.count(0) == 1; }));
    const pid_t stranger = ::fork();
    if (stranger == 0) {
        ::pause();
        ::_exit(0);
    }

    story.launcher->stop(launched, 0, process_of(stranger));

    REQUIRE(story.until_ended());
    CHECK(story.ended[0].signal == SIGTERM);
    CHECK(alive(stranger));
    ::kill(stranger, SIGKILL);
    ::waitpid(stranger, nullptr, 0);
}

TEST_CASE("a worker that still waits before its program can be stopped") {
    LaunchStory story;
    WorkerStart start = story.worker({"sh", "-c", "echo it ran"});
    start.wait_ms = patience_ms * 2;
    story.launcher->start(start);
    REQUIRE(story.until([&] { return read_whole(start.directory + "/started").ok(); }));
    CHECK(story.started.empty());  // the process exists, but has not become its program
    story.launcher->stop(launched, 0, {});
    REQUIRE(story.until_ended());
    CHECK(story.ended[0].signal == SIGTERM);
    CHECK(text_of(start.out) == "");
}

TEST_CASE("a worker enters the cgroup and takes the processors that it was given") {
    LaunchStory story;
    const std::string group = story.folder.path + "/group";
    REQUIRE(make_directory(group, 0755));
    REQUIRE(write_whole(group + "/cgroup.procs", "", 0644, Durable::no));
    WorkerStart worker = story.worker({"sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
    worker.cgroup = group;
    worker.processors = "0";
    story.launcher->start(worker);
    REQUIRE(story.until([&] { return story.ended.contains(0); }));
    CHECK(story.ended[0].success());
    CHECK(*read_whole(group + "/cgroup.procs") == "0");  // "0" stands for the writing process
    CHECK(*read_whole(worker.out) == "Cpus_allowed_list:\t0\n");
}

TEST_CASE("a worker dies with its shim") {
    LaunchStory story;
    const auto start = story.worker({"sleep", "1000"});
    story.launcher->start(start);
    REQUIRE(story.until([&] { return story.started.count(0) == 1; }));
    const auto shim = std::stol(read_values(start.directory + "/started").at("shim"));

    ::kill(static_cast<pid_t>(shim), SIGKILL);

    REQUIRE(story.until_ended());
    CHECK(story.ended[0].signal == SIGKILL);
    CHECK(story.ended[0].detail.find("shim") != std::string::npos);
    CHECK(story.until([&] { return !alive(story.started[0]); }));
}

TEST_CASE("a disk that fills up while a worker runs does not turn its success into a failure") {
    LaunchStory story;
    const SmallDisk disk(story.folder.path + "/disk");
    if (!disk.there) return;
    WorkerStart start = story.worker({"sh", "-c", "read line <gate; exit 0"});
    start.directory = disk.path + "/rank-00000";
    REQUIRE(make_directory(start.directory, 0755));
    REQUIRE(::system(("mkfifo " + start.cwd + "/gate").c_str()) == 0);
    story.launcher->start(start);
    REQUIRE(story.until([&] { return story.started.count(0) == 1; }));
    disk.fill();
    std::ofstream(start.cwd + "/gate") << "go\n";
    REQUIRE(story.until_ended());
    CHECK(story.ended[0].success());
    CHECK(story.ended[0].detail == "");
}

TEST_CASE("on a full disk no worker is started of whose end nobody could tell, and it is said why") {
    LaunchStory story;
    const SmallDisk disk(story.folder.path + "/disk");
    if (!disk.there) return;
    WorkerStart start = story.worker({"sh", "-c", "echo it ran"});
    start.directory = disk.path + "/rank-00000";
    REQUIRE(make_directory(start.directory, 0755));
    disk.fill();
    story.launcher->start(start);
    REQUIRE(story.until_ended());
    CHECK(story.ended[0].never_started);
    CHECK(story.ended[0].detail == "the agent cannot write into " + start.directory +
                                       ": No space left on device; make room on the file system of the agent's --data "
                                       "directory");
    CHECK_FALSE(read_whole(start.out));
}

TEST_CASE("a worker whose pid nobody has written down can be ended all the same") {
    LaunchStory story;
    const auto start = story.worker({"sleep", "1000"});
    story.launcher->start(start);
    REQUIRE(story.until([&] { return story.started.count(0) == 1; }));
    REQUIRE(::unlink((start.directory + "/started").c_str()) == 0);
    story.launcher->kill(launched, 0);
    REQUIRE(story.until_ended());
    CHECK(story.ended[0].signal == SIGKILL);
    CHECK(story.until([&] { return !alive(story.started[0]); }));
}

TEST_CASE("a stranger that was given the shim's pid is not taken for it: the worker is over") {
    for (const std::string since : {"shim_start_time 1\n", ""}) {  // "": written by an older agent
        LaunchStory story;
        const auto start = story.worker({"true"});
        const std::string boot = *read_whole("/proc/sys/kernel/random/boot_id");
        const std::string own = std::to_string(::getpid());
        REQUIRE(write_whole(start.directory + "/started",
                            "pid " + own + "\nstart_time 1\nshim " + own + "\n" + since + "boot_id " + boot, 0600,
                            Durable::no));
        story.launcher->adopt(launched, 0, start.directory, start.err);
        REQUIRE(story.until_ended());
        CHECK(story.ended[0].signal == SIGKILL);
    }
}

TEST_CASE("a new agent adopts the workers of the old one, running or ended meanwhile") {
    LaunchStory story;
    const auto running = story.worker({"sh", "-c", "read line <gate; exit 5"});
    const auto quick = story.worker({"true"}, 1);
    REQUIRE(::system(("mkfifo " + running.cwd + "/gate").c_str()) == 0);
    story.launcher->start(running);
    story.launcher->start(quick);
    REQUIRE(story.until([&] { return story.started.size() == 2 && read_whole(quick.directory + "/exit").ok(); }));
    const std::int64_t pid = story.started[0];
    story.started.clear();
    story.ended.clear();

    story.launcher = story.make();
    CHECK(story.launcher->adopt(launched, 0, running.directory, running.err) == pid);
    story.launcher->adopt(launched, 1, quick.directory, quick.err);
    REQUIRE(story.until_ended(1));
    CHECK(story.ended[1].exit_code == 0);
    std::ofstream(running.cwd + "/gate") << "go\n";
    REQUIRE(story.until_ended(2));
    CHECK(story.ended[0].exit_code == 5);
}

TEST_CASE("strays are found by their environment, and another node's on this machine are left alone") {
    const std::string attempt = "stray-" + std::to_string(::getpid()) + "-a7";
    const auto stray_of = [&](const std::string& node) {
        const pid_t child = ::fork();
        if (child != 0) return child;
        ::setenv("RTRAIN_ATTEMPT", attempt.c_str(), 1);
        ::setenv("RTRAIN_NODE", node.c_str(), 1);
        ::execlp("sleep", "sleep", "60", nullptr);
        ::_exit(127);
    };
    const pid_t ours = stray_of("node-1"), other = stray_of("node-2");
    std::size_t killed = 0;
    for (int tries = 0; tries < 2'000 && killed == 0; ++tries) {
        killed = kill_strays(attempt, "node-1");  // the child may not have become `sleep` yet
        ::usleep(1'000);
    }
    CHECK(killed == 1);
    int status = 0;
    ::waitpid(ours, &status, 0);
    CHECK(WTERMSIG(status) == SIGKILL);
    CHECK(::waitpid(other, &status, WNOHANG) == 0);
    ::kill(other, SIGKILL);
    ::waitpid(other, &status, 0);
}

TEST_CASE("a hundred quick workers are started and seen to end") {
    LaunchStory story;
    for (std::uint32_t rank = 0; rank < 100; ++rank) story.launcher->start(story.worker({"true"}, rank));
    REQUIRE(story.until_ended(100));
    CHECK(story.started.size() == 100);
    for (const auto& [rank, cause] : story.ended) CHECK(cause.success());
}
