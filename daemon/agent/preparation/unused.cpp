// Renamed first, then removed: a crash in between leaves nothing that looks whole.
#include "daemon/agent/preparation/unused.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/preparation/setup.hpp"

namespace rtrain::agent {

std::mutex code_mutex, setups_mutex;

namespace {

namespace fs = std::filesystem;

std::int64_t changed_wall_ms(const std::string& path) {
    struct stat seen{};
    if (::lstat(path.c_str(), &seen) != 0) return 0;
    return std::int64_t{seen.st_mtim.tv_sec} * 1000 + seen.st_mtim.tv_nsec / 1'000'000;
}

// What belongs together, by what it is called before the first dot: a directory and the archive it came from.
std::map<std::string, std::vector<std::string>> things_in(const std::string& folder) {
    std::map<std::string, std::vector<std::string>> things;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
        const std::string name = entry.path().filename().string();
        things[name.starts_with(gone_prefix) ? gone_prefix : name.substr(0, name.find('.'))].push_back(name);
    }
    for (auto& [thing, names] : things) std::sort(names.begin(), names.end());  // the directory before its archive
    return things;
}

struct Kind {
    std::string folder;
    std::mutex& mutex;
    std::int64_t unused_ms = 0;
    std::function<std::int64_t(const std::string& path)> used_wall_ms;
};

// Renames a thing away. True: under its old names nothing is left of it. What is taken up by somebody meanwhile stays.
bool rename_away(const Kind& kind, const std::vector<std::string>& names, std::int64_t now_wall_ms) {
    const std::lock_guard lock(kind.mutex);
    std::int64_t used = 0;
    for (const std::string& name : names) used = std::max(used, kind.used_wall_ms(kind.folder + "/" + name));
    if (now_wall_ms - used <= kind.unused_ms) return false;
    for (const std::string& name : names) {
        const std::string from = kind.folder + "/" + name, to = kind.folder + "/" + gone_prefix + name;
        if (::rename(from.c_str(), to.c_str()) == 0) continue;
        warn(from + " has not been used for long, and cannot be removed: " + std::strerror(errno));
        return false;
    }
    return true;
}

void remove_unused_of(const Kind& kind, const std::set<std::string>& in_use, std::int64_t now_wall_ms) {
    for (const auto& [thing, names] : things_in(kind.folder)) {
        if (thing == gone_prefix) {
            for (const std::string& name : names) remove_tree(kind.folder + "/" + name);
            continue;
        }
        if (in_use.contains(thing) || !rename_away(kind, names, now_wall_ms)) continue;
        for (const std::string& name : names) remove_tree(kind.folder + "/" + gone_prefix + name);
        log_info(kind.folder + "/" + thing + " is removed: nobody has used it for " +
                 std::to_string(kind.unused_ms / day_ms) + " days");
    }
}

}  // namespace

void used_now(const std::string& path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW); }

void remove_unused(const std::string& data_dir, const std::set<std::string>& in_use, std::int64_t now_wall_ms) {
    remove_unused_of({data_dir + "/code", code_mutex, code_unused_ms, changed_wall_ms}, in_use, now_wall_ms);
    const auto setup_used = [](const std::string& place) {  // one that was cut off has no `done`
        const std::int64_t done = changed_wall_ms(place + "/done");
        return done != 0 ? done : changed_wall_ms(place);
    };
    remove_unused_of({setups_below(data_dir), setups_mutex, setup_unused_ms, setup_used}, in_use, now_wall_ms);
    std::mutex nobody_else;  // who finds a checkpoint renamed away downloads it
    remove_unused_of({data_dir + "/checkpoints", nobody_else, kept_unused_ms, changed_wall_ms}, in_use, now_wall_ms);
}

}  // namespace rtrain::agent
