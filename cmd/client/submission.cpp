// Uploads the code of a submission, reads its secrets, and sends it to the head.
#include "cmd/client/submission.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/follow.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/progress.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::cmd {

using nlohmann::json;

namespace {

Result<json> secret_values(const std::vector<std::string>& names) {
    json values = json::object();
    for (const std::string& name : names) {
        const char* value = std::getenv(name.c_str());
        if (value == nullptr)
            return Error{.code = ErrorCode::invalid,
                         .message = "secrets: " + name + " is not set in your environment",
                         .next = "export " + name + "=..., then again"};
        if (!exact_json_text(value))
            return Error{.code = ErrorCode::invalid,
                         .message = "secrets: the value of " + name + " in your environment is not UTF-8",
                         .next = "encode it (base64), and decode it in the job"};
        values[name] = value;
    }
    return values;
}

std::string unique_key() {
    std::string key = security::random_hex(16);
    for (const std::size_t at : {8u, 13u, 18u, 23u}) key.insert(at, "-");
    return key;
}

}  // namespace

Status secrets_are_set(const spec::Job& job) {
    const Result<json> values = secret_values(job.secrets);
    if (!values) return values.error();
    return Done{};
}

TemporaryDirectory::TemporaryDirectory() {
    std::error_code failed;
    std::string pattern = (std::filesystem::temp_directory_path(failed) / "rtrain-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code failed;
    if (!path_.empty()) std::filesystem::remove_all(path_, failed);
}

void print_links_left_out(Invocation& call, const spec::PackedCode& packed) {
    constexpr std::size_t shown_most = 10;
    std::string names;
    for (std::size_t i = 0; i < std::min(packed.left_out.size(), shown_most); ++i)
        names += (i == 0 ? "" : "; ") + packed.left_out[i];
    if (packed.left_out.size() > shown_most)
        names += "; and " + std::to_string(packed.left_out.size() - shown_most) + " more";
    if (!names.empty()) call.out.talk("left out: " + names + ". Give the program a path that its node has instead");
}

void print_left_out(Invocation& call, const spec::PackedCode& packed) {
    print_links_left_out(call, packed);
    std::string names;
    for (const std::string& name : packed.secrets) names += (names.empty() ? "" : ", ") + name;
    if (!names.empty()) call.out.talk("left out, for they may hold secrets: " + names + "; working_dir: . sends them");
}

Status ship_archive(Invocation&, Api& api, const std::string& file, const std::string& sha256) {
    const std::string target = "/v1/blobs/" + sha256;
    Result<bool> there = api.exists(target);
    if (!there) return there.error();
    if (*there) return Done{};
    Progress progress("uploading the working directory");
    return api.put_file(target, file, [&](std::uint64_t done, std::uint64_t total) { progress.at(done, total); });
}

Result<spec::PackedCode> ship_directory(Invocation& call, Api& api, const std::string& directory,
                                        spec::NamedBy named_by, const std::string& needed) {
    const TemporaryDirectory temporary;
    Result<spec::PackedCode> packed = spec::pack_directory(directory, temporary.path(), named_by, needed);
    if (!packed) return packed.error();
    constexpr std::int64_t large = 100 << 20;
    if (packed->bytes > large)
        call.out.talk("the working directory is " + bytes_text(packed->bytes) + " in " + std::to_string(packed->files) +
                      " files; name what is not needed in .rtrainignore");
    if (Status sent = ship_archive(call, api, packed->file, packed->sha256); !sent) return sent.error();
    return packed;
}

Result<json> hand_over(Api& api, const Submission& submission) {
    constexpr int tries = 5;
    constexpr std::int64_t pause_ms = 500;
    Result<json> secrets = secret_values(submission.job.secrets);
    if (!secrets) return secrets.error();
    json body = {{"job", parse_json(spec::to_json(submission.job))},
                 {"key", submission.key.empty() ? unique_key() : submission.key},
                 {"code_sha256", submission.code_sha256},
                 {"secrets", *secrets},
                 {"resume", submission.resume},
                 {"restore_from", submission.restore_from},
                 {"new", submission.make_new}};
    if (!submission.array.empty()) body["array"] = submission.array;
    if (!submission.lines.empty()) body["lines"] = parse_json(submission.lines);
    if (!submission.member.array.empty())
        body["array_member"] = {{"array", submission.member.array}, {"index", submission.member.index}};
    for (int left = tries;; --left) {
        Result<json> run = api.post("/v1/runs", body);
        if (run || left == 1 || run.error().code != ErrorCode::unreachable) return run;
        if (wait_or_interrupt(pause_ms)) return run;
    }
}

Result<json> hand_over_once(Api& api, Submission submission) {
    constexpr int continuations_most = 1'000;
    constexpr std::int64_t pause_ms = 500;
    const std::string key = submission.key;
    for (int part = 1; part <= continuations_most; ++part) {
        if (part > 1) submission.key = key + "/" + std::to_string(part);
        submission.resume = part > 1;
        Result<json> run = hand_over(api, submission);
        while (run && string_of(*run, "state") == "STOPPING" && !wait_or_interrupt(pause_ms))
            run = api.get("/v1/runs/" + url_part(string_of(*run, "run_id")));
        if (!run || string_of(*run, "state") != "STOPPED") return run;
    }
    return Error{
        .code = ErrorCode::conflict,
        .message = "the run of --once " + key + " was stopped " + std::to_string(continuations_most) + " times",
        .next = "choose another key"};
}

Result<int> print_and_follow(Invocation& call, Api& api, const json& run) {
    const std::string name = string_of(run, "name");
    for (const json& warning : run.value("warnings", json::array()))
        call.out.talk("warning: " + (warning.is_string() ? warning.get<std::string>() : json_text(warning)));
    if (const json members = run.value("array_runs", json()); members.is_array()) {
        std::string text;
        for (const json& member : members)
            text += string_of(member, "name") + " is " + string_of(member, "state") + "\n";
        call.out.document(run, "array", text);
        return 0;
    }
    if (!call.arguments.has("follow")) {
        call.out.document(run, "name", run_line(run) + "\n");
        if (call.out.for_people()) call.out.talk("follow it with: rtrain logs " + name + " -f");
        return 0;
    }
    watch_interrupts(nullptr, nullptr);  // the head has accepted the run; from here on Ctrl-C only detaches
    call.out.talk(run_line(run));
    LogWish wish;
    choose_shown(wish, run);
    wish.prefix = run.value("workers", json(0)) != 1;
    Result<std::optional<json>> end = follow_run(call, api, run, wish);
    if (!end) return end.error();
    if (!end->has_value()) return detached(call, name);
    call.out.talk(end_text(**end));
    return followed_exit(api, **end, call.arguments.has("propagate-exit"));
}

std::string made_up_name(const std::string& stem) {
    std::string name;
    for (const char c : stem) {
        const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                          c == '_' || c == '-';
        name += fine ? c : '-';
    }
    const auto letter_or_digit = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    if (name.empty() || !letter_or_digit(name[0])) name = "job" + name;
    name = name.substr(0, 120) + "-";
    const std::string random = security::random_hex(5);
    for (std::size_t i = 0; i < 5; ++i)
        name += static_cast<char>('a' + std::stoi(random.substr(i * 2, 2), nullptr, 16) % 26);
    return name;
}

}  // namespace rtrain::cmd
