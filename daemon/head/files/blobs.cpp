// See blobs.hpp.
#include "daemon/head/files/blobs.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "daemon/head/base/data_files.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

// ms; a younger blob may belong to a job that is about to be submitted
constexpr std::int64_t fresh_ms = 24LL * 3'600'000;
constexpr const char* code_settings = "code/";
// Settings of a submission, beside "code/": whether it may use any user's files, and the line numbers of its job file's
// fields.
constexpr const char* other_prefixes[] = {"any_user/", "lines/"};
const std::string blob_prefix = "blob/";
constexpr std::size_t hash_length = 64;
constexpr std::uintmax_t naming_value_bytes = 4'096;  // bytes; a run's value that only names a blob is not larger

std::int64_t age_ms(const fs::path& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return 0;
    return wall_ms() - (std::int64_t{info.st_mtim.tv_sec} * 1'000 + info.st_mtim.tv_nsec / 1'000'000);
}

// Adds every word of exactly 64 hex digits in a text.
void add_hashes(const std::string& text, std::set<std::string>& into) {
    std::size_t length = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const char c = i < text.size() ? text[i] : ' ';
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
            ++length;
            continue;
        }
        if (length == hash_length) into.insert(text.substr(i - length, length));
        length = 0;
    }
}

void add_values(const std::string& directory, std::set<std::string>& into) {
    std::error_code failed;
    for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
        std::error_code none;
        if (at->file_size(none) > naming_value_bytes) continue;
        if (const auto text = read_file(at->path())) add_hashes(*text, into);
    }
}

std::string blob_of(const std::string& setting) { return setting.substr(blob_prefix.size(), hash_length); }

}  // namespace

// The data of a run that names blobs, copied for a thread of the pool. `values`: the run's directory of values.
struct Blobs::Naming {
    std::string submit_key, job_json, values;  // `values`: path of the run's directory of values
    bool live = false;
    std::int64_t age_ms = 0;
};

struct Blobs::Unneeded {
    std::vector<std::string> settings;
    std::vector<std::string> blobs;  // hashes of the blobs that are not needed
    RunId newest{};                  // the newest run that was taken into account
    // Younger blobs stay, since a live run may name them in ways that this check does not see.
    std::int64_t oldest_ms = fresh_ms;
};

// Finds blobs and settings that no run needs. Reads the journal and walks over files, so it must run on the pool.
Blobs::Unneeded Blobs::unneeded(const std::vector<Naming>& runs, const state::SqliteJournal& journal,
                                const std::string& blobs) {
    Unneeded out;
    std::set<std::string> known_keys, live_keys, needed;
    for (const Naming& run : runs) {
        known_keys.insert(run.submit_key);
        add_hashes(run.job_json, needed);
        add_values(run.values, needed);
        if (!run.live) continue;
        live_keys.insert(run.submit_key);
        out.oldest_ms = std::max(out.oldest_ms, run.age_ms + fresh_ms);
    }
    for (const auto& [name, sha256] : journal.settings(code_settings)) {
        const std::string key = name.substr(std::string(code_settings).size());
        if (live_keys.contains(key)) needed.insert(sha256);
        if (!known_keys.contains(key)) out.settings.push_back(name);
    }
    for (const std::string prefix : other_prefixes)
        for (const auto& [name, value] : journal.settings(prefix))
            if (!known_keys.contains(name.substr(prefix.size()))) out.settings.push_back(name);
    std::error_code none;
    for (const auto& [name, value] : journal.settings(blob_prefix))
        if (!fs::exists(blobs + blob_of(name), none)) out.settings.push_back(name);
    for (fs::directory_iterator at(blobs, none), end; !none && at != end; at.increment(none))
        if (!needed.contains(at->path().filename()) && age_ms(at->path()) >= out.oldest_ms)
            out.blobs.push_back(at->path().filename());
    return out;
}

// Removes from `garbage` what has been used since it was collected: settings and blobs of new submissions, and blobs
// that were uploaded again.
void Blobs::keep_what_came(Unneeded& garbage) const {
    std::set<std::string> keys, named;
    for (const auto& [id, run] : uses_.view.cluster.runs) {
        keys.insert(run.submit_key);
        if (terminal(run.state) || id <= garbage.newest) continue;
        named.insert(uses_.submissions.code(run.submit_key));
        add_hashes(run.job_json, named);
    }
    std::error_code none;
    std::erase_if(garbage.settings, [&](const std::string& name) {
        if (name.starts_with(blob_prefix)) return fs::exists(blob_path(uses_.options, blob_of(name)), none);
        return keys.contains(name.substr(name.find('/') + 1));
    });
    std::erase_if(garbage.blobs, [&](const std::string& sha256) { return named.contains(sha256); });
}

