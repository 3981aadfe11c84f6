// A C++ worker for test_cpp_worker.py: rtrain.hpp with the fake agent, and the C interface with wrong arguments. usage:
// cpp_worker report | broadcast | wrong | fail | places
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "runtime/worker/rtrain.hpp"

namespace {

int report() {
    rtrain::Worker worker;
    const std::string directory = worker.checkpoint_directory();
    std::FILE* file = std::fopen((directory + "/model").c_str(), "w");
    std::fputs("weights", file);
    std::fclose(file);
    worker.report(R"({"loss": 0.5})", {.checkpoint = directory, .directory_name = "best", .owned = true});
    worker.flush(10'000);
    std::printf("%s\n%s\n", worker.checkpoint_json()->c_str(), worker.context_json().c_str());
    return 0;
}

int broadcast() {
    rtrain::Worker worker;
    const bool first = worker.context_json().find("\"world_rank\":0") != std::string::npos;
    const std::string bytes("a\0b\xff", 4);
    for (int round = 0; round < 3; ++round) {
        const std::string payload = bytes + std::to_string(round);
        const std::string received = worker.broadcast(first ? std::optional<std::string_view>(payload) : std::nullopt);
        if (received != payload) return 1;
    }
    std::puts("equal");
    return 0;
}

void show(const char* what, int code) { std::printf("%s: %d %s\n", what, code, rtw_last_error()); }

int wrong() {
    show("no handle", rtw_report(nullptr, nullptr));
    show("no handle", rtw_report_metrics(nullptr, "{}"));
    show("no place for it", rtw_open(nullptr));
    rtw_worker* worker = nullptr;
    if (rtw_open(&worker) != RTW_OK) return 1;
    show("no arguments", rtw_report(worker, nullptr));
    rtw_report_args arguments{};
    for (const char* metrics : {"[1]", "{\"a\": NaN}", "{", "\"text\""}) {
        arguments.metrics_json = metrics;
        show(metrics, rtw_report(worker, &arguments));
    }
    show("a list", rtw_report_metrics(worker, "[1]"));
    arguments.metrics_json = "{}";
    arguments.upload = 17;
    show("upload", rtw_report(worker, &arguments));
    arguments.upload = RTW_UPLOAD_DEFAULT;
    arguments.directory_name = "../../etc";
    show("name", rtw_report(worker, &arguments));
    rtw_close(worker);
    rtw_close(nullptr);
    return 0;
}

// A second process of the rank reads, and reports after the first one has released the rank's place.
int places() {
    rtrain::Worker worker;
    worker.report("{}");
    int code = 0;
    for (const bool free : {false, true}) {
        if (free) worker.release();
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child == 0) ::_exit(::execl("/proc/self/exe", "cpp_worker", "second", nullptr));
        int status = 0;
        ::waitpid(child, &status, 0);
        code |= status;
    }
    return code;
}

int second() {
    rtrain::Worker worker;
    const bool reads = worker.context_json().find("\"world_rank\":0") != std::string::npos;
    try {
        worker.report("{}");
        std::printf("%d reported\n", reads);
    } catch (const rtrain::WorkerError& error) { std::printf("%d %d %s\n", reads, error.code(), error.what()); }
    return 0;
}

int fail() {
    rtrain::Worker worker;
    rtrain::Worker moved = std::move(worker);
    moved.fail("the data is empty");
    return 3;
}

}  // namespace

int main(int count, char** arguments) {
    const std::string verb = count > 1 ? arguments[1] : "";
    try {
        if (verb == "report") return report();
        if (verb == "broadcast") return broadcast();
        if (verb == "wrong") return wrong();
        if (verb == "fail") return fail();
        if (verb == "places") return places();
        if (verb == "second") return second();
    } catch (const rtrain::WorkerError& error) { std::fprintf(stderr, "%d %s\n", error.code(), error.what()); }
    return 1;
}
