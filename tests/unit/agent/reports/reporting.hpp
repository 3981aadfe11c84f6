// For tests of reports: the workers' own library on one side, an agent's sockets and shared memory on the other.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/agent/worker_link/worker_server.hpp"
#include "runtime/worker/rtrain_worker.h"
#include "tests/unit/catch.hpp"

namespace rtrain::agent::test {

inline constexpr AttemptKey attempt{.run = 7, .incarnation = 1};
inline constexpr std::chrono::milliseconds long_enough{20'000};

// An agent's sockets with the simplest group: a report passes when both ranks have sent it.
struct ReportAgent {
    explicit ReportAgent(const std::string& path, worker::ReportMemoryOffer offer = {.alone = true})
        : terms(std::move(offer)), stages(path + ".stages") {
        auto listening = WorkerServer::listen(loop, path, [this](Input input) {
            for (const WorkerMessage& message : server->posted()) on(message);
            std::visit([this](const auto& one) { on(one); }, input);
            server->wake();
        });
        REQUIRE(listening);
        server = std::move(*listening);
        server->admit("run-a1", {.attempt = attempt, .key = "key", .ranks = {0, 1}});
        thread = std::thread([this] { loop.run(); });
    }
    ~ReportAgent() { end(); }
    void end() {  // after this, the received messages may be read
        if (!thread.joinable()) return;
        loop.post([this] {
            server.reset();
            loop.stop();
        });
        thread.join();
    }
    template <class Other>
    void on(const Other&) {}
    void on(const WorkerJoined& joined) {
        passed = std::max<std::uint64_t>(passed, joined.hello.next_index - 1);
        ++joins;
        server->welcome(joined.attempt, joined.rank, worker::Welcome{}, {0, 1}, terms);
    }
    void on(const WorkerMessage& message) {
        if (const auto* stage = std::get_if<worker::Stage>(&message.message)) return make_stage(message.rank, *stage);
        const auto* report = std::get_if<worker::Report>(&message.message);
        if (!report) return;
        if (report->index <= passed) return server->send(attempt, message.rank, worker::Reported{report->index});
        reports[report->index][message.rank] = report->metrics_json;
        if (report->checkpoint) staged[report->index][message.rank] = report->checkpoint->path;
        if (report->error_reason == worker::replaced_reason) ++replaced;
        while (reports.contains(passed + 1) && reports[passed + 1].size() == 2) {
            ++passed;
            for (const std::uint32_t rank : {0u, 1u}) server->send(attempt, rank, worker::Reported{passed.load()});
            server->wake();
        }
    }
    void make_stage(std::uint32_t rank, const worker::Stage& stage) {
        const std::string path = stages + "/" + std::to_string(rank) + "-" + std::to_string(reports.size()) + "-" +
                                 std::to_string(++stages_made);
        std::filesystem::create_directories(path);
        server->send(attempt, rank, worker::Staged{.path = path, .error = {}, .reason = {}, .spare = stage.spare});
    }
    worker::ReportMemoryOffer terms;
    std::string stages;  // folder in which it makes directories for files
    std::atomic<int> stages_made{0};
    std::atomic<int> replaced{0}, joins{0};
    net::Loop loop;
    std::unique_ptr<WorkerServer> server;
    std::map<std::uint64_t, std::map<std::uint32_t, std::string>> reports, staged;  // by index and rank
    std::atomic<std::uint64_t> passed{0};
    std::thread thread;
};

struct Reporter {
    explicit Reporter(const std::string& socket, const std::string& rank) {
        for (const auto& [name, value] : std::map<std::string, std::string>{{"RTRAIN_WORKER_SOCKET", socket},
                                                                            {"RTRAIN_WORKER_KEY", "key"},
                                                                            {"RTRAIN_ATTEMPT", "run-a1"},
                                                                            {"RANK", rank}})
            ::setenv(name.c_str(), value.c_str(), 1);
        INFO(rtw_last_error());
        REQUIRE(rtw_open(&handle) == RTW_OK);
    }
    ~Reporter() { close(); }
    void close() { rtw_close(std::exchange(handle, nullptr)); }
    int report(const std::string& metrics) { return rtw_report_metrics(handle, metrics.c_str()); }
    rtw_worker* handle = nullptr;
};

inline std::string metrics_of(int number) { return R"({"a":)" + std::to_string(number) + "}"; }

}  // namespace rtrain::agent::test
