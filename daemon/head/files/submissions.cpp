// See submissions.hpp.
#include "daemon/head/files/submissions.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/view/explanation_json.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr const char *code_prefix = "code/", *any_user_prefix = "any_user/", *secrets_name = "secrets/";

}  // namespace

void Submissions::recall(const state::SqliteJournal& journal) {
    for (const char* prefix : {code_prefix, any_user_prefix})
        for (const auto& [setting, value] : journal.settings(prefix)) settings_[setting] = value;
}

// Returns the path of a key's secrets. Keys come from users, so only their hash is a file name.
std::string Submissions::secrets_path(const std::string& key) const {
    return options_.data_dir + "/secrets/" + security::sha256_hex(key).substr(0, 32) + ".json";
}

void Submissions::count(const state::SqliteJournal& journal) {
    std::map<std::string, std::string> all = settings_;
    all.merge(journal.settings(lines_setting("")));
    for (const auto& [setting, value] : all) {
        const auto& runs = view_.names.submitted(setting.substr(setting.find('/') + 1));
        if (!runs.empty()) count_setting(view_.cluster.runs.at(*runs.begin()).user, setting, value);
    }
    std::set<std::string> counted;
    for (const auto& [id, run] : view_.cluster.runs) {
        std::error_code none;
        if (terminal(run.state) || !counted.insert(run.submit_key).second) continue;
        const auto size = std::filesystem::file_size(secrets_path(run.submit_key), none);
        if (!none) count_secrets(run.user, run.submit_key, size);
    }
}

void Submissions::count_secrets(const std::string& user, const std::string& key, std::uintmax_t bytes) {
    bytes_.put(user, Kept::submissions, std::string(secrets_name) + key, {.files = static_cast<std::int64_t>(bytes)});
}

void Submissions::count_setting(const std::string& user, const std::string& setting, const std::string& value) {
    bytes_.put(user, Kept::submissions, setting,
               {.database = static_cast<std::int64_t>(setting.size() + value.size())});
}

void Submissions::forget_setting(const std::string& setting) {
    settings_.erase(setting);
    bytes_.forget(Kept::submissions, setting);
}

Status Submissions::save(const std::string& key, const Files& files) {
    Aside aside;
    if (!files.lines_json.empty()) aside.settings[lines_setting(key)] = files.lines_json;
    if (!files.code_sha256.empty()) aside.settings[code_prefix + key] = files.code_sha256;
    if (files.for_any_user) aside.settings[any_user_prefix + key] = "1";
    for (const auto& [setting, value] : aside.settings) {
        count_setting(files.user, setting, value);
        // orders do not need the line numbers, so they are not kept in memory
        if (setting != lines_setting(key)) settings_[setting] = value;
    }
    if (!aside.settings.empty()) events_.save(std::move(aside));
    if (files.secrets_json.empty()) return Done{};
    if (auto written = write_private(secrets_path(key), files.secrets_json); !written) return written;
    count_secrets(files.user, key, files.secrets_json.size());
    return Done{};
}

bool Submissions::any_user(const std::string& key) const { return settings_.contains(any_user_prefix + key); }

std::string Submissions::code(const std::string& key) const {
    const auto entry = settings_.find(code_prefix + key);
    return entry == settings_.end() ? "" : entry->second;
}

std::map<std::string, std::string> Submissions::secrets(const Run& run) const {
    std::map<std::string, std::string> out;
    const auto text = read_file(secrets_path(run.submit_key));
    const json values = text ? parsed_or_null(*text) : json();
    if (!values.is_object()) return out;
    for (const auto& [name, value] : values.items())
        if (value.is_string()) out[name] = value.get<std::string>();
    return out;
}

// Removes a run's secrets, unless another run of its job array, which shares the submission, needs them.
void Submissions::forget_secrets(const Run& run) {
    for (const RunId id : view_.names.submitted(run.submit_key)) {
        const auto other = view_.cluster.runs.find(id);
        if (id != run.id && other != view_.cluster.runs.end() && !terminal(other->second.state)) return;
    }
    for (const auto& [first, array] : view_.cluster.arrays)  // unmade runs of the array need the secrets too
        if (array.model.submit_key == run.submit_key) return;
    std::error_code ignored;  // an error is ignored, since most runs have no secrets
    std::filesystem::remove(secrets_path(run.submit_key), ignored);
    bytes_.forget(Kept::submissions, std::string(secrets_name) + run.submit_key);
}

}  // namespace rtrain::head
