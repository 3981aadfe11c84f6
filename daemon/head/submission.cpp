// What a run needs beside its record: the hash of its code (a setting), its secrets' values (a file of the owner
// alone), and at the end its result.json.
#include <cstdio>
#include <filesystem>

#include "daemon/head/view_json.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

std::string code_setting(const std::string& key) { return "code/" + key; }
std::string any_user_setting(const std::string& key) { return "any_user/" + key; }

// Keys come from users: only their hash is a file name.
std::string secrets_path(const Head& head, const std::string& key) {
    return head.options.data_dir + "/secrets/" + security::sha256_hex(key).substr(0, 32) + ".json";
}

}  // namespace

Status SubmissionFiles::save(Head& head, const std::string& key, const SubmissionFiles& files) {
    Head::Aside aside;  // durable with the run itself
    if (!files.code_sha256.empty()) aside.settings[code_setting(key)] = files.code_sha256;
    if (files.for_any_user) aside.settings[any_user_setting(key)] = "1";
    if (!aside.settings.empty()) head.save(std::move(aside));
    if (!files.secrets_json.empty()) return write_private(secrets_path(head, key), files.secrets_json);
    return Done{};
}

bool SubmissionFiles::any_user(const Head& head, const std::string& key) {
    return head.of_submissions.contains(any_user_setting(key));
}

std::string SubmissionFiles::code(const Head& head, const std::string& key) {
    const auto found = head.of_submissions.find(code_setting(key));
    return found == head.of_submissions.end() ? "" : found->second;
}

std::map<std::string, std::string> SubmissionFiles::secrets(const Head& head, const Run& run) {
    std::map<std::string, std::string> out;
    const auto text = read_file(secrets_path(head, run.submit_key));
    const json values = text ? parsed_or_null(*text) : json();
    if (!values.is_object()) return out;
    for (const auto& [name, value] : values.items())
        if (value.is_string()) out[name] = value.get<std::string>();
    return out;
}

// The runs of a job array have one submission.
void SubmissionFiles::forget_secrets(const Head& head, const Run& run) {
    for (const RunId id : head.names.submitted(run.submit_key)) {
        const auto other = head.cluster.runs.find(id);
        if (id != run.id && other != head.cluster.runs.end() && !terminal(other->second.state)) return;
    }
    std::error_code ignored;  // most runs have none
    std::filesystem::remove(secrets_path(head, run.submit_key), ignored);
}

std::string result_json(const Head& head, const Run& run) {
    json out = run_json(head, run);
    out["schema_version"] = 1;
    json attempts = json::array();
    for (const Attempt* one : attempts_of(head.cluster, run.id)) {
        json& workers = attempts.emplace_back(attempt_json(head, *one))["workers"] = json::array();
        for (std::uint32_t rank = 0; rank < one->workers.size(); ++rank) workers.push_back(worker_json(*one, rank));
    }
    out["attempt_list"] = std::move(attempts);
    return text_of(out);
}

void write_own_result(Head& head, const std::string& run_name, const std::string& text) {
    const std::string path = run_name + "/result.json", root = head.options.storage_root;
    head.loop.offload_at(
        root,
        [path, text, root] {
            auto store = storage::open_file_store(root);
            const Status written = store ? (*store)->put(path, text) : Status(store.error());
            if (!written) std::fprintf(stderr, "rtrain head: %s: %s\n", path.c_str(), written.error().message.c_str());
        },
        [] {});
}

}  // namespace rtrain::head
