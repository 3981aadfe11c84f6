// A worker's session with its agent: requests without an answer yet, the connection, which may break and be restored,
// and the heartbeat. Invariant: a report's frame leaves `kept_` only after the agent has acknowledged it. So a
// restarted agent receives it again with the same index, and nothing is lost or counted twice.
//
// The agent offers shared report memory (frames/report_memory.hpp) with the connection. It is used until the next
// agent's welcome. A report that was posted there without an acknowledgement is then sent over the socket; its round
// may have passed long before. If all ranks of the attempt are on this node, they continue without an agent
// (without_agent.cpp): rounds pass in the memory, files are staged in spare directories that an agent had made, and
// frames are stored.
//
// Threads: callers except `checkpoint` hold `calls_`, so one call runs at a time. `state_` protects all state. While a
// caller waits for an answer, only that caller reads and reconnects. Otherwise the heartbeat thread does. So an answer
// wakes exactly the thread that waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/worker/frames/frames.hpp"
#include "runtime/worker/frames/report_memory.hpp"
#include "runtime/worker/rank/kept_reports.hpp"
#include "runtime/worker/link.hpp"

namespace rtrain::worker {

using Clock = std::chrono::steady_clock;
inline constexpr std::chrono::milliseconds redial_every{100};

struct Settings {  // from the environment
    std::string socket, key, attempt;
    std::uint32_t rank = 0;
    std::chrono::milliseconds agent_wait{};  // time after which a call fails if no agent is connected
    static int from_environment(Settings&);
};

struct ReportCall {
    std::string metrics_json;
    std::optional<std::string> directory;
    std::string directory_name;
    enum class Files { copied, given_away, copied_then_removed } files = Files::copied;
    Upload upload = Upload::run_default;
};

class ReportedDirectory;

class Session {  // Each int is an RTW_ code.
  public:
    static int open(Settings, Place, std::unique_ptr<Session>&);
    static void close(std::unique_ptr<Session>);  // also for a forked child, which closes nothing of its parent's
    ~Session();

    std::string context_json();
    std::optional<ResumeFrom> checkpoint();
    int stage(std::string& path);
    int report(ReportCall);
    int flush(std::chrono::milliseconds limit);
    int broadcast(std::optional<std::string> data, std::string& out);
    int fail(const std::string& text);
    int wanted();
    std::uint64_t next_report() {
        const std::lock_guard lock(state_);
        return next_report_;
    }
    void add_data_wait(std::chrono::microseconds waited);
    void add_barrier_wait(std::chrono::microseconds waited);
    std::string wanted_json();

  private:
    using Lock = std::unique_lock<std::mutex>;
    Session(Settings settings, Place place) : settings_(std::move(settings)), opened_for_(place) {}

    std::string dial(Place);  // returns an empty text once the agent has welcomed this process
    std::string dial_further(Place);
    std::string greet(Place);
    bool take_welcome(Place);
    std::string give_up_dialling();
    int take_place(Lock&, const char* doing);
    int refuse_other_process() const;
    int wrong_process() const;
    void start_heartbeat();
    void on_message(FromAgent);
    void on_message(const Staged&);
    void on_message(const Committed&);
    void on_message(const ReportMemoryOffer&);
    void read_news();
    void read_report_memory();
    void wait_for_news(Lock&, std::chrono::milliseconds limit);
    void send_report_frame(const Report&);
    bool released(std::uint64_t index);
    void serve_agent();
    int wait_until(Lock&, const char* doing, std::optional<Clock::time_point> deadline,
                   const std::function<bool()>& done);
    int wait_for_agent(Lock&, const char* doing, Place, std::optional<Clock::time_point> deadline);
    int try_agent(const char* doing, Place, std::optional<Clock::time_point> deadline);
    int wait_while_detached(Lock&, const char* doing, std::optional<Clock::time_point> deadline);
    void arrive_anew();
    void keep_as_spare(Lock&, std::string directory);
    void say_what_it_needs(const Report&);
    bool attached();
    bool agent_is_silent();
    void leave_memory();
    void send_due();
    bool take_spare(std::string& path);
    void request_spares();
    bool stores(const Report&) const;
    bool waits_for_storage(const Report&) const;
    void passed_detached(Lock&, const Report&, bool whole);
    int gone(const char* doing) const;
    int request_directory(Lock&, std::string& path);
    int stage_files(Lock&, const ReportCall&, Report&, std::string& fault);
    int find_place(Lock&, const ReportCall&, std::string& path, std::string& full, std::string& fault);
    int send_report(Lock&, Report);
    int take_upload_fault();
    void count_wait(const ReportCall&, Clock::time_point begun);
    void remove_reported(Lock&, ReportedDirectory&);
    void send(const FromWorker&);
    void heartbeat_loop();
    void send_heartbeat();
    bool foreign_process() const;

