// See submissions.hpp.
#include "daemon/head/files/submissions.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/head/base/data_files.hpp"
#include "daemon/security/security.hpp"
#include "storage/base/json_text.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr const char *code_prefix = "code/", *any_user_prefix = "any_user/";

}  // namespace

void Submissions::recall(const state::SqliteJournal& journal) {
    for (const char* prefix : {code_prefix, any_user_prefix})
        for (const auto& [setting, value] : journal.settings(prefix)) settings_[setting] = value;
}

// Keys come from users: only their hash is a file name.
std::string Submissions::secrets_path(const std::string& key) const {
    return options_.data_dir + "/secrets/" + security::sha256_hex(key).substr(0, 32) + ".json";
}

Status Submissions::save(const std::string& key, const Files& files) {
    Aside aside;
    if (!files.code_sha256.empty()) aside.settings[code_prefix + key] = files.code_sha256;
    if (files.for_any_user) aside.settings[any_user_prefix + key] = "1";
    for (const auto& [setting, value] : aside.settings) settings_[setting] = value;
    if (!aside.settings.empty()) events_.save(std::move(aside));
    if (!files.secrets_json.empty()) return write_private(secrets_path(key), files.secrets_json);
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

// The runs of a job array have one submission.
void Submissions::forget_secrets(const Run& run) const {
    for (const RunId id : view_.names.submitted(run.submit_key)) {
        const auto other = view_.cluster.runs.find(id);
        if (id != run.id && other != view_.cluster.runs.end() && !terminal(other->second.state)) return;
    }
    std::error_code ignored;  // most runs have none
    std::filesystem::remove(secrets_path(run.submit_key), ignored);
}

}  // namespace rtrain::head
