#include "runtime/worker/staging.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "runtime/worker/copying.hpp"
#include "runtime/worker/last_error.hpp"

namespace rtrain::worker {
namespace {

namespace fs = std::filesystem;
constexpr const char* manifest_name = ".manifest.json";
constexpr int depth_max = 64;  // deeper paths mean a link that leads back up

StagingFault fault(int error, const std::string& doing) { return {error, doing + ": " + errno_text(error)}; }

// Makes the directories of the copy and lists its files.
StagingFault list_entries(const fs::path& from, const fs::path& to, int depth, std::vector<FileToCopy>& files) {
    if (depth > depth_max) return fault(ELOOP, "cannot copy " + from.string());
    std::error_code error;
    fs::directory_iterator entries(from, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
        const fs::path& source = entries->path();
        const fs::path target = to / source.filename();
        if (depth == 0 && source.filename() == manifest_name) continue;
        struct stat facts{};
        if (::stat(source.c_str(), &facts) != 0) return fault(errno, "cannot read " + source.string());
        StagingFault inner;
        if (S_ISDIR(facts.st_mode)) {
            if (::mkdir(target.c_str(), 0777) != 0) return fault(errno, "cannot create " + target.string());
            inner = list_entries(source, target, depth + 1, files);
        } else if (S_ISREG(facts.st_mode)) {
            files.push_back({.from = source, .to = target, .mode = facts.st_mode, .bytes = facts.st_size});
        } else {
            inner = fault(EINVAL, source.string() + " is neither a file nor a directory");
        }
        if (inner.error != 0) return inner;
    }
    return error ? fault(error.value(), "cannot read " + from.string()) : StagingFault{};
}

void remove_entries(const fs::path& directory) {
    std::error_code ignored;  // The rest is removed with the attempt's staging directory.
    for (const auto& entry : fs::directory_iterator(directory, ignored)) fs::remove_all(entry.path(), ignored);
}

}  // namespace

bool StagingFault::full() const { return error == ENOSPC || error == EDQUOT; }

StagingFault copy_tree(const std::string& from, const std::string& to) {
    std::vector<FileToCopy> files;
    StagingFault outcome = list_entries(from, to, 0, files);
    if (outcome.error == 0) outcome = copy_files(files);
    if (outcome.error != 0) remove_entries(to);
    return outcome;
}

StagingFault move_tree(const std::string& from, const std::string& to) {
    std::error_code ignored;
    fs::remove(fs::path(from) / manifest_name, ignored);
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    // A worker may enter the agent's directory but not change it, if a root agent made it for another user.
    if (errno != EXDEV && errno != EACCES && errno != EPERM) return fault(errno, "cannot move " + from + " to " + to);
    StagingFault outcome = copy_tree(from, to);
    if (outcome.error == 0) fs::remove_all(from, ignored);
    return outcome;
}

}  // namespace rtrain::worker
