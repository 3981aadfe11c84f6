// What nobody needs any more: blobs (code archives, what drivers hand to their workers) that no run names, and settings
// of runs that are gone. A run that has ended keeps its code beside its checkpoints, so the head's copy of it serves
// only runs that may still start an attempt; other blobs are kept as long as a run that names them is known here.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "daemon/head/ownership.hpp"
#include "daemon/head/shell.hpp"
#include "daemon/head/view_json.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t fresh_ms = 24LL * 3'600'000;  // uploaded, and perhaps about to be submitted
constexpr const char* code_prefix = "code/";
constexpr const char* other_prefixes[] = {"any_user/", "lines/"};  // of a submission as well
const std::string blob_prefix = "blob/";
constexpr std::size_t hash_length = 64;
constexpr std::uintmax_t naming_value_bytes = 4'096;  // a run's value that is a blob's name is small

std::int64_t age_ms(const fs::path& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return 0;
    return wall_ms() - (std::int64_t{info.st_mtim.tv_sec} * 1'000 + info.st_mtim.tv_nsec / 1'000'000);
}

// Every word of exactly 64 hex digits in a text.
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

struct Needed {
    std::set<std::string> blobs;
    std::vector<std::string> settings_gone;
    std::int64_t oldest_ms = fresh_ms;  // what is younger stays: a live run may name it in ways that are not seen here
};

Needed needed(const Head& head) {
    Needed out;
    std::set<std::string> known_keys, live_keys;
    for (const auto& [id, run] : head.cluster.runs) {
        known_keys.insert(run.submit_key);
        add_hashes(run.job_json, out.blobs);
        add_values(head.options.data_dir + "/values/" + std::to_string(id.value), out.blobs);
        if (terminal(run.state)) continue;
        live_keys.insert(run.submit_key);
        out.oldest_ms = std::max(out.oldest_ms, (head.clock.now() - run.submitted).ms + fresh_ms);
    }
    for (const auto& [name, sha256] : head.journal->settings(code_prefix)) {
        const std::string key = name.substr(std::string(code_prefix).size());
        if (live_keys.contains(key)) out.blobs.insert(sha256);
        if (!known_keys.contains(key)) out.settings_gone.push_back(name);
    }
    for (const std::string prefix : other_prefixes)
        for (const auto& [name, value] : head.journal->settings(prefix))
            if (!known_keys.contains(name.substr(prefix.size()))) out.settings_gone.push_back(name);
    return out;
}

}  // namespace

// Records the users of blobs from before this version, once in a database: the users whose runs name them.
Status know_blob_users(Head& head) {
    constexpr const char* done_key = "blob_users_known";
    if (head.journal->setting(done_key)) return Done{};
    state::Batch batch;
    batch.settings[done_key] = "1";
    for (const auto& [id, run] : head.cluster.runs) {
        std::set<std::string> named{SubmissionFiles::code(head, run.submit_key)};
        add_hashes(run.job_json, named);
        add_values(head.options.data_dir + "/values/" + std::to_string(id.value), named);
        std::error_code none;
        for (const std::string& sha256 : named)
            if (sha256.size() == hash_length && fs::exists(head.blob_path(sha256), none))
                batch.settings[blob_setting(sha256, run.user)] = "1";
    }
    return head.journal->commit(batch);
}

// An admin's runs may use what others have sent; so may their workers.
void let_use_blobs(Head& head, const std::string& job_json, const std::string& code_sha256, const std::string& user) {
    std::set<std::string> named{code_sha256};
    add_hashes(job_json, named);
    Head::Aside aside;
    std::error_code none;
    for (const std::string& sha256 : named)
        if (sha256.size() == hash_length && fs::exists(head.blob_path(sha256), none))
            aside.settings[blob_setting(sha256, user)] = "1";
    if (!aside.settings.empty()) head.save(std::move(aside));
}

void collect_blobs(Head& head) {
    Needed keep = needed(head);
    std::error_code unseen;
    for (const auto& [name, value] : head.journal->settings(blob_prefix))
        if (!fs::exists(head.blob_path(name.substr(blob_prefix.size(), hash_length)), unseen))
            keep.settings_gone.push_back(name);
    if (auto erased = head.journal->erase_settings(keep.settings_gone); !erased)
        std::fprintf(stderr, "rtrain head: settings of removed runs stay: %s\n", erased.error().message.c_str());
    for (const std::string& gone : keep.settings_gone) head.of_submissions.erase(gone);
    std::error_code none;
    for (fs::directory_iterator at(head.options.data_dir + "/blobs", none), end; !none && at != end;
         at.increment(none)) {
        if (keep.blobs.contains(at->path().filename()) || age_ms(at->path()) < keep.oldest_ms) continue;
        std::error_code failed;
        if (!fs::remove(at->path(), failed) || failed)
            std::fprintf(stderr, "rtrain head: %s stays: %s\n", at->path().c_str(), failed.message().c_str());
    }
}

}  // namespace rtrain::head
