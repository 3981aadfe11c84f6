// Whether a worker is forked from a template or started plainly, and from which template.
#include "daemon/agent/warm/template_spec.hpp"

#include <sys/stat.h>

#include <functional>

#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

TemplateWish wish(std::vector<std::string> program = {"python3", "train.py"}) {
    return {.start = {.cwd = "/attempt/cwd",
                      .user = {.uid = 1'000, .gid = 1'000, .name = "ana", .home = "/home/ana"},
                      .program = std::move(program),
                      .environment = {{"PATH", "/attempt/bin:/usr/bin:/bin"},
                                      {"HOME", "/home/ana"},
                                      {"OMP_NUM_THREADS", "2"},
                                      {"RANK", "1"},
                                      {"RTRAIN_ATTEMPT", "r-a1"},
                                      {"TMPDIR", "/scratch/1"},
                                      {"MASTER_PORT", "20001"},
                                      {"COLOUR", "blue"},
                                      {"API_KEY", "hidden"}}},
            .token_user = "ana",
            .secrets = {"API_KEY"},
            .path = "/usr/bin:/bin",
            .interpreter = "python3",
            .added_path = "/attempt/bin"};
}

std::string why_not(TemplateWish wish) { return choose_template(wish).why_not; }
std::string key(const TemplateWish& wish) {
    const TemplateChoice choice = choose_template(wish);
    REQUIRE(choice.why_not.empty());
    return choice.spec.key;
}

}  // namespace

TEST_CASE("a template has the job's variables, and none of an attempt's or of its secrets") {
    const TemplateChoice choice = choose_template(wish());
    REQUIRE(choice.why_not.empty());
    CHECK(choice.spec.python == "/usr/bin/python3");
    CHECK(choice.spec.environment == Environment{{"PATH", "/usr/bin:/bin"},
                                                 {"HOME", "/home/ana"},
                                                 {"OMP_NUM_THREADS", "1"},
                                                 {"COLOUR", "blue"},
                                                 {"CUDA_VISIBLE_DEVICES", ""}});
    CHECK(choice.start.threads == 2);
    CHECK(choice.start.program == std::vector<std::string>{"python3", "train.py"});
    CHECK(choice.start.environment == wish().start.environment);
}

TEST_CASE("a template sees no GPU; that of workers with GPUs can tell who counts them") {
    TemplateWish with_gpu = wish(), without = wish();
    with_gpu.start.environment["CUDA_VISIBLE_DEVICES"] = "GPU-7";
    without.start.environment["CUDA_VISIBLE_DEVICES"] = "";
    const TemplateSpec one = choose_template(with_gpu).spec, other = choose_template(without).spec;
    CHECK(one.environment.at("CUDA_VISIBLE_DEVICES") == "GPU-none");
    CHECK(other.environment.at("CUDA_VISIBLE_DEVICES").empty());
    CHECK(one.key != other.key);
    with_gpu.start.environment["CUDA_VISIBLE_DEVICES"] = "GPU-8";
    CHECK(choose_template(with_gpu).spec.key == one.key);
}

TEST_CASE("attempts of one environment share a template; another user, variable, module or interpreter has its own") {
    auto other = wish();
    other.start.environment["RANK"] = "0";
    other.start.environment["RTRAIN_ATTEMPT"] = "r-a2";
    other.start.environment["OMP_NUM_THREADS"] = "1";
    other.start.environment["API_KEY"] = "another";
    CHECK(key(other) == key(wish()));
    const std::vector<std::function<void(TemplateWish&)>> changes = {
        [](TemplateWish& one) { one.token_user = "ben"; },
        [](TemplateWish& one) { one.start.user.uid = 1'001; },
        [](TemplateWish& one) { one.start.user.groups = {27}; },
        [](TemplateWish& one) { one.start.allow_setuid = true; },
        [](TemplateWish& one) { one.preload = {"transformers"}; },
        [](TemplateWish& one) { one.start.environment["COLOUR"] = "red"; },
        [](TemplateWish& one) { one.start.environment["LD_PRELOAD"] = "/lib/x.so"; },
        [](TemplateWish& one) { one.path = "/bin"; },
        [](TemplateWish& one) { one.start.program[0] = "/usr/bin/python3.11"; },
    };
    for (const auto& change : changes) {
        TemplateWish changed = wish();
        change(changed);
        CHECK(key(changed) != key(wish()));
    }
}

TEST_CASE("a shell that only replaces itself is no hindrance, and its PWD is there") {
    const TemplateChoice choice = choose_template(wish({"sh", "-c", "exec python3 -m pkg.train --lr 0.1"}));
    REQUIRE(choice.why_not.empty());
    CHECK(choice.start.program == std::vector<std::string>{"python3", "-m", "pkg.train", "--lr", "0.1"});
    CHECK(choice.start.environment.at("PWD") == "/attempt/cwd");
    CHECK(why_not(wish({"sh", "-c", "exec python3 train.py $HOME"})) == "its program is not python");
    CHECK(why_not(wish({"sh", "-c", "python3 train.py"})) == "its program is not python");
}

TEST_CASE("what does not fit is a plain start, with the reason") {
    CHECK(why_not(wish({"./train"})) == "its program is not python");
    CHECK(why_not(wish({"python3"})) == "its program is not python");
    CHECK(why_not(wish({"python3", "-u", "train.py"})) == "python is given the option -u");
    CHECK(why_not(wish({"./python3", "train.py"})) == "its python is not an interpreter on the PATH of the node");
    CHECK(why_not(wish({"/usr/bin/python3-is-not-here", "train.py"})) ==
          "its python is not an interpreter on the PATH of the node");
    auto one = wish();
    one.start.environment["MKL_NUM_THREADS"] = "4";
    CHECK(why_not(one) == "MKL_NUM_THREADS is set");
    one = wish();
    one.start.environment["OMP_NUM_THREADS"] = "2,1";
    CHECK(why_not(one) == "OMP_NUM_THREADS is not a number of threads");
    for (const char* secret : {"PYTHONPATH", "LD_PRELOAD", "TORCH_HOME", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX"}) {
        one = wish();
        one.secrets = {secret};
        CHECK(why_not(one) == std::string("the secret ") + secret + " is read when a process starts");
    }
}

TEST_CASE("a list of folders that depends on where a process starts is a plain start") {
    for (const char* folders : {"src", "/a:src", "/a:.", ":/a", "/a:", "/a::/b"}) {
        auto relative = wish();
        relative.start.environment["PYTHONPATH"] = folders;
        INFO(folders);
        CHECK(why_not(relative) == "PYTHONPATH has an entry that is no absolute path");
    }
    auto absolute = wish();
    absolute.start.environment["PYTHONPATH"] = "/a:/b";
    CHECK(why_not(absolute).empty());
}

TEST_CASE("a pipe that a job names as its interpreter holds nobody up") {
    const Folder folder;
    const std::string pipe = folder.path + "/python";
    REQUIRE(::mkfifo(pipe.c_str(), 0700) == 0);
    CHECK(why_not(wish({pipe, "train.py"})) == "its python is not an interpreter on the PATH of the node");
}
