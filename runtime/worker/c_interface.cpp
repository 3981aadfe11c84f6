// The C interface: checks arguments, stores the strings that it returns, and lets no exception through.
#include <exception>
#include <nlohmann/json.hpp>

#include "base/checkpoint_name.hpp"
#include "base/json_depth.hpp"
#include "base/json_text.hpp"
#include "runtime/worker/frames/bounds.hpp"
#include "runtime/worker/last_error.hpp"
#include "runtime/worker/rtrain_worker.h"
#include "runtime/worker/session.hpp"

#define RTW_EXPORT __attribute__((visibility("default")))

using rtrain::worker::failed;
using rtrain::worker::Session;

struct rtw_worker {
    std::unique_ptr<Session> session;
    std::string context, checkpoint, directory, broadcast, wanted;  // strings that the caller has received
};

namespace {

// Runs `body`. An exception (out of memory, a file system's error) becomes RTW_IO.
template <class Body>
int guarded(Body body) {
    try {
        return body();
    } catch (const std::exception& error) { return failed(RTW_IO, std::string("unexpected: ") + error.what()); }
}

int missing(const char* argument) {
    return failed(RTW_INVALID, std::string("the argument '") + argument + "' is NULL");
}

std::optional<rtrain::worker::Upload> upload_of(std::int32_t number) {
    using rtrain::worker::Upload;
    switch (number) {
        case RTW_UPLOAD_DEFAULT:
            return Upload::run_default;
        case RTW_UPLOAD_SYNC:
            return Upload::sync;
        case RTW_UPLOAD_ASYNC:
            return Upload::async;
        case RTW_UPLOAD_NONE:
            return Upload::none;
        default:
            return std::nullopt;
    }
}

// Returns why the agent would refuse these metrics; empty if it accepts them. The call that passed them then fails at
// once.
std::string too_much_in(const std::string& metrics) {
    using namespace rtrain::worker;
    if (metrics.size() > metrics_bytes_max)
        return "the metrics have " + std::to_string(metrics.size()) + " bytes as JSON and the most is " +
               std::to_string(metrics_bytes_max) + "; put such data into a file of the checkpoint";
    const std::string levels = std::to_string(metrics_levels_max), values = std::to_string(metrics_values_max);
    if (rtrain::storage::exceeds(metrics, {.levels = metrics_levels_max, .values = metrics_values_max}))
        return "the metrics have more than " + levels + " levels of lists and objects, or more than " + values +
               " values; put such data into a file of the checkpoint";
    return {};
}

int read_call(const rtw_report_args& args, rtrain::worker::ReportCall& call) {
    call.metrics_json = args.metrics_json ? args.metrics_json : "{}";
    const auto first = call.metrics_json.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || call.metrics_json[first] != '{' || !rtrain::is_json(call.metrics_json)) {
        return failed(RTW_INVALID,
                      "the metrics are not one JSON object (numbers that are not finite are written as the strings "
                      "\"NaN\", \"Infinity\", \"-Infinity\"): " +
                          call.metrics_json.substr(0, 200));
    }
    if (const std::string why = too_much_in(call.metrics_json); !why.empty()) return failed(RTW_INVALID, why);
    if (args.checkpoint_path) call.directory = args.checkpoint_path;
    if (args.directory_name) call.directory_name = args.directory_name;
    if (!call.directory_name.empty())
        if (const std::string why = rtrain::storage::checkpoint_name_fault(call.directory_name); !why.empty())
            return failed(RTW_INVALID,
                          "the checkpoint's directory name '" + call.directory_name.substr(0, 300) + "' " + why);
    const auto upload = upload_of(args.upload);
    if (!upload)
        return failed(RTW_INVALID, "upload is " + std::to_string(args.upload) + " and should be an RTW_UPLOAD_ value");
    call.upload = *upload;
    using Files = rtrain::worker::ReportCall::Files;
    if (args.owned != 0) call.files = args.owned == 2 ? Files::copied_then_removed : Files::given_away;
    return RTW_OK;
}

int open_for(rtrain::worker::Place place, rtw_worker** worker) {
    if (!worker) return missing("worker");
    return guarded([&] {
        rtrain::worker::Settings settings;
        if (const int code = rtrain::worker::settings_from_environment(settings); code != RTW_OK) return code;
        auto opened = std::make_unique<rtw_worker>();
        if (const int code = Session::open(std::move(settings), place, opened->session); code != RTW_OK) return code;
        *worker = opened.release();
        return int{RTW_OK};
    });
}

}  // namespace

