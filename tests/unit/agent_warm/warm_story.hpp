// Keepers, templates of the system's Python and a launcher on one loop, with the events that they have reported.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/agent/warm/keepers.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/run_until.hpp"

namespace rtrain::agent::warm_setup {

namespace fs = std::filesystem;

inline constexpr AttemptKey attempt{17, 1};
inline const char* const python = "/usr/bin/python3";

inline std::string text_of(const std::string& file) {
    const auto text = read_whole(file);
    return text ? *text : "";
}

// Returns the process's state as the kernel names it, '-' if the process is gone.
inline char state_of(std::int64_t pid) {
    const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
    const auto end = stat.rfind(')');
    return end == std::string::npos ? '-' : stat[end + 2];
}

inline bool alive(std::int64_t pid) { return state_of(pid) != '-' && state_of(pid) != 'Z'; }

// Keepers and a launcher on one loop, with the events that they have reported.
struct WarmStory {
    Folder folder;
    net::Loop loop;
    std::map<std::string, std::int64_t> ready;     // by key: the pid of the template
    std::map<std::string, std::string> gone;       // by key: why the template was unfit
    std::map<std::string, std::string> failed;     // by key: how the template failed
    std::map<std::uint32_t, std::string> waits;    // by rank: why it has not started yet
    std::map<std::uint32_t, std::string> refused;  // by rank: why its start was refused
    std::map<std::uint32_t, std::int64_t> started;
    std::map<std::uint32_t, ExitCause> ended;
    std::unique_ptr<Keepers> keepers = make_keepers(Keepers::usual_patience_ms);
    std::unique_ptr<Launcher> launcher = make_launcher();

    std::unique_ptr<Keepers> make_keepers(std::int64_t answer_ms) {
        return std::make_unique<Keepers>(
            loop, "/proc/self/exe",
            KeeperEvents{.ready = [this](const std::string& key, std::int64_t pid, std::int64_t) { ready[key] = pid; },
                         .ended =
                             [this](const std::string& key, const TemplateEnd& end) {
                                 gone[key] = end.unfit;
                                 failed[key] = end.failed;
                             }},
            answer_ms);
    }
    std::unique_ptr<Launcher> make_launcher() {
        return std::make_unique<Launcher>(
            loop, "/proc/self/exe",
            WorkerEvents{.started = [this](AttemptKey, std::uint32_t rank, std::int64_t pid) { started[rank] = pid; },
                         .ended = [this](AttemptKey, std::uint32_t rank, const ExitCause& cause,
                                         std::int64_t) { ended[rank] = cause; }});
    }
    WarmStory() { fs::permissions(folder.path, fs::perms(0755)); }

    TemplateSpec spec(std::vector<std::string> modules = {"json"}, WorkerUser user = {}) {
        return {.key = "t",
                .user = std::move(user),
                .python = python,
                .modules = std::move(modules),
                .environment = {{"PATH", "/usr/bin:/bin"}, {"PYTHONUNBUFFERED", "1"}}};
    }
    void begin(const TemplateSpec& spec) {
        REQUIRE(keepers->begin(spec, folder.path + "/template.log"));
        REQUIRE(until([&] { return ready.contains("t") || gone.contains("t"); }));
    }
    WorkerStart worker(const std::string& script, std::uint32_t rank = 0) {
        const std::string directory = folder.path + "/" + rank_text(rank);
        REQUIRE(make_directory(directory, 0755));
        std::ofstream(directory + "/train.py") << script;
        return {.attempt = attempt,
                .rank = rank,
                .directory = directory,
                .out = directory + "/out",
                .err = directory + "/err",
                .cwd = directory,
                .program = {python, "train.py"},
                .environment = {{"PATH", "/usr/bin:/bin"},
                                {"PYTHONUNBUFFERED", "1"},
                                {"RTRAIN_ATTEMPT", "warm-" + std::to_string(::getpid())},
                                {"RTRAIN_NODE", "n1"},
                                {"RANK", std::to_string(rank)}}};
    }
    void fork(const WorkerStart& start) {
        keepers->fork_worker("t", start, {.program = start.program, .environment = start.environment},
                             {.answered =
                                  [this, start](const Keepers::Answer& answer) {
                                      if (answer.sentinel == 0) refused[start.rank] = answer.why;
                                      if (answer.sentinel != 0) launcher->watch_forked(start, answer.sentinel);
                                  },
                              .waits = [this, start](const std::string& why) { waits[start.rank] = why; }});
    }
    // Begins with a module of the template, in which `self` is the template's pid and `fork` the original os.fork.
    void begin_with(const std::string& module) {
        REQUIRE(make_directory(folder.path + "/own", 0755));
        std::ofstream(folder.path + "/own/own.py") << "import os, signal, socket, sys, time\nfolder = '" + folder.path +
                                                          "'\nself = os.getpid()\nfork = os.fork\n" + module;
        auto one = spec({"own"});
        one.environment["PYTHONPATH"] = folder.path + "/own";
        begin(one);
        REQUIRE(ready.contains("t"));
    }
    std::int64_t pid_in(const std::string& name) {
        REQUIRE(until([&] { return fs::exists(folder.path + "/" + name); }));
        return std::stol(text_of(folder.path + "/" + name));
    }
    void begin_with_patience(std::int64_t answer_ms) {
        keepers = make_keepers(answer_ms);
        begin(spec());
        REQUIRE(ready.contains("t"));
    }
    // Forks rank 0, which waits for a line on a pipe. Returns the pid of its keeper.
    std::int64_t fork_waiting() {
        fork(worker("import os, sys\nos.mkfifo('gate')\nopen('gate').read()\nsys.exit(4)\n"));
        REQUIRE(until([&] { return started.contains(0) && fs::exists(folder.path + "/rank-00000/gate"); }));
        return parent_of(started[0]);
    }
    void check_waiting_ends_well() {
        REQUIRE(alive(started[0]));
        std::ofstream(folder.path + "/rank-00000/gate") << "go\n";
        REQUIRE(until([&] { return ended.contains(0); }));
        CHECK(ended[0].exit_code == 4);
    }
    bool until(const std::function<bool()>& condition) { return test::run_until(loop, condition); }
    bool until_ended(std::size_t workers = 1) {
        return until([this, workers] { return ended.size() + refused.size() == workers; });
    }
    std::int64_t parent_of(std::int64_t pid) {
        const std::string status = text_of("/proc/" + std::to_string(pid) + "/status");
        return std::strtoll(status.c_str() + status.find("\nPPid:") + 6, nullptr, 10);
    }
};

}  // namespace rtrain::agent::warm_setup
