// See compile_caches.hpp.
#include "daemon/agent/preparation/compile_caches.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/crypto/digest.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/unused.hpp"
#include "daemon/agent/workers/user_rights.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t version_most = 64 << 10;  // number of bytes that are read of a package's file
constexpr const char* use_mark = "/compile-cache";

std::mutex caches_mutex;  // held from the search for an entry until the entry is marked as used

// variables that choose the interpreter's libraries
const char* const chooses_libraries[] = {
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CC", "CXX"};

std::string caches_below(const std::string& data_dir) { return data_dir + "/caches"; }

// Returns the first bytes of a file that the user may read; empty if there is none.
std::string text_for(const UserRights& rights, const std::string& path) {
    const auto file = rights.open_file(path);
    if (!file) return {};
    std::string text(version_most, '\0');
    const ssize_t got = ::pread(file->number(), text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

std::string canonical_for(const UserRights& rights, const std::string& path) {
    const UserRights::Worn worn(rights);
    std::error_code failed;
    const std::string real = worn.taken() ? fs::canonical(path, failed).string() : "";
    return failed ? "" : real;
}

// Folders that may hold the packages of the interpreter `python`, whose file is `real` (…/bin/python3.11).
std::vector<std::string> package_folders(const std::string& python, const std::string& real) {
    const std::string release = fs::path(real).filename().string();
    std::vector<std::string> folders;
    for (const fs::path& prefix :
         {fs::path(python).parent_path().parent_path(), fs::path(real).parent_path().parent_path()})
        for (const char* below : {"/lib/", "/local/lib/"})
            for (const char* name : {"/site-packages", "/dist-packages"})
                folders.push_back(prefix.string() + below + release + name);
    folders.emplace_back("/usr/lib/python3/dist-packages");
    return folders;
}

std::string versions_of(const CompileEnvironment& environment) {
    const UserRights rights(environment.user);
    const std::string real = canonical_for(rights, environment.python);
    std::string text = real + '\0';
    for (const std::string& folder : package_folders(environment.python, real))
        for (const char* file : {"/torch/version.py", "/triton/__init__.py"})
            if (const std::string version = text_for(rights, folder + file); !version.empty())
                text += folder + file + '\0' + crypto::sha256_hex(version) + '\0';
    return text;
}

std::int64_t used_wall_ms(const std::string& entry) {
    struct stat seen{};
    if (::lstat(entry.c_str(), &seen) != 0) return 0;
    return std::int64_t{seen.st_mtim.tv_sec} * 1000 + seen.st_mtim.tv_nsec / 1'000'000;
}

// Entries that ranks of attempts on this node were given. An attempt's directory goes with the attempt.
std::set<std::string> entries_in_use(const NodeFiles& files) {
    std::set<std::string> entries;
    std::error_code failed, unread;
    for (const auto& attempt : fs::directory_iterator(files.attempts(), failed))
        for (const auto& rank : fs::directory_iterator(attempt.path(), unread))
            if (const auto entry = read_whole(rank.path().string() + use_mark)) entries.insert(*entry);
    return entries;
}

std::vector<CacheFacts> caches_of(const NodeFiles& files) {
    const std::set<std::string> in_use = entries_in_use(files);
    std::vector<CacheFacts> caches;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(caches_below(files.data_dir), failed)) {
        const std::string name = entry.path().filename().string(), place = entry.path().string();
        struct stat seen{};
        if (::lstat((place + "/files").c_str(), &seen) != 0) seen.st_uid = ::geteuid();
        caches.push_back({.entry = name,
                          .owner = seen.st_uid,
                          .bytes = storage::bytes_below(place),
                          .used_wall_ms = used_wall_ms(place),
                          .in_use = in_use.contains(name)});
    }
    return caches;
}

// Removes an entry, unless an attempt has started to use it meanwhile.
void remove_cache(const std::string& folder, const CacheFacts& cache) {
    const std::string place = folder + "/" + cache.entry, gone = folder + "/" + gone_prefix + cache.entry;
    {
        const std::lock_guard lock(caches_mutex);
        if (used_wall_ms(place) != cache.used_wall_ms) return;
        if (::rename(place.c_str(), gone.c_str()) != 0)
            return warn("the cache " + place + " cannot be removed: " + std::strerror(errno));
    }
    remove_tree(gone);
    log_info("the cache of compiled code " + place + " is removed, " + std::to_string(cache.bytes >> 20) + " MiB");
}

}  // namespace

std::string cache_entry_of(const CompileEnvironment& environment) {
    std::string text = "1";  // version of this layout
    const auto add = [&text](const std::string& part) { text.append(1, '\0').append(part); };
    add(environment.token_user);
    add(std::to_string(environment.user.uid));
    add(environment.user.name);
    add(environment.python);
    for (const std::string& word : environment.program) add(word);
    for (const char* name : chooses_libraries)
        if (const auto entry = environment.variables.find(name); entry != environment.variables.end())
            add(entry->first + "=" + entry->second);
    add(versions_of(environment));
    return crypto::sha256_hex(text).substr(0, 32);
}

Result<std::string> open_cache(const std::string& data_dir, const std::string& entry, const WorkerUser& user,
                               const std::string& worker_directory) {
    const std::string folder = caches_below(data_dir), place = folder + "/" + entry;
    if (Status marked = write_whole(worker_directory + use_mark, entry, 0600, Durable::no); !marked)
        return marked.error();
    const std::lock_guard lock(caches_mutex);
    for (const std::string& path : {folder, place}) {
        if (Status created = make_directory(path, 0711); !created) return created.error();
        if (::chmod(path.c_str(), 0711) != 0)
            return Error{ErrorCode::io, "opening " + path + " to its user: " + std::strerror(errno), ""};
    }
    if (Status created = make_scratch(place + "/files", user); !created) return created.error();
    used_now(place);
    return place + "/files";
}

std::vector<std::string> caches_to_remove(const std::vector<CacheFacts>& caches, std::int64_t now_wall_ms) {
    std::vector<std::string> removed;
    std::vector<const CacheFacts*> kept;
    std::map<std::int64_t, std::int64_t> bytes_of_user;
    std::int64_t bytes = 0;
    for (const CacheFacts& cache : caches) {
        const bool is_old = !cache.in_use && now_wall_ms - cache.used_wall_ms > cache_unused_ms;
        if (is_old || cache.entry.starts_with(gone_prefix)) {  // an earlier removal was interrupted
            removed.push_back(cache.entry);
            continue;
        }
        bytes += cache.bytes;
        bytes_of_user[cache.owner] += cache.bytes;
        if (!cache.in_use) kept.push_back(&cache);
    }
    while (bytes > caches_most_bytes && !kept.empty()) {
        const auto worst = std::min_element(kept.begin(), kept.end(), [&](const CacheFacts* a, const CacheFacts* b) {
            const std::int64_t of_a = bytes_of_user[a->owner], of_b = bytes_of_user[b->owner];
            return of_a != of_b ? of_a > of_b : a->used_wall_ms < b->used_wall_ms;
        });
        bytes -= (*worst)->bytes;
        bytes_of_user[(*worst)->owner] -= (*worst)->bytes;
        removed.push_back((*worst)->entry);
        kept.erase(worst);
    }
    return removed;
}

void bound_caches(const NodeFiles& files, std::int64_t now_wall_ms) {
    const std::string folder = caches_below(files.data_dir);
    const std::vector<CacheFacts> caches = caches_of(files);
    for (const std::string& entry : caches_to_remove(caches, now_wall_ms)) {
        const auto cache =
            std::find_if(caches.begin(), caches.end(), [&](const CacheFacts& of) { return of.entry == entry; });
        if (entry.starts_with(gone_prefix))
            remove_tree(folder + "/" + entry);
        else
            remove_cache(folder, *cache);
    }
}

}  // namespace rtrain::agent