void Blobs::remove_unneeded(Unneeded garbage) {
    keep_what_came(garbage);
    for (const std::string& gone : garbage.settings) uses_.submissions.forget_setting(gone);
    uses_.behind_commits([&journal = uses_.journal, settings = std::move(garbage.settings)] {
        if (auto erased = journal.erase_settings(settings); !erased)
            std::fprintf(stderr, "rtrain head: settings of removed runs stay: %s\n", erased.error().message.c_str());
    });
    const auto remove = [blobs = blob_path(uses_.options, ""), garbage = std::move(garbage)] {
        std::vector<std::string> removed;
        for (const std::string& sha256 : garbage.blobs) {
            std::error_code failed;
            if (age_ms(blobs + sha256) < garbage.oldest_ms) continue;  // the blob was used again meanwhile
            if (!fs::remove(blobs + sha256, failed) || failed)
                std::fprintf(stderr, "rtrain head: %s stays: %s\n", (blobs + sha256).c_str(), failed.message().c_str());
            else
                removed.push_back(sha256);
        }
        return removed;
    };
    uses_.background.offload(
        remove, [](const Error&) { return std::vector<std::string>(); },
        [&bytes = uses_.bytes](const std::vector<std::string>& removed) {
            for (const std::string& sha256 : removed) bytes.forget(Kept::archives, sha256);
        });
}

std::string blob_setting(const std::string& sha256, const std::string& user) {
    return blob_prefix + sha256 + "/" + user;
}

void count_blob(UserBytes& bytes, const HeadOptions& options, const std::string& sha256, const std::string& user) {
    std::error_code gone;
    const auto size = fs::file_size(blob_path(options, sha256), gone);
    if (gone) return;
    bytes.put(user, Kept::archives, sha256,
              {.database = static_cast<std::int64_t>(blob_setting(sha256, user).size()),
               .files = static_cast<std::int64_t>(size)});
}

void Blobs::count() {
    for (const auto& [name, value] : uses_.journal.settings(blob_prefix))
        count_blob(uses_.bytes, uses_.options, blob_of(name), name.substr(blob_prefix.size() + hash_length + 1));
}

Status Blobs::recall_users() {
    constexpr const char* done_key = "blob_users_known";
    if (uses_.journal.setting(done_key)) return Done{};
    state::Batch batch;
    batch.settings[done_key] = "1";
    for (const auto& [id, run] : uses_.view.cluster.runs) {
        std::set<std::string> named{uses_.submissions.code(run.submit_key)};
        add_hashes(run.job_json, named);
        add_values(values_directory(uses_.options, id), named);
        std::error_code none;
        for (const std::string& sha256 : named)
            if (sha256.size() == hash_length && fs::exists(blob_path(uses_.options, sha256), none))
                batch.settings[blob_setting(sha256, run.user)] = "1";
    }
    return uses_.journal.commit(batch);
}

void Blobs::let_use(const std::string& job_json, const std::string& code_sha256, const std::string& user) {
    std::set<std::string> named{code_sha256};
    add_hashes(job_json, named);
    Aside aside;
    std::error_code none;
    for (const std::string& sha256 : named)
        if (sha256.size() == hash_length && fs::exists(blob_path(uses_.options, sha256), none))
            aside.settings[blob_setting(sha256, user)] = "1";
    for (const auto& [setting, value] : aside.settings) count_blob(uses_.bytes, uses_.options, blob_of(setting), user);
    if (!aside.settings.empty()) uses_.events.save(std::move(aside));
}

void Blobs::collect() {
    std::vector<Naming> runs;
    for (const auto& [id, run] : uses_.view.cluster.runs)
        runs.push_back({.submit_key = run.submit_key,
                        .job_json = run.job_json,
                        .values = values_directory(uses_.options, id),
                        .live = !terminal(run.state),
                        .age_ms = (uses_.view.clock.now() - run.submitted).ms});
    uses_.background.offload(
        [runs = std::move(runs), &journal = uses_.journal, blobs = blob_path(uses_.options, "")] {
            return unneeded(runs, journal, blobs);
        },
        [](const Error& error) {
            std::fprintf(stderr, "rtrain head: blobs stay: %s\n", error.message.c_str());
            return Unneeded{};
        },
        [this, newest = uses_.view.cluster.runs.empty() ? RunId{}
                                                        : uses_.view.cluster.runs.rbegin()->first](Unneeded garbage) {
            garbage.newest = newest;
            remove_unneeded(std::move(garbage));
        });
}

}  // namespace rtrain::head
