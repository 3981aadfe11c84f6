// See job_manifest.hpp.
#include "cmd/engines/job_manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "cmd/engines/job_script.hpp"
#include "cmd/text/output.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// the most bytes of code in a ConfigMap, which holds 1 MiB; base64 makes the code larger by a third
constexpr std::size_t code_most = 700 << 10;
constexpr std::int64_t user_id = 10001;     // user id of the image, as configs/kubernetes/Containerfile sets it
constexpr std::int64_t stop_seconds = 120;  // seconds that a pod gets to end: 90 s for the script, and a reserve
constexpr const char* code_folder_in_pod = "/tmp/code";

bool letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

Status check_name(const char* flag, const std::string& name) {
    constexpr std::size_t name_most = 253;
    bool fine =
        !name.empty() && name.size() <= name_most && letter_or_digit(name.front()) && letter_or_digit(name.back());
    for (const char c : name) fine = fine && (letter_or_digit(c) || c == '-' || c == '.');
    if (fine) return Done{};
    return Error{.code = ErrorCode::usage,
                 .message = std::string(flag) + ": \"" + name + "\" is no name of Kubernetes",
                 .next = "lower-case letters, digits, - and ."};
}

Status check_names(const ManifestWish& wish) {
    const std::pair<const char*, const std::string*> needed[] = {{"--namespace", &wish.name_space},
                                                                 {"--token-secret", &wish.token_secret}};
    for (const auto& [flag, name] : needed)
        if (Status fine = check_name(flag, *name); !fine) return fine;
    const std::pair<const char*, const std::string*> optional[] = {{"--claim", &wish.claim},
                                                                   {"--secrets-from", &wish.secrets_from},
                                                                   {"--kueue-queue", &wish.kueue_queue},
                                                                   {"--worker-set", &wish.workers.name}};
    for (const auto& [flag, name] : optional)
        if (!name->empty())
            if (Status fine = check_name(flag, *name); !fine) return fine;
    return Done{};
}

