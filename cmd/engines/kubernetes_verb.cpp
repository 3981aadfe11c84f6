// rtrain kubernetes render: converts a job spec to a Kubernetes Job that submits it.
#include <nlohmann/json.hpp>

#include "cmd/client/code_folder.hpp"
#include "cmd/client/submission.hpp"
#include "cmd/engines/engine_verbs.hpp"
#include "cmd/engines/job_manifest.hpp"
#include "cmd/line/settings.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Parses "NAME=4" or "NAME".
Result<WorkerSet> worker_set(const std::string& text) {
    const auto equals = text.find('=');
    WorkerSet set{.name = text.substr(0, equals), .replicas = std::nullopt};
    if (equals == text.npos) return set;
    const std::string digits = text.substr(equals + 1);
    constexpr std::size_t digits_most = 6;
    if (digits.empty() || digits.size() > digits_most || digits.find_first_not_of("0123456789") != digits.npos)
        return Error{.code = ErrorCode::usage,
                     .message = "--worker-set: \"" + digits + "\" is not a number of pods",
                     .next = "for example --worker-set rtrain-workers=4"};
    set.replicas = static_cast<std::uint32_t>(std::stoul(digits));
    return set;
}

// Parses "NAME:/PATH" or "none".
Status take_claim(const std::string& text, ManifestWish& wish) {
    if (text.empty()) return Done{};
    if (text == "none") {
        wish.claim.clear();
        return Done{};
    }
    const auto colon = text.find(":/");
    if (colon == text.npos || colon == 0 || text.size() < colon + 3)
        return Error{.code = ErrorCode::usage,
                     .message = "--claim: \"" + text + "\" is not NAME:/PATH",
                     .next = "for example --claim rtrain-shared:/mnt/shared, or none"};
    wish.claim = text.substr(0, colon);
    wish.claim_path = text.substr(colon + 1);
    while (wish.claim_path.ends_with('/')) wish.claim_path.pop_back();
    return Done{};
}

Result<ManifestWish> wish_of(const Arguments& arguments) {
    ManifestWish wish;
    wish.image = arguments.text("image");
    if (wish.image.empty())
        return Error{.code = ErrorCode::usage,
                     .message = "--image is missing: the image with rtrain in it",
                     .next = "configs/kubernetes/Containerfile makes one"};
    wish.name_space = arguments.text("namespace", wish.name_space);
    wish.head = arguments.text("head", wish.head);
    if (Result<HostPort> where = parse_host_port(wish.head, 7433); !where) return where.error();
    wish.token_secret = arguments.text("token-secret", wish.token_secret);
    wish.secrets_from = arguments.text("secrets-from");
    wish.kueue_queue = arguments.text("kueue-queue");
    wish.code_in_pod = arguments.text("code-in-pod");
    wish.shutdown_after_finish = arguments.has("shutdown-after-finish");
    if (Status taken = take_claim(arguments.text("claim"), wish); !taken) return taken.error();
    if (!arguments.has("worker-set")) return wish;
    Result<WorkerSet> set = worker_set(arguments.text("worker-set"));
    if (!set) return set.error();
    wish.workers = std::move(*set);
    return wish;
}

Result<std::string> packed_code(Invocation& call, const JobFile& file) {
    const Result<CodeFolder> folder = code_folder(call, file);
    if (!folder) return folder.error();
    if (folder->path.empty()) return std::string();
    const TemporaryDirectory temporary;
    const Result<spec::PackedCode> packed =
        spec::pack_directory(folder->path, temporary.path(), folder->named_by, folder->holds);
    if (!packed) return packed.error();
    print_links_left_out(call, *packed);
    for (const std::string& name : packed->secrets) call.out.talk("left out, for it may hold secrets: " + name);
    return read_text(packed->file);
}

Result<int> render(Invocation& call) {
    Result<ManifestWish> wish = wish_of(call.arguments);
    if (!wish) return wish.error();
    Result<JobFile> file = read_job_file(call, call.arguments.argument(0));
    if (!file) return file.error();
    if (file->job.name.empty()) file->job.name = made_up_name(file->stem);
    if (wish->code_in_pod.empty()) {
        Result<std::string> code = packed_code(call, *file);
        if (!code) return code.error();
        wish->code = std::move(*code);
    }
    wish->job = file->job;
    const Result<std::vector<json>> documents = job_manifests(*wish);
    if (!documents) return documents.error();
    const Format format = call.out.format();
    if (format == Format::json || format == Format::jsonl) {
        const json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", *documents}};
        call.out.raw(terminal_json(list, format == Format::json ? 2 : -1) + "\n");
        return 0;
    }
    for (const json& document : *documents) call.out.raw("---\n" + yaml_text(document));
    return 0;
}

}  // namespace

std::vector<Command> kubernetes_commands() {
    const Flag set{
        .name = "set", .takes = Value::text, .shown = "FIELD=VALUE", .help = "change the spec", .repeated = true};
    const auto text = [](const char* name, const char* shown, const char* help) {
        return Flag{.name = name, .takes = Value::text, .shown = shown, .help = help};
    };
    return {
        {.words = "kubernetes render",
         .group = "Engines",
         .help = "print a Job of Kubernetes that submits this job, follows it, and ends with its exit code",
         .arguments = {{.name = "job.yaml", .value = Value::file}},
         .flags = {set,
                   text("image", "IMAGE", "with rtrain in it (configs/kubernetes/Containerfile)"),
                   text("namespace", "NAME", "where the head is (default rtrain)"),
                   text("head", "HOST:PORT", "(default rtrain-head:7433)"),
                   text("token-secret", "NAME", "a Secret with token and ca.crt of the user (default rtrain-user)"),
                   text("secrets-from", "NAME", "a Secret with the values of the job's secrets"),
                   text("claim", "NAME:/PATH", "that all pods mount (default rtrain-shared:/mnt/shared), or none"),
                   text("code-in-pod", "DIR", "the code is there, on the claim or in the image; nothing is packed"),
                   text("kueue-queue", "NAME", "a LocalQueue of Kueue: the Job is suspended until Kueue lets it begin"),
                   text("worker-set", "NAME[=N]", "the StatefulSet of this job's nodes; N: scaled to it at the start"),
                   {.name = "shutdown-after-finish",
                    .help = "scale the worker set to 0 once logs and result are in the run's directory"}},
         .handler = render,
         .details = "The working directory travels in a ConfigMap, 700 KiB at most. docs/kubernetes.md has the rest.",
         .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
