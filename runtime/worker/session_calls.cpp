// The calls of a program: report, stage, broadcast, flush. Each call sends a message and then waits for its own answer.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "runtime/worker/frames/stop.hpp"
#include "runtime/worker/last_error.hpp"
#include "runtime/worker/removal.hpp"
#include "runtime/worker/rtrain_worker.h"
#include "runtime/worker/session.hpp"
#include "runtime/worker/staging.hpp"

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds look_every = 200ms;
constexpr auto stop_grace = 1s;          // an answer that was already sent when the stop arrives still counts
constexpr std::size_t frame_prefix = 4;  // frames in shared report memory have no length in front
// for a program that continues to report after an error
constexpr std::size_t kept_max = 2 * KeptReports::bytes_max / 64;
constexpr int looks_in_vain = 100;
constexpr std::chrono::milliseconds last_words_within = 10s;
constexpr std::size_t recent_metrics_max = 64;
constexpr auto commit_within = 30s;
constexpr auto commit_looked_for_every = 5ms;

}  // namespace

int Session::wrong_process() const {
    return failed(RTW_INVALID, "this process (" + std::to_string(::getpid()) + ") was forked from process " +
                                   std::to_string(process_) +
                                   ", the worker itself (is this a data loader's process?); " +
                                   "only that one may report");
}

int Session::refuse_other_process() const {
    const std::string rank = "rank " + std::to_string(settings_.rank);
    const std::string own = "this is process " + std::to_string(process_);
    if (holder_ < 0) return failed(RTW_INVALID, own + ", which only reads what " + rank + " is told");
    return failed(RTW_INVALID, rank + " belongs to process " + std::to_string(holder_) +
                                   ", which was the first to speak for it, and " + own + ": report from process " +
                                   std::to_string(holder_) +
                                   ", or let that one call rtrain.train.release() (rtw_close in C) or end before");
}

// A process that has only read so far requests the place, which may have become free.
int Session::take_place(Lock& lock, const char* doing) {
    if (holder_ == 0) return RTW_OK;
    lost_at_ = Clock::now();
    const int code = wait_for_agent(lock, doing, Place::wanted, {});
    if (code == RTW_OK && !heartbeat_.joinable()) start_heartbeat();
    return code;
}

// Reads until `done` returns true. Connects again after a restart of the agent. Releases the lock while nothing has
// arrived.
int Session::wait_until(Lock& lock, const char* doing, std::optional<Clock::time_point> deadline,
                        const std::function<bool()>& done) {
    struct Waiting {
        bool& flag;
        explicit Waiting(bool& f) : flag(f) { flag = true; }
        ~Waiting() { flag = false; }
    } waiting(caller_waits_);
    waits_since_ = Clock::now();
    for (;;) {
        read_report_memory();
        if (done()) return RTW_OK;
        if (agent_is_silent()) link_.close();
        if (!attached()) {
            const int code = detached_ ? wait_while_detached(lock, doing, deadline)
                                       : wait_for_agent(lock, doing, Place::wanted, deadline);
            if (code != RTW_OK) return code;
            continue;
        }
        const auto now = Clock::now();
        if (stop_heard_ && now - *stop_heard_ > stop_grace) {
            return failed(RTW_STOPPED, std::string("the run is being stopped; ") + doing + " was given up");
        }
        if (deadline && now >= *deadline) {
            return failed(RTW_AGENT_GONE, std::string(doing) + " was not answered within the limit");
        }
        const auto left = deadline ? std::chrono::ceil<std::chrono::milliseconds>(*deadline - now) : look_every;
        wait_for_news(lock, std::min<std::chrono::milliseconds>(left, look_every));
    }
}