bool beneath(const std::string& path, const std::string& folder) {
    return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

// Fails for storage on a pod's own disk, which is lost with the pod.
Status check_storage(const ManifestWish& wish) {
    const std::string& path = wish.job.storage_path;
    if (path.empty()) return Done{};
    const Result<storage::StorageUri> uri = storage::parse_uri(path);
    if (!uri) return uri.error();
    if (uri->scheme != storage::Scheme::file) return Done{};
    if (!wish.claim.empty() && beneath(uri->path, wish.claim_path)) return Done{};
    return Error{.code = ErrorCode::invalid,
                 .message = "storage_path: " + path + " is not below a claim that the pods mount" +
                            (wish.claim.empty() ? "" : " (" + wish.claim + " at " + wish.claim_path + ")") +
                            ": it ends with the workers, and the run's logs and checkpoints with it",
                 .next =
                     "a path below the claim, a bucket (s3://..., gs://..., az://...), or no storage_path: then the "
                     "head's volume keeps the files"};
}

Status check(const ManifestWish& wish) {
    if (Status named = check_names(wish); !named) return named;
    if (wish.shutdown_after_finish && wish.workers.name.empty())
        return Error{.code = ErrorCode::usage,
                     .message = "--shutdown-after-finish needs --worker-set: whose pods are to go?",
                     .next = "a StatefulSet of the job's own: --worker-set rtrain-workers=4"};
    if (wish.shutdown_after_finish)
        if (Status durable = check_storage(wish); !durable) return durable;
    if (!wish.job.secrets.empty() && wish.secrets_from.empty())
        return Error{.code = ErrorCode::invalid,
                     .message = "secrets: their values come from a Secret, whose name is not given",
                     .next = "--secrets-from NAME, with a key for each: " + wish.job.secrets.front() + " ..."};
    if (wish.code.size() > code_most)
        return Error{.code = ErrorCode::invalid,
                     .message = "the working directory is " + std::to_string(wish.code.size() >> 10) +
                                " KiB packed; a ConfigMap takes 700",
                     .next =
                         "name what is not needed in .rtrainignore, or put the code into the image or onto the claim: "
                         "--code-in-pod DIR"};
    return Done{};
}

void escape_variables(json& value) {
    if (value.is_structured())
        for (json& inner : value) escape_variables(inner);
    if (!value.is_string()) return;
    std::string out;
    for (const char c : value.get_ref<const std::string&>()) out += c == '$' ? "$$" : std::string(1, c);
    value = out;
}

// Returns the spec for use in the pod. Its variables are replaced on this machine. Its code has another path in the
// pod.
std::string spec_text(const ManifestWish& wish) {
    json job = parse_json(spec::to_json(wish.job));
    const std::string folder = wish.code.empty() ? wish.code_in_pod : code_folder_in_pod;
    job["working_dir"] = folder.empty() ? json() : json(folder);
    for (const char* field : {"name", "working_dir", "env", "storage_path", "labels"})
        if (job.contains(field)) escape_variables(job[field]);
    return yaml_text(job);
}

// The head's policy accepts pods with these labels.
json client_labels() { return {{"app.kubernetes.io/part-of", "rtrain"}, {"app.kubernetes.io/component", "client"}}; }

json metadata(const ManifestWish& wish, const std::string& name) {
    return {{"name", name}, {"namespace", wish.name_space}, {"labels", client_labels()}};
}

json variables(const ManifestWish& wish) {
    const auto text = [](const char* name, const std::string& value) { return json{{"name", name}, {"value", value}}; };
    const auto field = [](const char* name, const char* path) {
        return json{{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
    };
    const auto secret = [](const std::string& name, const std::string& of, const std::string& key) {
        return json{{"name", name}, {"valueFrom", {{"secretKeyRef", {{"name", of}, {"key", key}}}}}};
    };
    const std::string replicas = wish.workers.replicas ? std::to_string(*wish.workers.replicas) : "";
    json all = {text("HOME", "/tmp"),
                text("RTRAIN_ADDRESS", wish.head),
                text("RTRAIN_CA", "/run/secrets/rtrain/ca.crt"),
                secret("RTRAIN_TOKEN", wish.token_secret, "token"),
                text("RUN_NAME", wish.job.name),
                text("WORKER_SET", wish.workers.name),
                text("WORKER_REPLICAS", replicas),
                text("SHUTDOWN", wish.shutdown_after_finish ? "1" : ""),
                field("NAMESPACE", "metadata.namespace"),
                field("JOB_UID", "metadata.labels['batch.kubernetes.io/controller-uid']")};
    for (const std::string& name : wish.job.secrets) all.push_back(secret(name, wish.secrets_from, name));
    return all;
}

json pod(const ManifestWish& wish, const std::string& name) {
    json mounts = {{{"name", "job"}, {"mountPath", "/job"}, {"readOnly", true}},
                   {{"name", "ca"}, {"mountPath", "/run/secrets/rtrain"}, {"readOnly", true}},
                   {{"name", "tmp"}, {"mountPath", "/tmp"}}};
    json volumes = {
        {{"name", "job"}, {"configMap", {{"name", name}}}},
        {{"name", "ca"},
         {"secret",
          {{"secretName", wish.token_secret}, {"items", json::array({{{"key", "ca.crt"}, {"path", "ca.crt"}}})}}}},
        {{"name", "tmp"}, {"emptyDir", {{"sizeLimit", "1Gi"}}}}};
    if (!wish.claim.empty()) {
        mounts.push_back({{"name", "shared"}, {"mountPath", wish.claim_path}});
        volumes.push_back({{"name", "shared"}, {"persistentVolumeClaim", {{"claimName", wish.claim}}}});
    }
    json resources = {{"requests", {{"cpu", "100m"}, {"memory", "256Mi"}}}, {"limits", {{"memory", "1Gi"}}}};
    json container = {{"name", "submit"},
                      {"image", wish.image},
                      {"command", {"/usr/bin/tini", "--", "/bin/sh", "/job/run.sh"}},
                      {"env", variables(wish)},
                      {"resources", std::move(resources)},
                      {"securityContext",
                       {{"allowPrivilegeEscalation", false},
                        {"readOnlyRootFilesystem", true},
                        {"capabilities", {{"drop", {"ALL"}}}}}},
                      {"volumeMounts", std::move(mounts)}};
    const bool scales = !wish.workers.name.empty();
    json spec = {{"restartPolicy", "Never"},
                 {"automountServiceAccountToken", scales},
                 {"enableServiceLinks", false},
                 {"terminationGracePeriodSeconds", stop_seconds},
                 {"securityContext",
                  {{"runAsNonRoot", true},
                   {"runAsUser", user_id},
                   {"runAsGroup", user_id},
                   {"fsGroup", user_id},
                   {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
                 {"containers", json::array({std::move(container)})},
                 {"volumes", std::move(volumes)}};
    if (scales) spec["serviceAccountName"] = name;
    return spec;
}

json job(const ManifestWish& wish, const std::string& name) {
    // A pod that the cluster removes (upgrade, eviction) is no failure of the run: the next one continues it.
    const json disrupted = {{"action", "Ignore"},
                            {"onPodConditions", json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}};
    json spec = {{"backoffLimit", 0},
                 {"podFailurePolicy", {{"rules", json::array({disrupted})}}},
                 {"template", {{"metadata", {{"labels", client_labels()}}}, {"spec", pod(wish, name)}}}};
    constexpr std::int64_t second_ms = 1'000;
    if (wish.job.wall_time_ms) spec["activeDeadlineSeconds"] = (*wish.job.wall_time_ms + second_ms - 1) / second_ms;
    if (!wish.kueue_queue.empty()) spec["suspend"] = true;  // the Job begins suspended, and Kueue starts it later
    json about = metadata(wish, name);
    if (!wish.kueue_queue.empty()) about["labels"]["kueue.x-k8s.io/queue-name"] = wish.kueue_queue;
    return {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", std::move(about)}, {"spec", std::move(spec)}};
}

// Adds a service account for the Job. The account may scale only the one worker set.
void add_account(const ManifestWish& wish, const std::string& name, std::vector<json>& documents) {
    const char* group = "rbac.authorization.k8s.io";
    const std::string version = std::string(group) + "/v1";
    const json rule = {{"apiGroups", {"apps"}},
                       {"resources", {"statefulsets/scale"}},
                       {"resourceNames", {wish.workers.name}},
                       {"verbs", {"get", "patch"}}};
    const json subject = {{"kind", "ServiceAccount"}, {"name", name}, {"namespace", wish.name_space}};
    documents.push_back({{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", metadata(wish, name)}});
    documents.push_back({{"apiVersion", version},
                         {"kind", "Role"},
                         {"metadata", metadata(wish, name)},
                         {"rules", json::array({rule})}});
    documents.push_back({{"apiVersion", version},
                         {"kind", "RoleBinding"},
                         {"metadata", metadata(wish, name)},
                         {"roleRef", {{"apiGroup", group}, {"kind", "Role"}, {"name", name}}},
                         {"subjects", json::array({subject})}});
}

}  // namespace

std::string object_name(const std::string& run_name) {
    constexpr std::size_t name_most = 63;  // the most characters, since the name is also a label of the Job's pods
    std::string name;
    for (const char c : run_name) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        name += letter_or_digit(lower) ? lower : '-';
    }
    name.resize(std::min(name.size(), name_most));
    while (!name.empty() && name.back() == '-') name.pop_back();
    while (!name.empty() && name.front() == '-') name.erase(name.begin());
    return name.empty() ? "rtrain-job" : name;
}

Result<std::vector<json>> job_manifests(const ManifestWish& wish) {
    if (Status fine = check(wish); !fine) return fine.error();
    const std::string name = object_name(wish.job.name);
    json files = {{"apiVersion", "v1"},
                  {"kind", "ConfigMap"},
                  {"metadata", metadata(wish, name)},
                  {"data", {{"job.yaml", spec_text(wish)}, {"run.sh", job_script}}}};
    if (!wish.code.empty()) files["binaryData"] = {{"code.tar.zst", storage::base64_encode(wish.code)}};
    std::vector<json> documents{std::move(files)};
    if (!wish.workers.name.empty()) add_account(wish, name, documents);
    documents.push_back(job(wish, name));
    return documents;
}

}  // namespace rtrain::cmd
