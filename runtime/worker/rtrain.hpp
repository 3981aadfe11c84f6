// The worker's side of rtrain for C++ programs: rtrain_worker.h with values, exceptions and destructors. Header only,
// so that nothing of C++ crosses the border of librtrain_worker.so.
//
//   rtrain::Worker worker;                              // throws rtrain::WorkerError outside of a run
//   auto from = worker.checkpoint_json();               // empty at the first start
//   auto files = worker.checkpoint_directory();         // fill it ...
//   worker.report(R"({"loss": 0.5})", {.checkpoint = files, .owned = true});
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/worker/rtrain_worker.h"

// The interface of a C++ program in an rtrain run.
namespace rtrain {

// Thrown by all functions below that fail; what() says what, where and what to do next.
class WorkerError : public std::runtime_error {
  public:
    // Takes its text from rtw_last_error(); `code` is an RTW_ code.
    explicit WorkerError(int code) : std::runtime_error(rtw_last_error()), code_(code) {}
    // Returns the RTW_ code, as RTW_AGENT_GONE.
    int code() const { return code_; }

  private:
    int code_;
};

// When report() returns, and what becomes of the checkpoint.
enum class UploadMode {
    run_default = RTW_UPLOAD_DEFAULT,  // as the job says
    sync = RTW_UPLOAD_SYNC,            // once the checkpoint is committed
    async = RTW_UPLOAD_ASYNC,          // once the files are staged
    none = RTW_UPLOAD_NONE,            // the program has put the files into the run directory itself
};

// The present request to a worker.
enum class Wanted {
    nothing,     // go on
    checkpoint,  // report one soon: a drain, a preemption, a resize, or an operator waits for it
    stop,        // leave the loop
};

// The parts of a report beside its metrics.
struct ReportOptions {
    std::string checkpoint;                       // directory; empty: none
    std::string directory_name;                   // rank 0's wish for the checkpoint's name; may be empty
    bool owned = false;                           // the directory may be moved away
    UploadMode upload = UploadMode::run_default;  // when report() returns
};

// One rank's conversation with its agent. One thread at a time may use it, except for wanted(). A Worker that was moved
// from or released is empty: assign another one to it, and call nothing else.
class Worker {
  public:
    // Connects to the agent named by the environment, and takes the rank's place unless another process has it. Throws
    // RTW_NOT_A_WORKER outside of a run, RTW_AGENT_GONE when the agent does not answer.
    Worker() { check(rtw_open(&handle_)); }
    // Gives the rank's place up, as release().
    ~Worker() { rtw_close(handle_); }
    // Takes the conversation over; `other` is empty then.
    Worker(Worker&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    // Exchanges the two conversations.
    Worker& operator=(Worker&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Gives the rank's place up: the next process that opens a Worker, or reports, has it. This one is empty then.
    void release() { rtw_close(std::exchange(handle_, nullptr)); }

    // Returns all facts about this worker as one JSON object; rtw_context_json() lists them.
    std::string context_json() const { return text(rtw_context_json(handle_)); }

    // Returns the checkpoint to start from, {"path": ..., "directory": ..., "metrics": {...}}; nullopt: start from the
    // beginning. It may wait up to 30 s for the commit of the last one reported.
    std::optional<std::string> checkpoint_json() const {
        const char* checkpoint = rtw_checkpoint_json(handle_);
        return checkpoint ? std::optional<std::string>(checkpoint) : std::nullopt;
    }

    // Returns a fresh directory on the storage path's file system; report it with owned = true, and its files are taken
    // over without a copy. Throws RTW_STORAGE when there is room for it nowhere.
    std::string checkpoint_directory() {
        const char* path = nullptr;
        check(rtw_checkpoint_dir(handle_, &path));
        return path;
    }

    // Reports `metrics_json`, one JSON object of at most 1 MiB, and a checkpoint if `options` name one. Waits for the
    // attempt's other ranks, who must report as well. Throws RTW_STORAGE, after the barrier, when files could not be
    // copied, and when an upload failed earlier and for good.
    void report(const std::string& metrics_json, const ReportOptions& options = {}) {
        rtw_report_args arguments{};
        arguments.metrics_json = metrics_json.c_str();
        arguments.checkpoint_path = options.checkpoint.empty() ? nullptr : options.checkpoint.c_str();
        arguments.directory_name = options.directory_name.empty() ? nullptr : options.directory_name.c_str();
        arguments.owned = options.owned ? 1 : 0;
        arguments.upload = static_cast<std::int32_t>(options.upload);
        check(rtw_report(handle_, &arguments));
    }

    // Waits until every checkpoint reported so far is committed, at most timeout_ms milliseconds (negative: without
    // end). Throws RTW_AGENT_GONE when that is over, RTW_STORAGE when an upload failed for good.
    void flush(std::int64_t timeout_ms = -1) { check(rtw_flush(handle_, timeout_ms)); }

    // Returns what this worker is requested to do. Never blocks, and may be called from any thread.
    Wanted wanted() const { return static_cast<Wanted>(rtw_wanted(handle_)); }

    // Returns rank 0's bytes to all ranks, who must all call it: rank 0 passes `data`, less than 48 MiB, the others
    // nullopt.
    std::string broadcast(std::optional<std::string_view> data) {
        const char* out = nullptr;
        std::uint64_t bytes = 0;
        check(rtw_broadcast(handle_, data ? data->data() : nullptr, data ? data->size() : 0, &out, &bytes));
        return {out, bytes};
    }

    // Sets the `text` that is shown as the cause when this worker exits with a failure. Does not throw: it is called on
    // the way out.
    void fail(const std::string& text) noexcept { rtw_fail(handle_, text.c_str()); }

  private:
    static void check(int code) {
        if (code != RTW_OK) throw WorkerError(code);
    }
    static std::string text(const char* value) {
        if (!value) throw WorkerError(RTW_IO);
        return value;
    }
    rtw_worker* handle_ = nullptr;
};

}  // namespace rtrain