extern "C" {

RTW_EXPORT int32_t rtw_abi_version(void) { return RTW_ABI_VERSION; }

RTW_EXPORT const char* rtw_last_error(void) { return rtrain::worker::last_error(); }

RTW_EXPORT int rtw_open(rtw_worker** worker) { return open_for(rtrain::worker::Place::wanted, worker); }

RTW_EXPORT int rtw_open_to_read(rtw_worker** worker) { return open_for(rtrain::worker::Place::not_wanted, worker); }

RTW_EXPORT void rtw_close(rtw_worker* worker) {
    if (!worker) return;
    Session::close(std::move(worker->session));
    delete worker;
}

RTW_EXPORT const char* rtw_context_json(rtw_worker* worker) {
    if (!worker) return missing("worker"), nullptr;
    const int code = guarded([&] { return worker->context = worker->session->context_json(), int{RTW_OK}; });
    return code == RTW_OK ? worker->context.c_str() : nullptr;
}

RTW_EXPORT const char* rtw_checkpoint_json(rtw_worker* worker) {
    if (!worker) return missing("worker"), nullptr;
    bool has_checkpoint = false;
    const int code = guarded([&] {
        const auto from = worker->session->checkpoint();
        if (!from) return int{RTW_OK};
        nlohmann::ordered_json object = {{"path", from->path}, {"directory", from->directory}};
        object["metrics"] = nlohmann::ordered_json::parse(from->metrics_json);
        worker->checkpoint = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
        has_checkpoint = true;
        return int{RTW_OK};
    });
    return code == RTW_OK && has_checkpoint ? worker->checkpoint.c_str() : nullptr;
}

RTW_EXPORT int rtw_checkpoint_dir(rtw_worker* worker, const char** path) {
    if (!worker) return missing("worker");
    if (!path) return missing("path");
    return guarded([&] {
        const int code = worker->session->stage(worker->directory);
        if (code == RTW_OK) *path = worker->directory.c_str();
        return code;
    });
}

RTW_EXPORT int rtw_report(rtw_worker* worker, const rtw_report_args* args) {
    if (!worker) return missing("worker");
    if (!args) return missing("args");
    return guarded([&] {
        rtrain::worker::ReportCall call;
        if (const int code = read_call(*args, call); code != RTW_OK) return code;
        return worker->session->report(std::move(call));
    });
}

RTW_EXPORT int rtw_report_metrics(rtw_worker* worker, const char* metrics_json) {
    const rtw_report_args args{
        .metrics_json = metrics_json, .checkpoint_path = nullptr, .directory_name = nullptr, .owned = 0, .upload = 0};
    return rtw_report(worker, &args);
}

RTW_EXPORT uint64_t rtw_next_report(rtw_worker* worker) {
    std::uint64_t answer = 0;
    if (worker) guarded([&] { return answer = worker->session->next_report(), int{RTW_OK}; });
    return answer;
}

RTW_EXPORT int rtw_flush(rtw_worker* worker, int64_t timeout_ms) {
    if (!worker) return missing("worker");
    return guarded([&] { return worker->session->flush(std::chrono::milliseconds(timeout_ms)); });
}

RTW_EXPORT int32_t rtw_wanted(rtw_worker* worker) {
    int32_t answer = 0;
    if (worker) guarded([&] { return answer = worker->session->wanted(), int{RTW_OK}; });
    return answer;
}

RTW_EXPORT const char* rtw_wanted_json(rtw_worker* worker) {
    if (!worker) return nullptr;
    const int code = guarded([&] { return worker->wanted = worker->session->wanted_json(), int{RTW_OK}; });
    return code == RTW_OK && !worker->wanted.empty() ? worker->wanted.c_str() : nullptr;
}

RTW_EXPORT int rtw_broadcast(rtw_worker* worker, const char* data, uint64_t bytes, const char** out,
                             uint64_t* out_bytes) {
    if (!worker) return missing("worker");
    if (!out || !out_bytes) return missing("out");
    return guarded([&] {
        std::optional<std::string> given;
        if (data) given.emplace(data, bytes);
        const int code = worker->session->broadcast(std::move(given), worker->broadcast);
        if (code != RTW_OK) return code;
        *out = worker->broadcast.data();
        *out_bytes = worker->broadcast.size();
        return code;
    });
}

RTW_EXPORT void rtw_data_wait(rtw_worker* worker, int64_t microseconds) {
    if (worker && microseconds >= 0) worker->session->waits().add_data(std::chrono::microseconds(microseconds));
}

RTW_EXPORT void rtw_barrier_wait(rtw_worker* worker, int64_t microseconds) {
    if (worker && microseconds >= 0) worker->session->waits().add_barrier(std::chrono::microseconds(microseconds));
}

RTW_EXPORT int rtw_fail(rtw_worker* worker, const char* text) {
    if (!worker) return missing("worker");
    return guarded([&] { return worker->session->fail(text ? text : ""); });
}

}  // extern "C"
