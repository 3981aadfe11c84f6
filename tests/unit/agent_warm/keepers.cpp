// Real keepers, and templates of the system's Python. This test program has the hidden verbs that a keeper runs.
#include <signal.h>

#include <cstring>

#include "daemon/agent/warm/keeper.h"
#include "daemon/agent/workers/shim.h"
#include "tests/unit/agent_warm/warm_story.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::warm_setup;

namespace {

__attribute__((constructor)) void become_keeper(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "__keeper") == 0) _exit(keeper_main(argc, argv));
    if (argc > 1 && std::strcmp(argv[1], "__shim") == 0) _exit(shim_main(argc, argv));
}

const WorkerUser nobody{.uid = 65'534, .gid = 65'534, .name = "nobody", .home = "/"};

}  // namespace

TEST_CASE("a worker is forked from a template, its parent is the keeper, and its exit code is told") {
    WarmStory story;
    story.begin(story.spec());
    auto start = story.worker(
        "import os, sys\nprint(os.getcwd(), sys.argv, __name__, __file__, 'json' in sys.modules, os.environ['COLOUR'], "
        "os.getppid(), os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd')))\n"
        "print('oops', file=sys.stderr)\nsys.exit(3)\n");
    start.program.push_back("--lr=0.1");
    start.environment["COLOUR"] = "blue";
    const std::int64_t keeper = story.parent_of(story.ready["t"]);
    story.fork(start);

    REQUIRE(story.until_ended());
    CHECK(story.refused.empty());
    CHECK(story.ended[0].exit_code == 3);
    CHECK(story.ended[0].detail == "oops");
    CHECK(text_of(start.out) == start.cwd + " ['train.py', '--lr=0.1'] __main__ " + start.cwd + "/train.py True blue " +
                                    std::to_string(keeper) + " True ['0', '1', '2', '3']\n");
    CHECK(read_values(start.directory + "/started").at("pid") == std::to_string(story.started[0]));
    CHECK(alive(story.ready["t"]));  // It waits for the next order.
}

TEST_CASE("workers of one template end each by itself, by signal and with what they left behind") {
    WarmStory story;
    story.begin(story.spec());
    const std::string wait =
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['setsid', 'sleep', '1000'])\n"
        "open('child', 'w').write(str(child.pid)); os.rename('child', 'there')\ntime.sleep(1000)\n";
    const auto first = story.worker(wait), second = story.worker(wait, 1);
    story.fork(first);
    story.fork(second);
    REQUIRE(story.until([&] { return fs::exists(first.cwd + "/there") && fs::exists(second.cwd + "/there"); }));

    story.launcher->stop(attempt, 0, {});

    REQUIRE(story.until_ended(1));
    CHECK(story.ended[0].signal == SIGTERM);
    CHECK_FALSE(alive(std::stol(text_of(first.cwd + "/there"))));
    CHECK(alive(std::stol(text_of(second.cwd + "/there"))));
    story.launcher->kill(attempt, 1);
    REQUIRE(story.until_ended(2));
    CHECK(story.ended[1].signal == SIGKILL);
    CHECK_FALSE(alive(std::stol(text_of(second.cwd + "/there"))));
}

TEST_CASE("the end of the template or of the agent's socket ends no worker, and its end is still told") {
    WarmStory story;
    story.begin(story.spec());
    auto start = story.worker("import os, sys\nos.mkfifo('gate')\nopen('gate').read()\nsys.exit(4)\n");
    story.fork(start);
    REQUIRE(story.until([&] { return fs::exists(start.cwd + "/gate"); }));

    ::kill(static_cast<pid_t>(story.ready["t"]), SIGKILL);
    REQUIRE(story.until([&] { return story.gone.contains("t"); }));
    story.keepers.reset();
    story.launcher = story.make_launcher();  // As the next agent does.
    CHECK(story.launcher->adopt(attempt, 0, start.directory, start.err) == story.started[0]);
    std::ofstream(start.cwd + "/gate") << "go\n";

    REQUIRE(story.until_ended());
    CHECK(story.ended[0].exit_code == 4);
}