// A wake-up of shared report memory also means messages on the socket; its absence may mean that the agent has died.
// While this thread waits here, no other thread changes the memory or the link's socket.
void Session::wait_for_news(Lock& lock, std::chrono::milliseconds limit) {
    if (memory_ && !link_.backlog()) {
        const ReportMemory& memory = *memory_;
        lock.unlock();
        const bool woken = memory.wait(wakeups_seen_, limit);
        lock.lock();
        const std::uint32_t before = std::exchange(detachments_, memory.detachments());
        if (!woken || before != detachments_) read_news();
        return;
    }
    const Link::Wait wait = link_.wait();
    lock.unlock();
    wait.until_ready(static_cast<int>(limit.count()));
    lock.lock();
    read_news();
}

int Session::request_directory(Lock& lock, std::string& path) {
    if (take_spare(path)) return RTW_OK;
    staged_.clear();
    staging_ = true;
    send(Stage{});
    bool spare = false;
    const int code = wait_until(lock, "asking for a checkpoint directory", {},
                                [&] { return !staging_ || (spare = take_spare(path)); });
    if (spare) staging_ = false;
    if (code != RTW_OK || spare) return code;
    if (staged_.empty()) {
        if (staged_error_.empty()) staged_error_ = "the agent could not make a checkpoint directory";
        return failed(RTW_STORAGE, staged_error_ + "; see `rtrain events`");
    }
    path = staged_;
    return RTW_OK;
}

int Session::stage(std::string& path) {
    if (foreign_process()) return wrong_process();
    const Lock call(calls_);
    Lock lock(state_);
    if (const int code = take_place(lock, "asking for a checkpoint directory"); code != RTW_OK) return code;
    const int code = request_directory(lock, path);
    if (code == RTW_OK) own_directories_.push_back(path);
    return code;
}

// The place of this report's files. `full`: no space for them; `fault`: another fault of the storage. In both cases the
// report goes out without its checkpoint, so that the other ranks are not kept waiting.
int Session::find_place(Lock& lock, const ReportCall& call, std::string& path, std::string& full, std::string& fault) {
    const std::string& from = *call.directory;
    if (const auto own = std::find(own_directories_.begin(), own_directories_.end(), from);
        own != own_directories_.end()) {
        path = from;
        own_directories_.erase(own);
        std::error_code ignored;
        std::filesystem::remove(std::filesystem::path(path) / ".manifest.json", ignored);
        return RTW_OK;
    }
    const int code = request_directory(lock, path);
    if (code == RTW_STORAGE) full = staged_error_;
    if (code != RTW_OK) return code == RTW_STORAGE ? RTW_OK : code;
    lock.unlock();  // The heartbeat continues while bytes are copied.
    const StagingFault staging =
        call.files == ReportCall::Files::given_away ? move_tree(from, path) : copy_tree(from, path);
    lock.lock();
    if (staging.error != 0) {
        (staging.full() ? full : fault) = staging.message;
        keep_as_spare(lock, path);
    }
    return RTW_OK;
}

// Sets the place of this report's files. The program is not to blame for a full disk: unless it requested certainty
// (sync), the report goes out without files and contains the reason, and the training continues.
int Session::stage_files(Lock& lock, const ReportCall& call, Report& report, std::string& fault) {
    if (!call.directory) return RTW_OK;
    std::error_code error;
    if (!std::filesystem::is_directory(*call.directory, error)) {
        return failed(RTW_INVALID, "the checkpoint '" + *call.directory + "' is not a directory" +
                                       (error ? ": " + error.message() : std::string{}) +
                                       "; give `report` a directory with files");
    }
    std::string path, full;
    if (const int code = find_place(lock, call, path, full, fault); code != RTW_OK) return code;
    report.checkpoint_error = full.empty() ? fault : full;
    report.error_reason = !fault.empty() ? "storage_failed" : full == staged_error_ ? staged_reason_ : "storage_full";
    if (report.checkpoint_error.empty()) {
        report.checkpoint = StagedFiles{.path = path, .directory_name = call.directory_name};
        return RTW_OK;
    }
    if (call.upload == Upload::sync) fault = report.checkpoint_error;
    std::fprintf(stderr, "rtrain: report %llu goes without its checkpoint%s: %s\n",
                 static_cast<unsigned long long>(next_report_), fault.empty() ? ", training goes on" : "",
                 report.checkpoint_error.c_str());
    return RTW_OK;
}

