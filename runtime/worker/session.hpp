// A worker's session with its agent: the calls of the C interface. Each call takes the locks, requests the rank's
// place, lets one part of the state begin its work, and waits for its own answer.
//
//   Session ──► ReportFiles ──► AgentLoop ──► AgentClient ──► Connection ──► Link
//      │                           ▲ (lock, heartbeat, waits)     └──► the parts in rank/, which use no other part
//      └───────────────────────────┘
//
// Each class uses those to its right alone. The locking rules are in agent_loop.hpp.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/worker/agent_loop.hpp"
#include "runtime/worker/rank/wait_times.hpp"
#include "runtime/worker/report_files.hpp"

namespace rtrain::worker {

int settings_from_environment(Settings& settings);  // returns an RTW_ code

class Session {  // Each int is an RTW_ code.
  public:
    static int open(Settings settings, Place place, std::unique_ptr<Session>& out);
    static void close(std::unique_ptr<Session>);  // also for a forked child, which closes nothing of its parent's
    ~Session();

    std::string context_json();
    std::optional<ResumeFrom> checkpoint();
    int stage(std::string& path);
    int report(ReportCall call);
    int flush(std::chrono::milliseconds limit);
    int broadcast(std::optional<std::string> data, std::string& out);
    int fail(const std::string& text);
    int wanted();
    std::string wanted_json();
    std::uint64_t next_report();
    WaitTimes& waits() { return waits_; }

  private:
    explicit Session(Settings settings);
    bool is_foreign_process() const;
    int wrong_process() const;
    int send_report(Locked& client, Report& report, bool& has_files_of_all);
    int take_upload_fault(Locked& client);
    void count_wait(Locked& client, const ReportCall& call, Clock::time_point begun);
    void deliver_reports();

    const int process_;
    std::mutex calls_;  // held by each call except those that never wait, `checkpoint`, and `fail` beside another call
    WaitTimes waits_;
    AgentLoop loop_;
    ReportFiles files_;
};

}  // namespace rtrain::worker