TEST_CASE("a worker dies with its keeper, and what was asked of it meanwhile is refused") {
    WarmStory story;
    story.begin(story.spec());
    const auto start = story.worker("import time\nprint('it runs')\ntime.sleep(1000)\n");
    story.fork(start);
    REQUIRE(story.until([&] { return story.started.contains(0); }));
    const std::int64_t keeper = story.parent_of(story.started[0]);
    ::kill(static_cast<pid_t>(keeper), SIGSTOP);
    story.fork(story.worker("print('never')\n", 1));
    ::kill(static_cast<pid_t>(keeper), SIGKILL);

    REQUIRE(story.until_ended(2));
    CHECK(story.ended[0].signal == SIGKILL);
    CHECK(story.refused[1] == "its keeper has ended");
    CHECK(story.until([&] { return !alive(story.started[0]) && !alive(story.ready["t"]); }));
    CHECK(text_of(story.folder.path + "/rank-00001/out") == "");
}

TEST_CASE("orders of a template that is killed are refused, and an older worker of its keeper lives on") {
    WarmStory story;
    story.begin(story.spec());
    const std::int64_t keeper = story.fork_waiting();
    ::kill(static_cast<pid_t>(keeper), SIGSTOP);  // So that both orders are in its socket.
    story.fork(story.worker("print('never')\n", 1));
    story.fork(story.worker("print('never')\n", 2));
    ::kill(static_cast<pid_t>(story.ready["t"]), SIGKILL);
    ::kill(static_cast<pid_t>(keeper), SIGCONT);

    REQUIRE(story.until([&] { return story.gone.contains("t") && story.refused.size() == 2; }));
    CHECK(story.gone["t"].empty());
    CHECK_FALSE(story.failed["t"].empty());
    // The keeper may have begun the first order, which then gets no answer.
    CHECK(story.refused[2] == "its template has ended");
    story.check_waiting_ends_well();
    CHECK(text_of(story.folder.path + "/rank-00001/out") == "");
}

TEST_CASE("the end of a template while an order is pending: it is done, no more is taken, the older worker lives on") {
    WarmStory story;
    story.begin(story.spec());
    const std::int64_t keeper = story.fork_waiting(), template_pid = story.ready["t"];
    ::kill(static_cast<pid_t>(keeper), SIGSTOP);
    const auto second = story.worker("print('it runs')\n", 1);
    story.fork(second);
    story.keepers->end("t");
    CHECK(story.gone.contains("t"));
    story.fork(story.worker("print('never')\n", 2));
    ::kill(static_cast<pid_t>(keeper), SIGCONT);

    REQUIRE(story.until([&] { return story.ended.contains(1) && story.refused.contains(2); }));
    CHECK(story.ended[1].success());
    CHECK(text_of(second.out) == "it runs\n");
    CHECK(story.refused[2] == "its template has ended");
    CHECK(story.until([&] { return !alive(template_pid); }));
    story.check_waiting_ends_well();
}