// With shared report memory only the last rank notifies the agent, and each heartbeat does once a second.
void Session::send_report_frame(const Report& report) {
    came_ = Clock::now();
    const bool in_order = kept_.all_sent();  // no earlier report waits to be sent
    const std::string& frame = kept_.add(report);
    if (settings_.rank == 0 && stop_after_ == 0 && !stop_.empty() && reached_stop(stop_, report.metrics_json))
        stop_after_ = report.index;
    if (!memory_) return send_due();
    say_what_it_needs(report);
    std::int64_t interval_ms = -1;
    if (returned_ != 0)
        interval_ms = std::chrono::duration_cast<std::chrono::milliseconds>(came_ - last_report_).count();
    const bool posted = in_order && attached() && !report.checkpoint &&
                        memory_->post(report.index, std::string_view(frame).substr(frame_prefix), interval_ms);
    const bool notifies = memory_->arrive(report.index, posted) == ReportMemory::Arrival::notifies;
    if (!posted) return send_due();
    kept_.sent(report.index);
    if (notifies) send(ReportsPosted{});
}

// All ranks have arrived at it.
bool Session::released(std::uint64_t index) {
    if (!kept_.has(index)) return true;
    if (!memory_) return false;
    return attached() ? memory_->released(index) : detached_ && memory_->pass_detached(index);
}

// Rounds that the ranks have passed without the agent may exist in this process's memory only.
void Session::serve_agent() {
    const Lock call(calls_, std::try_to_lock);
    if (!call.owns_lock()) return;  // Another thread is in a call, and this process ends all the same.
    Lock lock(state_);
    const auto heard = [this] { return kept_.empty() || kept_.first() > returned_; };
    read_report_memory();
    if (heard()) return;
    if (link_.open()) send(ReportsPosted{});
    for (int look = 0; memory_ && link_.open() && !heard() && look < looks_in_vain;
         ++look) {  // messages that it receives wake no thread
        close_now_.wait_for(lock, 1ms);
        read_report_memory();
    }
    // A restarting agent is back soon. If reports have passed without the agent, this waits as long as any other call,
    // because only this process has them.
    read_news();
    const bool behind = !attached() || !kept_.all_sent();
    if (behind)
        std::fprintf(stderr, "rtrain: waiting for the agent, which has not heard the last %zu reports\n", kept_.size());
    const auto within = behind ? std::max(last_words_within, settings_.agent_wait) : last_words_within;
    if (wait_until(lock, "closing", Clock::now() + within, heard) != RTW_OK)
        std::fprintf(stderr, "rtrain: the agent has not heard the last %zu reports\n", kept_.size());
}

int Session::send_report(Lock& lock, Report report) {
    const std::uint64_t index = next_report_++;
    report.index = index;
    recent_metrics_.emplace_back(index, report.metrics_json);
    if (recent_metrics_.size() > recent_metrics_max) recent_metrics_.pop_front();
    const bool with_files = report.checkpoint.has_value();
    if (with_files && report.upload != Upload::none) uncommitted_.push_back(index);
    send_report_frame(report);
    under_way_ = Report{.index = index, .checkpoint = report.checkpoint, .upload = report.upload};
    under_way_->checkpoint_error = report.checkpoint_error;
    const int code = wait_until(lock, "reporting", {}, [&] { return released(index); });
    under_way_.reset();
    if (code != RTW_OK) return code;
    returned_ = index;
    brings_files_ = brings_files_ || with_files;
    const bool unheard = !attached() && detached_ && kept_.has(index);  // The ranks have passed it without the agent.
    passed_whole_ = unheard && memory_->files_whole(index);
    if (with_files && unheard) passed_detached(lock, report, passed_whole_);
    if (with_files && attached()) request_spares();
    if (code == RTW_OK && with_files && wanted_ == 1) wanted_ = 0;  // The request is fulfilled, or will be repeated.
    return code;
}

