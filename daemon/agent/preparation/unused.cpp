// Renames files before it removes them, so that a crash leaves nothing that looks complete.
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
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {

std::mutex code_mutex, setups_mutex;

namespace {

namespace fs = std::filesystem;

std::int64_t changed_wall_ms(const std::string& path) {
    struct stat seen{};
    if (::lstat(path.c_str(), &seen) != 0) return 0;
    return std::int64_t{seen.st_mtim.tv_sec} * 1000 + seen.st_mtim.tv_nsec / 1'000'000;
}

// Groups the names in a folder by their part before the first dot: a directory and its archive.
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

// Renames a thing away, unless it has been used since. Returns true if nothing is left under its old names.
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

// Returns when a setup was used last. An interrupted one has no `done`.
std::int64_t setup_used_ms(const std::string& place) {
    const std::int64_t done = changed_wall_ms(place + "/done");
    return done != 0 ? done : changed_wall_ms(place);
}

}  // namespace

std::vector<std::string> setups_to_remove(std::vector<KeptSetup> setups, std::int64_t share) {
    std::map<std::int64_t, std::int64_t> bytes_of;
    for (const KeptSetup& setup : setups) bytes_of[setup.owner] += setup.bytes;
    std::sort(setups.begin(), setups.end(),
              [](const KeptSetup& a, const KeptSetup& b) { return a.used_wall_ms < b.used_wall_ms; });
    std::vector<std::string> removed;
    for (const KeptSetup& setup : setups) {
        if (setup.in_use || bytes_of[setup.owner] <= share) continue;
        bytes_of[setup.owner] -= setup.bytes;
        removed.push_back(setup.key);
    }
    return removed;
}

// Removes setups beyond the users' share. A setup that is being made has no `done` and is skipped.
void bound_setups(const std::string& data_dir, const std::set<std::string>& in_use, std::int64_t share,
                  std::int64_t now_wall_ms) {
    const std::string folder = setups_below(data_dir);
    constexpr std::int64_t just_used_ms = 600'000;  // an attempt that is being prepared may use it
    std::vector<KeptSetup> setups;
    std::error_code failed, unseen;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
        const std::string key = entry.path().filename().string(), place = entry.path().string();
        struct stat seen{};
        if (key.starts_with(gone_prefix) || !fs::exists(place + "/done", unseen) ||
            ::lstat((place + "/work").c_str(), &seen) != 0)
            continue;
        const std::int64_t used = setup_used_ms(place);
        setups.push_back({.key = key,
                          .owner = seen.st_uid,
                          .bytes = storage::bytes_below(place),
                          .used_wall_ms = used,
                          .in_use = in_use.contains(key) || now_wall_ms - used < just_used_ms});
    }
    for (const std::string& key : setups_to_remove(setups, share)) {
        const auto setup =
            std::find_if(setups.begin(), setups.end(), [&](const KeptSetup& at) { return at.key == key; });
        const Kind kind{folder, setups_mutex, 0, setup_used_ms};
        if (!rename_away(kind, {key}, setup->used_wall_ms + 1)) continue;  // it was used meanwhile
        remove_tree(folder + "/" + gone_prefix + key);
        log_info(folder + "/" + key + " is removed, " + std::to_string(setup->bytes >> 20) +
                 " MiB: its user's setups have more than their part of the disk");
    }
}

void used_now(const std::string& path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW); }

void remove_unused(const std::string& data_dir, const std::set<std::string>& in_use, std::int64_t now_wall_ms) {
    remove_unused_of({data_dir + "/code", code_mutex, code_unused_ms, changed_wall_ms}, in_use, now_wall_ms);
    remove_unused_of({setups_below(data_dir), setups_mutex, setup_unused_ms, setup_used_ms}, in_use, now_wall_ms);
    std::mutex nobody_else;  // unused; an attempt that finds a checkpoint renamed away downloads it
    remove_unused_of({data_dir + "/checkpoints", nobody_else, kept_unused_ms, changed_wall_ms}, in_use, now_wall_ms);
}

}  // namespace rtrain::agent
