// Stories of a worker's environment and of rendezvous ports.
#include "daemon/agent/workers/environment.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/agent/hardware/ports.hpp"
#include "daemon/agent/workers/worker_library.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

Environment environment(const spec::Job& job = {}, const WorkerPlace& place = {}) {
    const Shape shape{.nodes = {{0, 1}, {2, 3}}, .here = 1};
    auto launch = launch_order(shape);
    launch.attempt.number = 3;
    launch.token = "rtu1.x.y";
    launch.secrets = {{"HF_TOKEN", "secret"}};
    return worker_environment(prepare_order(shape), launch, launch.workers[1], job, place);
}

constexpr const char* library_name = "librtrain_worker.so";

std::string put(const std::string& folder, const std::string& file) {
    const std::filesystem::path path = std::filesystem::path(folder) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "library";
    return std::filesystem::canonical(path).string();
}

}  // namespace

TEST_CASE("a worker gets the names of what the runs that it submits inherit, and no value of a secret") {
    spec::Job job;
    job.env = {{"COLOUR", "red"}, {"SHAPE", "round"}};
    job.secrets = {"HF_TOKEN"};
    const Environment env = environment(job);
    CHECK(env.at("RTRAIN_ENV_NAMES") == "COLOUR,SHAPE");
    CHECK(env.at("RTRAIN_SECRET_NAMES") == "HF_TOKEN");
    CHECK(environment().count("RTRAIN_ENV_NAMES") + environment().count("RTRAIN_SECRET_NAMES") == 0);
    const Shape shape{.nodes = {{0}}};
    auto prepare = prepare_order(shape);
    prepare.code_sha256 = "c0de";
    const auto launch = launch_order(shape);
    CHECK(worker_environment(prepare, launch, launch.workers[0], {}, {}).at("RTRAIN_CODE_SHA256") == "c0de");
}