int Session::take_upload_fault() {
    if (upload_faults_.empty()) return RTW_OK;
    std::string text = std::move(upload_faults_.front());
    upload_faults_.pop_front();
    return failed(RTW_STORAGE, std::move(text));
}

// Only if the agents have the files of all ranks. Otherwise the report went out without its checkpoint, and this
// directory is the only copy. Reported once, because the next report's directory is often the same.
void Session::remove_reported(Lock& lock, ReportedDirectory& reported) {
    lock.unlock();  // The heartbeat continues.
    const std::string leftover = reported.remove();
    lock.lock();
    if (!leftover.empty() && !std::exchange(leftovers_reported_, true))
        std::fprintf(stderr, "rtrain: %s\n", leftover.c_str());
}

// In a report that passed with a checkpoint of any rank, each rank waits for files, so the whole call counts as that.
// In other reports a rank waits for later ranks.
void Session::count_wait(const ReportCall& call, Clock::time_point begun) {
    const bool checkpoint = call.directory || promised_ == returned_;
    const auto since = call.directory ? begun : came_;
    const std::int64_t waited = std::chrono::duration_cast<std::chrono::microseconds>(last_report_ - since).count();
    (checkpoint ? checkpoint_wait_us_ : barrier_wait_us_).fetch_add(waited, std::memory_order_relaxed);
    if (!checkpoint) barrier_waits_.fetch_add(1, std::memory_order_relaxed);
}

int Session::report(ReportCall call) {
    if (foreign_process()) return wrong_process();
    const Lock only_call(calls_);
    Lock lock(state_);
    if (const int code = take_place(lock, "reporting"); code != RTW_OK) return code;
    if (kept_.size() >= kept_max) return gone("reporting");
    Report report{.metrics_json = std::move(call.metrics_json), .upload = call.upload};
    const auto begun = call.directory ? Clock::now() : Clock::time_point{};
    std::optional<ReportedDirectory> reported;
    if (call.files == ReportCall::Files::copied_then_removed && call.directory) reported.emplace(*call.directory);
    std::string not_staged;  // reported to the program after the barrier has passed
    if (const int code = stage_files(lock, call, report, not_staged); code != RTW_OK) return code;
    if (!report.checkpoint || report.checkpoint->path == *call.directory) reported.reset();
    const int code = send_report(lock, std::move(report));
    last_report_ = Clock::now();
    if (code != RTW_OK) return code;
    count_wait(call, begun);
    const bool taken_over = promised_ == returned_ || passed_whole_;
    if (reported && taken_over) remove_reported(lock, *reported);
    if (!not_staged.empty()) return failed(RTW_STORAGE, not_staged);
    return take_upload_fault();
}

int Session::flush(std::chrono::milliseconds limit) {
    if (foreign_process()) return wrong_process();
    const Lock call(calls_);
    Lock lock(state_);
    if (const int code = take_place(lock, "waiting for checkpoints to be committed"); code != RTW_OK) return code;
    std::optional<Clock::time_point> deadline;
    if (limit.count() >= 0) deadline = Clock::now() + limit;
    const int code =
        wait_until(lock, "waiting for checkpoints to be committed", deadline, [this] { return uncommitted_.empty(); });
    return code != RTW_OK ? code : take_upload_fault();
}

int Session::broadcast(std::optional<std::string> data, std::string& out) {
    if (foreign_process()) return wrong_process();
    if (data && data->size() > frame_bytes_max / 4 * 3 - 1024) {
        return failed(RTW_INVALID,
                      "a broadcast of " + std::to_string(data->size()) +
                          " bytes is too large (48 MiB at most); put the data into a file or use torch.distributed");
    }
    const Lock call(calls_);
    Lock lock(state_);
    if (const int code = take_place(lock, "broadcasting"); code != RTW_OK) return code;
    const std::uint64_t index = next_broadcast_;
    asked_ = {index, encode(FromWorker{Broadcast{.index = index, .data = std::move(data)}})};
    link_.send(asked_->second);
    const int code = wait_until(lock, "broadcasting", {}, [&] { return heard_.contains(index); });
    if (code != RTW_OK) return code;
    ++next_broadcast_;
    out = std::move(heard_[index]);
    heard_.erase(index);
    return RTW_OK;
}

