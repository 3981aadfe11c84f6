// The worker's side of rtrain for C++ programs: rtrain_worker.h with values, exceptions and destructors. Header only,
// so that nothing of C++ crosses the border of librtrain_worker.so.
//
//   rtrain::Worker worker;                              // throws rtrain::WorkerError outside of a run
//   auto from = worker.checkpoint_path();               // empty at the first start
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

namespace rtrain {

class WorkerError : public std::runtime_error {
  public:
    explicit WorkerError(int code) : std::runtime_error(rtw_last_error()), code_(code) {}
    int code() const { return code_; }  // RTW_

  private:
    int code_;
};

enum class UploadMode {
    run_default = RTW_UPLOAD_DEFAULT,
    sync = RTW_UPLOAD_SYNC,
    async = RTW_UPLOAD_ASYNC,
    none = RTW_UPLOAD_NONE
};
enum class Wanted { nothing, checkpoint, stop };

struct ReportOptions {
    std::string checkpoint;      // directory; empty: none
    std::string directory_name;  // rank 0's wish for the checkpoint's name; may be empty
    bool owned = false;          // the directory may be moved away
    UploadMode upload = UploadMode::run_default;
};

class Worker {
  public:
    Worker() { check(rtw_open(&handle_)); }
    ~Worker() { rtw_close(handle_); }
    Worker(Worker&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Worker& operator=(Worker&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Gives the rank's place up: the next process that opens a Worker, or reports, has it. This one is empty then, as
    // after a move. So does the destructor.
    void release() { rtw_close(std::exchange(handle_, nullptr)); }

    std::string context_json() const { return text(rtw_context_json(handle_)); }

    // {"path": ..., "directory": ..., "metrics": {...}}, or nothing: start from the beginning.
    std::optional<std::string> checkpoint_json() const {
        const char* found = rtw_checkpoint_json(handle_);
        return found ? std::optional<std::string>(found) : std::nullopt;
    }

    // A fresh directory on the storage's file system; report it with owned = true.
    std::string checkpoint_directory() {
        const char* path = nullptr;
        check(rtw_checkpoint_dir(handle_, &path));
        return path;
    }

    // A barrier over the attempt's ranks. `metrics_json` is one JSON object.
    void report(const std::string& metrics_json, const ReportOptions& options = {}) {
        rtw_report_args arguments{};
        arguments.metrics_json = metrics_json.c_str();
        arguments.checkpoint_path = options.checkpoint.empty() ? nullptr : options.checkpoint.c_str();
        arguments.directory_name = options.directory_name.empty() ? nullptr : options.directory_name.c_str();
        arguments.owned = options.owned ? 1 : 0;
        arguments.upload = static_cast<std::int32_t>(options.upload);
        check(rtw_report(handle_, &arguments));
    }

    // Waits until every checkpoint reported so far is committed; a negative limit waits without end.
    void flush(std::int64_t timeout_ms = -1) { check(rtw_flush(handle_, timeout_ms)); }

    Wanted wanted() const { return static_cast<Wanted>(rtw_wanted(handle_)); }

    // Rank 0's bytes reach all ranks; the others pass nothing.
    std::string broadcast(std::optional<std::string_view> data) {
        const char* out = nullptr;
        std::uint64_t bytes = 0;
        check(rtw_broadcast(handle_, data ? data->data() : nullptr, data ? data->size() : 0, &out, &bytes));
        return {out, bytes};
    }

    // The text shown as the cause when this worker exits with a failure. Does not throw: it is called on the way out.
    void fail(const std::string& text) noexcept { rtw_fail(handle_, text.c_str()); }

  private:
    static void check(int code) {
        if (code != RTW_OK) throw WorkerError(code);
    }
    static std::string text(const char* found) {
        if (!found) throw WorkerError(RTW_IO);
        return found;
    }
    rtw_worker* handle_ = nullptr;
};

}  // namespace rtrain
