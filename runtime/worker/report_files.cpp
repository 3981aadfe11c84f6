#include "runtime/worker/report_files.hpp"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/worker/last_error.hpp"
#include "runtime/worker/removal.hpp"
#include "runtime/worker/rtrain_worker.h"
#include "runtime/worker/staging.hpp"

namespace rtrain::worker {
namespace {

// Returns whether it is empty now.
bool emptied(const std::string& directory) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;) {
        std::filesystem::remove_all(entry->path(), error);
        if (!error) entry.increment(error);
    }
    return !error;
}

}  // namespace

int ReportFiles::request_directory(Locked& client, std::string& path) {
    if (auto spare = client->take_spare()) {
        path = std::move(*spare);
        return RTW_OK;
    }
    client->request_directory();
    std::optional<std::string> spare;
    const int code = loop_.wait_until(client, "asking for a checkpoint directory", {}, [&] {
        return !client->directories().is_requested() || (spare = client->take_spare()).has_value();
    });
    if (spare) {
        client->directories().withdraw_request();
        path = std::move(*spare);
        return code;
    }
    if (code != RTW_OK) return code;
    const Staged& answer = client->directories().answer();
    if (answer.path.empty()) return failed(RTW_STORAGE, answer.error + "; see `rtrain events`");
    path = answer.path;
    return RTW_OK;
}

// In both cases of a fault the report goes out without its checkpoint, so that the other ranks are not kept waiting.
int ReportFiles::find_place(Locked& client, const ReportCall& call, Target& target) {
    const std::string& from = *call.directory;
    if (client->directories().take_from_program(from)) {
        target.path = from;
        std::error_code ignored;
        std::filesystem::remove(std::filesystem::path(from) / ".manifest.json", ignored);
        return RTW_OK;
    }
    const int code = request_directory(client, target.path);
    if (code == RTW_STORAGE) target.full = client->directories().answer().error;
    if (code != RTW_OK) return code == RTW_STORAGE ? RTW_OK : code;
    StagingFault staging = client.released([&] {
        return call.files == ReportCall::Files::given_away ? move_tree(from, target.path)
                                                           : copy_tree(from, target.path);
    });
    if (staging.error != 0) {
        (staging.full() ? target.full : target.fault) = staging.message;
        empty_and_keep(client, target.path);
    }
    return RTW_OK;
}

// The program is not to blame for a full disk: unless it requested certainty (sync), the report goes out without files
// and contains the reason, and the training continues.
int ReportFiles::stage(Locked& client, const ReportCall& call, Report& report, std::string& fault) {
    if (!call.directory) return RTW_OK;
    std::error_code error;
    if (!std::filesystem::is_directory(*call.directory, error)) {
        return failed(RTW_INVALID, "the checkpoint '" + *call.directory + "' is not a directory" +
                                       (error ? ": " + error.message() : std::string{}) +
                                       "; give `report` a directory with files");
    }
    Target target;
    if (const int code = find_place(client, call, target); code != RTW_OK) return code;
    fault = target.fault;
    report.checkpoint_error = target.full.empty() ? fault : target.full;
    const Staged& answer = client->directories().answer();
    report.error_reason = !fault.empty()                ? "storage_failed"
                          : target.full == answer.error ? answer.reason
                                                        : "storage_full";
    if (report.checkpoint_error.empty()) {
        report.checkpoint = StagedFiles{.path = target.path, .directory_name = call.directory_name};
        return RTW_OK;
    }
    if (call.upload == Upload::sync) fault = report.checkpoint_error;
    std::fprintf(stderr, "rtrain: report %llu goes without its checkpoint%s: %s\n",
                 static_cast<unsigned long long>(client->reports().next()), fault.empty() ? ", training goes on" : "",
                 report.checkpoint_error.c_str());
    return RTW_OK;
}

// The directory is one that no agent was requested to store.
void ReportFiles::empty_and_keep(Locked& client, std::string directory) {
    const bool empty = client.released([&] { return emptied(directory); });
    if (empty && client->rounds().alone()) client->directories().add_spare(std::move(directory));
}

// Called only if the agents have the files of all ranks. Otherwise the report went out without its checkpoint, and this
// directory is the only copy. A leftover is reported once, because the next report's directory is often the same.
void ReportFiles::remove_reported(Locked& client, ReportedDirectory& reported) {
    const std::string leftover = client.released([&] { return reported.remove(); });
    if (!leftover.empty() && !std::exchange(leftovers_reported_, true))
        std::fprintf(stderr, "rtrain: %s\n", leftover.c_str());
}

}  // namespace rtrain::worker