// Another thread may be in a call that waits for ranks without end. It must not delay the cause.
int Session::fail(const std::string& text) {
    if (foreign_process()) return wrong_process();
    constexpr const char* doing = "telling the cause of the failure";
    const Lock call(calls_, std::try_to_lock);
    Lock lock(state_);
    if (holder_ != 0) return refuse_other_process();
    const auto until = Clock::now() + 2s;
    if (call.owns_lock())
        if (const int code = wait_until(lock, doing, until, [this] { return link_.open(); }); code != RTW_OK)
            return code;
    if (!link_.open()) return gone(doing);
    send(Fail{text.substr(0, std::size_t{256} << 10)});
    if (call.owns_lock()) return wait_until(lock, doing, until, [this] { return !link_.backlog(); });
    while (link_.open() && link_.backlog() && Clock::now() < until) {
        const Link::Wait wait = link_.wait();
        lock.unlock();
        wait.until_ready(static_cast<int>(look_every.count()));
        lock.lock();
        read_news();
    }
    return link_.backlog() ? gone(doing) : RTW_OK;
}

int Session::wanted() {
    if (foreign_process()) return 0;
    const Lock lock(state_, std::try_to_lock);
    if (!lock.owns_lock() || caller_waits_) return wanted_;
    if (memory_ && link_.open())
        read_report_memory();
    else
        read_news();
    return wanted_;
}

void Session::add_data_wait(std::chrono::microseconds waited) {
    std::int64_t before = data_wait_us_;
    while (!data_wait_us_.compare_exchange_weak(before, std::max<std::int64_t>(before, 0) + waited.count())) {}
}

void Session::add_barrier_wait(std::chrono::microseconds waited) {
    barrier_wait_us_.fetch_add(waited.count(), std::memory_order_relaxed);
    barrier_waits_.fetch_add(1, std::memory_order_relaxed);
}

std::string Session::wanted_json() {
    const int what = wanted();
    if (what == 0) return "";
    const Lock lock(state_);
    std::string text = std::string(R"({"what":")") + (what == 1 ? "checkpoint" : "stop") + '"';
    if (what == 1 && !wish_.reason.empty()) text += R"(,"reason":")" + wish_.reason + '"';
    if (what == 1 && wish_.deadline_wall_ms != 0)
        text += R"(,"deadline_wall_ms":)" + std::to_string(wish_.deadline_wall_ms);
    if (what == 1 && wish_.workers != 0) text += R"(,"workers":)" + std::to_string(wish_.workers);
    return text + '}';
}

// A forked child takes no lock, because a thread that does not exist there may hold it.
std::string Session::context_json() {
    if (foreign_process()) return context_json_;
    const Lock lock(state_);
    return context_json_;
}

// Waits until the fate of the last reported checkpoint is known. Does not wait while the agent is away, nor again for
// one that took too long. Calls of other threads continue: `calls_` is not held, so this only checks what has arrived,
// and reads itself if no other thread does.
std::optional<ResumeFrom> Session::checkpoint() {
    if (foreign_process()) return first_;
    Lock lock(state_);
    if (!caller_waits_) read_news();
    const std::uint64_t report = promised_;
    const auto deadline = Clock::now() + commit_within;
    while (settled_ < report && link_.open()) {
        const auto now = Clock::now();
        if (stop_heard_ && now - *stop_heard_ > stop_grace) break;
        if (now >= deadline) {
            settled_ = report;
            std::fprintf(stderr,
                         "rtrain: the checkpoint of report %llu is still being stored: get_checkpoint gives the one "
                         "before; see `rtrain events`\n",
                         static_cast<unsigned long long>(report));
            break;
        }
        close_now_.wait_for(lock, commit_looked_for_every);
        if (!caller_waits_) read_news();
    }
    return newest_;
}

}  // namespace rtrain::worker