    const Settings settings_;
    const Place opened_for_;
    std::mutex calls_, state_;
    Link link_, greeting_;  // greeting_: a connection to an agent that has not welcomed this rank yet
    std::optional<ReportMemory> memory_;
    ReportMemoryOffer offer_;                             // describes memory_
    bool detached_ = false;                               // memory_ shows that this rank has no connection to the agent
    std::uint32_t messages_read_ = 0, wakeups_seen_ = 0;  // counters of the shared report memory
    std::string context_json_ = "{}", dial_fault_, refused_;
    std::int64_t holder_ = 0;  // 0: this process represents its rank; otherwise as in Welcome
    std::optional<ResumeFrom> newest_, first_;
    std::optional<Clock::time_point> lost_at_, stop_heard_;
    Clock::time_point dialled_{};      // time of the last attempt to connect
    Clock::time_point waits_since_{};  // since when the present call waits for the agent
    // when the agent's count of beats last changed; when it was last read
    Clock::time_point beat_at_{}, beat_looked_{};
    std::uint32_t beats_ = 0, detachments_ = 0;  // last values read from memory_
    std::map<std::string, double> stop_;         // the job's `stop`
    std::uint64_t stop_after_ = 0;               // the report with which rank 0 (this rank) has reached `stop_`
    std::atomic<int> wanted_{0};
    std::atomic<std::int64_t> data_wait_us_{-1};  // -1: it is not measured
    std::atomic<std::int64_t> barrier_wait_us_{0}, checkpoint_wait_us_{0};
    std::atomic<std::uint64_t> barrier_waits_{0};
    Wanted wish_;  // the last request: its reason and deadline

    std::uint64_t next_report_ = 1, next_broadcast_ = 1;
    KeptReports kept_;
    std::optional<std::pair<std::uint64_t, std::string>> asked_;  // the broadcast not answered yet
    std::map<std::uint64_t, std::string> heard_;                  // key: the broadcast's index; value: rank 0's bytes
    bool staging_ = false;                                        // true: `stage` was sent and `staged` has not arrived
    std::string staged_, staged_error_, staged_reason_;
    std::vector<std::string> own_directories_;  // returned by `stage`, not reported yet
    bool brings_files_ = false;
    std::vector<std::string> spares_;  // staging directories for times without an agent
    std::size_t spares_requested_ = 0;
    std::vector<std::uint64_t> uncommitted_;
    std::deque<std::pair<std::uint64_t, std::string>> recent_metrics_;
    std::deque<std::string> upload_faults_;
    std::uint64_t promised_ = 0;  // the last report that passed with a checkpoint of any rank
    std::uint64_t settled_ = 0;   // the fate of the checkpoints up to this report is known, or no call waits for it

    Clock::time_point last_report_ = Clock::now(), came_ = last_report_;  // came_: start of the present report
    std::uint64_t returned_ = 0;                                          // the last report that passed
    std::optional<Report> under_way_;                                     // without its metrics
    bool passed_whole_ = false;  // true: the last report that passed without an agent has the files of all ranks
    bool counts_ = false;        // true: next_report_ and next_broadcast_ are valid in this process
    bool welcomed_ = false, caller_waits_ = false, closing_ = false;
    bool leftovers_reported_ = false;  // true: directories that `report` could not remove were reported once
    std::condition_variable close_now_;
    std::thread heartbeat_;
    int process_ = 0;
};

}  // namespace rtrain::worker