TEST_CASE("a worker gets torchrun's whole set") {
    spec::Job job;
    job.failure.max_failures = 4;
    const Environment env = environment(job);
    const Environment expected{{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"GROUP_RANK", "1"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"ROLE_RANK", "3"},
                               {"ROLE_WORLD_SIZE", "4"},
                               {"ROLE_NAME", "default"},
                               {"NODE_RANK", "1"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "20000"},
                               {"TORCHELASTIC_RUN_ID", "c0ffee-17"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"TORCHELASTIC_MAX_RESTARTS", "4"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                               {"OMP_NUM_THREADS", "1"},
                               {"RTRAIN_ATTEMPT", "c0ffee-17-a3"},
                               {"RTRAIN_TOKEN", "rtu1.x.y"},
                               {"HF_TOKEN", "secret"}};
    for (const auto& [name, value] : expected) {
        INFO(name);
        REQUIRE(env.count(name) == 1);
        CHECK(env.at(name) == value);
    }
}

TEST_CASE("the job's variables win over the agent's, and never over the attempt's") {
    spec::Job job;
    job.env = {{"RANK", "9"}, {"OMP_NUM_THREADS", "7"}, {"LANG", "de"}};
    WorkerPlace place;
    place.inherited = {{"LANG", "C"}, {"RTRAIN_TOKEN", "the agent's own"}, {"HOME", "/h"}};
    const Environment env = environment(job, place);
    CHECK(env.at("RANK") == "3");
    CHECK(env.at("OMP_NUM_THREADS") == "7");
    CHECK(env.at("LANG") == "de");
    CHECK(env.at("HOME") == "/h");
    CHECK(env.at("RTRAIN_TOKEN") == "rtu1.x.y");
}

TEST_CASE(
    "of the agent's environment jobs get what every program needs and what the operator names, and no credential") {
    const Environment own{
        {"PATH", "/bin"},       {"HOME", "/h"},         {"LC_ALL", "C"},          {"TZ", "UTC"},
        {"https_proxy", "p:1"}, {"NO_PROXY", "x"},      {"SSL_CERT_FILE", "/ca"}, {"NCCL_DEBUG", "INFO"},
        {"NCCL", "not asked"},  {"LD_PRELOAD", "x.so"}, {"HF_TOKEN", "secret"},   {"AWS_SECRET_ACCESS_KEY", "secret"}};
    const auto names = [](const Environment& all) {
        std::set<std::string> out;
        for (const auto& [name, value] : all) out.insert(name);
        return out;
    };
    const std::set<std::string> always{"PATH", "HOME", "LC_ALL", "TZ", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"};
    CHECK(names(passed_on(own, {})) == always);
    std::set<std::string> more = always;
    more.insert({"NCCL_DEBUG", "LD_PRELOAD"});
    CHECK(names(passed_on(own, {"NCCL_*", "LD_PRELOAD", "PATH_"})) == more);
    CHECK(passed_on(own, {"*"}) == own);
}

TEST_CASE("an agent that passes every variable keeps those of its own rank and process") {
    const Environment jobs{{"PATH", "/bin"}, {"HF_TOKEN", "secret"}, {"RANKING", "x"}, {"_OWN", "y"}, {"SLURMED", "z"}};
    Environment own = jobs;
    for (const char* name :
         {"RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "TF_CONFIG",
          "RTRAIN_TOKEN", "TORCHELASTIC_RUN_ID", "CUDA_VISIBLE_DEVICES", "PWD", "_", "NOTIFY_SOCKET"})
        own[name] = "the agent's";
    CHECK(passed_on(own, {"*"}) == jobs);
    CHECK(passed_on(own, {"*", "SLURM_PROCID"}).contains("SLURM_PROCID"));  // an operator who names it gets it
}

TEST_CASE("a variable that no agent can pass is refused, and it is said why") {
    for (const char* good : {"LD_LIBRARY_PATH", "NCCL_*", "*", "http_proxy"}) CHECK(wrong_pass_env(good).empty());
    for (const char* bad : {"", "A=B", "*_KEY", "A B", "A**"}) CHECK_FALSE(wrong_pass_env(bad).empty());
    CHECK(wrong_pass_env("RTRAIN_TOKEN").find("rtrain's own") != std::string::npos);
}

TEST_CASE("a worker can ask the head about its own run") {
    WorkerPlace place;
    place.head_address = "10.0.0.1:7433";
    place.head_ca = "-----BEGIN CERTIFICATE-----";
    place.inherited = {{"RTRAIN_ADDRESS", "of another cluster"}};
    const Environment env = environment({}, place);
    CHECK(env.at("RTRAIN_ADDRESS") == "10.0.0.1:7433");
    CHECK(env.at("RTRAIN_CA") == "-----BEGIN CERTIFICATE-----");
    CHECK(environment({}, {}).count("RTRAIN_ADDRESS") == 0);
}

TEST_CASE("a worker is told which trackers its run has") {
    CHECK(environment().count("RTRAIN_TRACKING") == 0);
    spec::Job job;
    job.tracking = {"mlflow", "tensorboard"};
    CHECK(environment(job).at("RTRAIN_TRACKING") == "mlflow,tensorboard");
}

TEST_CASE("the card for collectives is the node's, unless the job names one") {
    WorkerPlace place;
    place.interface = "eth1";
    CHECK(environment({}, place).at("GLOO_SOCKET_IFNAME") == "eth1");
    spec::Job job;
    job.network_interface = "ib0";
    CHECK(environment(job, place).at("GLOO_SOCKET_IFNAME") == "ib0");
    CHECK(environment(job, place).at("NCCL_SOCKET_IFNAME") == "ib0");
}

TEST_CASE("entry LOCAL_RANK of the visible devices is that rank's own; shares and several are shown alone") {
    protocol::Launch launch;
    launch.workers = {{.rank = 0, .local_rank = 0, .gpus = {3}, .gpu_ticks = {10'000}},
                      {.rank = 1, .local_rank = 1, .gpus = {1}, .gpu_ticks = {10'000}}};
    CHECK(visible_devices(launch, launch.workers[1], {}) == "3,1");
    CHECK(visible_devices(launch, launch.workers[1], {"GPU-a", "GPU-b", "GPU-c", "GPU-d"}) == "GPU-d,GPU-b");
    launch.workers[1].gpus = {1, 2};
    launch.workers[1].gpu_ticks = {10'000, 10'000};
    CHECK(visible_devices(launch, launch.workers[1], {}) == "1,2");
    launch.workers[1] = {.rank = 1, .local_rank = 1, .gpus = {3}, .gpu_ticks = {5'000}};
    CHECK(visible_devices(launch, launch.workers[1], {}) == "3");
}

TEST_CASE("each worker knows which of the visible devices are its own") {
    const Shape shape{.nodes = {{0, 1}}, .here = 0};
    auto launch = launch_order(shape);
    const auto devices = [&](std::size_t i) {
        return worker_environment(prepare_order(shape), launch, launch.workers[i], {}, {}).at("RTRAIN_DEVICES");
    };
    for (std::uint32_t i : {0u, 1u}) launch.workers[i].gpus = {i}, launch.workers[i].gpu_ticks = {10'000};
    CHECK(devices(0) == "0");
    CHECK(devices(1) == "1");
    for (std::uint32_t i : {0u, 1u})
        launch.workers[i].gpus = {2 * i, 2 * i + 1}, launch.workers[i].gpu_ticks = {10'000, 10'000};
    CHECK(devices(1) == "0,1");
    CHECK(environment().count("RTRAIN_DEVICES") == 0);
    CHECK(worker_environment(prepare_order(shape), launch, launch.workers[0], {}, {}).count("ACCELERATE_USE_CPU") == 0);
    CHECK(environment().at("ACCELERATE_USE_CPU") == "true");
}

TEST_CASE("TensorFlow finds every worker at an address of its own, also where agents share a machine") {
    spec::Job job;
    job.backend = "tensorflow";
    const std::string expected =
        R"({"cluster":{"worker":["10.0.0.1:30320","10.0.0.1:30321","10.0.0.1:30322","10.0.0.1:30323"]},)"
        R"("task":{"index":3,"type":"worker"}})";
    CHECK(environment(job).at("TF_CONFIG") == expected);
    CHECK(environment().count("TF_CONFIG") == 0);
}

TEST_CASE("XGBoost finds the tracker that rank 0 starts, and its own number") {
    spec::Job job;
    job.backend = "xgboost";
    const Environment env = environment(job);
    CHECK(env.at("DMLC_TRACKER_URI") == "10.0.0.1");
    CHECK(env.at("DMLC_TRACKER_PORT") == env.at("MASTER_PORT"));
    CHECK(env.at("DMLC_NUM_WORKER") == "4");
    CHECK(env.at("DMLC_TASK_ID") == "3");
}

TEST_CASE("a rendezvous port is free when given, and not given again for a minute") {
    std::set<std::uint16_t> busy{20'001};
    Ports ports(0, [&](std::uint16_t port) { return !busy.contains(port); });
    CHECK(ports.take(Time{0}) == 20'000);
    CHECK(ports.take(Time{1}) == 20'002);
    std::set<std::uint16_t> given;
    for (int i = 0; i < 9'997; ++i) given.insert(ports.take(Time{2}).value_or(0));
    CHECK(given.size() == 9'997);
    CHECK(ports.take(Time{59'999}) == std::nullopt);
    CHECK(ports.take(Time{60'000}) == 20'000);
}

TEST_CASE("of several Pythons the newest has the library, by number and not by letter") {
    const Folder folder;
    const std::string program = put(folder.path, "bin/rtrain");
    CHECK(find_worker_library(program).empty());
    put(folder.path, std::string("lib/python3.9/site-packages/rtrain/_lib/") + library_name);
    put(folder.path, std::string("lib/python3/dist-packages/rtrain/_lib/") + library_name);
    const std::string newest =
        put(folder.path, std::string("lib/python3.12/site-packages/rtrain/_lib/") + library_name);
    put(folder.path, std::string("lib/python3.x/site-packages/rtrain/_lib/") + library_name);
    CHECK(find_worker_library(program) == newest);
}

TEST_CASE("lib64 is looked at too, and what stands beside the program comes before any Python") {
    const Folder folder;
    const std::string program = put(folder.path, "bin/rtrain");
    const std::string of_python =
        put(folder.path, std::string("lib64/python3.11/site-packages/rtrain/_lib/") + library_name);
    CHECK(find_worker_library(program) == of_python);
    const std::string of_package = put(folder.path, std::string("lib64/") + library_name);
    CHECK(find_worker_library(program) == of_package);
    std::filesystem::create_directories(folder.path + "/lib/" + library_name);  // a directory is no library
    CHECK(find_worker_library(program) == of_package);
    const std::string beside = put(folder.path, std::string("bin/") + library_name);
    CHECK(find_worker_library(program) == beside);
}
