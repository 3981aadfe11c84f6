// See contents.hpp.
#include "daemon/head/backup/contents.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string_view>

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

// Prefixes of files that are not backed up as they are: a start makes them anew, they belong to one process, or they
// are copied in another way.
constexpr std::array made_anew{"tmp",      "reserve",  "history.db", "state.db",  "state.lock",
                               "head.pid", "head.log", "storage",    "lost+found"};

using LeavesOut = std::function<bool(const std::string& path)>;

// Adds the files in `top`/`below`. A directory that vanishes meanwhile held files of a run that ended, and is skipped.
Status list_below(const std::string& top, const std::string& below, const LeavesOut& leaves_out, Contents& out) {
    std::error_code failed;
    for (fs::directory_iterator at(top + "/" + below, failed), end; !failed && at != end; at.increment(failed)) {
        const std::string path = below + at->path().filename().string();
        if (leaves_out(path)) continue;
        std::error_code gone;
        const fs::file_type type = at->symlink_status(gone).type();
        if (type == fs::file_type::directory)
            if (Status listed = list_below(top, path + "/", leaves_out, out); !listed) return listed;
        if (type == fs::file_type::regular) out.files.push_back(path);
        const bool odd = type != fs::file_type::directory && type != fs::file_type::regular;
        if (odd && type != fs::file_type::not_found && !gone) out.odd.push_back(path);
    }
    if (!failed || (failed == std::errc::no_such_file_or_directory && !below.empty())) return Done{};
    return Error{ErrorCode::io, "listing " + top + "/" + below + ": " + failed.message(),
                 "run it as the user that the head runs as, or as root"};
}

Result<Contents> listed(const std::string& top, const LeavesOut& leaves_out) {
    Contents out;
    if (Status below = list_below(top, "", leaves_out, out); !below) return below.error();
    std::sort(out.files.rbegin(), out.files.rend());
    std::sort(out.odd.begin(), out.odd.end());
    return out;
}

}  // namespace

Result<Contents> contents_of_data(const std::string& data_dir, RunLogs logs) {
    return listed(data_dir, [logs](const std::string& path) {
        if (path.find('/') != std::string::npos) return false;
        if (path.ends_with(".new") || (path == "logs" && logs == RunLogs::without)) return true;
        return std::any_of(made_anew.begin(), made_anew.end(),
                           [&path](std::string_view name) { return path.starts_with(name); });
    });
}

Result<Contents> contents_of_storage(const std::string& storage_root) {
    return listed(storage_root, [](const std::string& path) { return path == ".uploads" || path == "lost+found"; });
}

}  // namespace rtrain::head