TEST_CASE("a keeper that does not answer is ended where it has started no worker") {
    WarmStory story;
    story.begin_with_patience(1'000);
    const std::int64_t keeper = story.parent_of(story.ready["t"]);
    ::kill(static_cast<pid_t>(keeper), SIGSTOP);
    story.fork(story.worker("print('never')\n"));

    REQUIRE(story.until_ended());
    CHECK(story.refused[0] == "its keeper did not answer for 1 s, and was ended");
    CHECK(story.gone.contains("t"));
    CHECK(story.failed["t"] == story.refused[0]);
    CHECK(story.until([&] { return !alive(keeper) && !alive(story.ready["t"]); }));
}

TEST_CASE("a keeper that does not answer and has a worker is left alone, and its order is answered when it goes on") {
    WarmStory story;
    story.begin_with_patience(3'000);
    const std::int64_t keeper = story.fork_waiting();
    ::kill(static_cast<pid_t>(keeper), SIGSTOP);
    const auto second = story.worker("print('it runs')\n", 1);
    story.fork(second);
    REQUIRE(story.until([&] { return story.gone.contains("t"); }));
    CHECK(story.refused.empty());
    CHECK(story.failed["t"] == "its keeper did not answer for 3 s");
    CHECK(story.waits[1] == "its keeper did not answer for 3 s and has other workers, so it is not ended");
    CHECK(alive(story.started[0]));
    ::kill(static_cast<pid_t>(keeper), SIGCONT);

    REQUIRE(story.until([&] { return story.ended.contains(1) || story.refused.contains(1); }));
    CHECK(story.refused.empty());
    CHECK(text_of(second.out) == "it runs\n");
    story.check_waiting_ends_well();
}

TEST_CASE("a template whose modules cannot be imported, or have threads, is none and says why") {
    WarmStory story;
    story.begin(story.spec({"json", "no_such_module"}));
    REQUIRE(story.until([&] { return story.gone.contains("t"); }));
    CHECK(story.gone["t"].find("No module named 'no_such_module'") != std::string::npos);
    WarmStory threads;
    std::ofstream(threads.folder.path + "/with_threads.py")
        << "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n";
    auto spec = threads.spec({"with_threads"});
    spec.environment["PYTHONPATH"] = threads.folder.path;
    threads.begin(spec);
    REQUIRE(threads.until([&] { return threads.gone.contains("t"); }));
    CHECK(threads.gone["t"] == "its modules have started 1 threads, which no fork has");
}

TEST_CASE(
    "a template whose files have changed refuses and ends; a file beside the script that hides a module refuses") {
    WarmStory story;
    const std::string own = story.folder.path + "/own";
    REQUIRE(make_directory(own, 0755));
    std::ofstream(own + "/mine.py") << "value = 1\n";
    auto spec = story.spec({"json", "mine"});
    spec.environment["PYTHONPATH"] = own;
    story.begin(spec);
    const auto hidden = story.worker("print('never')\n");
    std::ofstream(hidden.cwd + "/json.py") << "\n";
    story.fork(hidden);
    REQUIRE(story.until([&] { return story.refused.contains(0); }));
    CHECK(story.refused[0] == hidden.cwd + "/json.py hides a module that the template has");

    std::ofstream(own + "/mine.py") << "value = 22\n";
    story.fork(story.worker("print('never')\n", 1));
    REQUIRE(story.until([&] { return story.gone.contains("t") && story.refused.contains(1); }));
    CHECK(story.refused[1] == own + "/mine.py has changed");
}

TEST_CASE("between orders a template is stopped, and what it prints beyond the bound of its log is dropped") {
    WarmStory story;
    const std::string own = story.folder.path + "/own";
    REQUIRE(make_directory(own, 0755));
    std::ofstream(own + "/loud.py") << "print('x' * 1_000_000)\n";
    auto spec = story.spec({"loud"});
    spec.environment["PYTHONPATH"] = own;
    story.begin(spec);
    REQUIRE(story.ready.contains("t"));
    const auto stops = [&] { return story.until([&] { return state_of(story.ready["t"]) == 'T'; }); };
    CHECK(stops());
    story.fork(story.worker("print('it runs')\n"));
    REQUIRE(story.until_ended());
    CHECK(story.refused.empty());
    CHECK(story.ended[0].success());
    CHECK(stops());
    CHECK(fs::file_size(story.folder.path + "/template.log") < 300'000);
}

TEST_CASE("a template that has started a process is none, also where it hides it; the process ends with it") {
    const char* const hidden =
        "import os, signal, socket\n"
        "if os.fork() == 0:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        "    open('FOLDER/pid.new', 'w').write(str(os.getpid())); os.rename('FOLDER/pid.new', 'FOLDER/pid')\n"
        "    signal.pause()\n"
        "os.wait()\n"
        "while not os.path.exists('FOLDER/pid'): pass\n";
    const char* const own =
        "import os, signal, time\nchild = os.fork()\nif child == 0: signal.pause()\n"
        "open('FOLDER/pid', 'w').write(str(child))\n";
    const char* const lies = "s = socket.socket(fileno=3)\ns.send(b'ready')\ns.recv(9)\n";
    struct Story {
        std::string module;
        bool is_ready;
    };
    for (const Story& each : {Story{own, false}, Story{std::string(own) + "import socket\n" + lies, false},
                              Story{hidden, true}, Story{std::string(hidden) + lies, true}}) {
        WarmStory story;
        std::string module = each.module;
        for (std::size_t at = 0; (at = module.find("FOLDER", at)) != std::string::npos;)
            module.replace(at, 6, story.folder.path);
        std::ofstream(story.folder.path + "/with_process.py") << module;
        auto spec = story.spec({"with_process"});
        spec.environment["PYTHONPATH"] = story.folder.path;
        story.begin(spec);
        CHECK(story.ready.contains("t") == each.is_ready);
        if (!each.is_ready) CHECK(story.gone["t"].find("processes") != std::string::npos);
        CHECK(story.until([&] { return !alive(std::stol(text_of(story.folder.path + "/pid"))); }));
    }
}

TEST_CASE("a template that says what it may not is ended, and no process of its choice becomes the worker") {
    struct Lie {
        const char *module, *why;
    };
    const Lie lies[] = {
        {"import os, socket\ns = socket.socket(fileno=3)\ns.send(b'ready')\ns.recv(9999)\ns.send(b'pid "
         "1')\ns.recv(9)\n",
         "the template named a process that is not its fork"},
        {"import os, socket\ns = socket.socket(fileno=3)\ns.send(b'ready')\ns.recv(9999)\n"
         "s.send(b'pid %d' % os.getpid())\ns.recv(9)\n",
         "the template named a process that is not its fork"},
        {"import os, socket\ns = socket.socket(fileno=3)\ns.send(b'ready')\ns.recv(9999)\n"
         "p = os.fork()\nif p == 0: os.read(os.pipe()[0], 1)\ns.send(b'pid %d' % p)\ns.recv(9)\n",
         "the template named a process that is not its fork"},  // A child of the template's own, not of the keeper.
        {"import os, socket\ns = socket.socket(fileno=3)\ns.send(b'ready')\ns.recv(9999)\ns.send(b'x' * "
         "300)\ns.recv(9)\n",
         "the template named a process that is not its fork"},
        {"import os, socket\ns = socket.socket(fileno=3)\ns.send(b'ready')\ns.recv(9999)\nr, w = os.pipe()\n"
         "if os.fork() == 0:\n    p = os.fork()\n    if p: os.write(w, str(p).encode()); os._exit(0)\n"
         "    os.read(os.pipe()[0], 1)\nos.wait()\ns.send(b'pid ' + os.read(r, 32))\ns.recv(9)\n",
         // A child of the keeper that does not follow the protocol.
         "the fork did not become the worker: no word of it"},
    };
    for (const Lie& lie : lies) {
        WarmStory story;
        std::ofstream(story.folder.path + "/lying.py") << lie.module;
        auto spec = story.spec({"lying"});
        spec.environment["PYTHONPATH"] = story.folder.path;
        story.begin(spec);
        REQUIRE(story.ready.contains("t"));
        const auto start = story.worker("print('never')\n");
        story.fork(start);
        REQUIRE(story.until([&] { return story.refused.contains(0) && story.gone.contains("t"); }));
        CHECK(story.refused[0] == lie.why);
        CHECK_FALSE(fs::exists(start.directory + "/started"));
        CHECK_FALSE(fs::exists(start.directory + "/exit"));
        CHECK(story.until([&] { return !alive(story.ready["t"]); }));
    }
}

TEST_CASE("another user's template and worker have no rights, and cannot touch the keeper or its files") {
    if (::geteuid() != 0) {
        WARN("skipped: changes users");
        return;
    }
    WarmStory story;
    story.begin(story.spec({"json"}, nobody));
    REQUIRE(story.ready.contains("t"));
    const std::int64_t keeper = story.parent_of(story.ready["t"]);
    auto start = story.worker(
        "import os, signal\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith(('Uid', 'NoNewPrivs', 'CapEff', 'CapPrm', 'CapBnd', 'Groups')): print(line.strip())\n"
        "def tried(what):\n"
        "    try: what(); return 'done'\n"
        "    except OSError as error: return error.strerror\n"
        "sentinel = [int(l.split()[1]) for l in open('started') if l.startswith('shim ')] if os.access('started', "
        "os.R_OK) else []\n"
        "print(sentinel, tried(lambda: os.kill(os.getppid(), signal.SIGKILL)), tried(lambda: open('exit', 'w')), "
        "tried(lambda: os.unlink('.exit.new')), tried(lambda: open(f'/proc/{os.getppid()}/mem', 'rb')))\n");
    start.user = nobody;
    story.fork(start);
    REQUIRE(story.until_ended());
    CHECK(story.refused.empty());
    CHECK(story.ended[0].success());
    const std::string out = text_of(start.out);
    CHECK(out.find("Uid:\t65534\t65534\t65534\t65534") != std::string::npos);
    CHECK(out.find("NoNewPrivs:\t1") != std::string::npos);
    for (const char* set : {"CapEff", "CapPrm", "CapBnd"})
        CHECK(out.find(std::string(set) + ":\t0000000000000000") != std::string::npos);
    CHECK(out.find("[] Operation not permitted Permission denied Permission denied Permission denied") !=
          std::string::npos);
    CHECK(text_of("/proc/" + std::to_string(keeper) + "/environ").empty());
}
