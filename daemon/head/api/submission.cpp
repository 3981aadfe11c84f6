// Submits, plans and restores jobs. The spec is checked by the same reader as in the command line.
#include <filesystem>
#include <memory>
#include <set>

#include "base/hex.hpp"
#include "base/json_text.hpp"
#include "daemon/head/access/ownership.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/api/parents.hpp"
#include "daemon/head/api/submission_parts.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/base/facts.hpp"
#include "daemon/head/files/blobs.hpp"
#include "daemon/head/loop/planner.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/view/explanation_json.hpp"
#include "daemon/security/security.hpp"
#include "storage/job_spec/job.hpp"
#include "storage/job_spec/limits.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

// The parts of the head that a submission is checked against.
struct Known {
    const View& view;
    const HeadOptions& options;
    const HeadFacts& facts;
    const Ownership& ownership;
};

// The stores for the data that a run has beside its record.
struct Stores {
    Submissions& submissions;
    Blobs& blobs;
    const UserBytes& bytes;
    const TokenBook& tokens;
};

struct Submission {
    spec::Job job;
    std::string key, code_sha256, restore_from, program;
    json secrets = json::object(), lines = json::object();
    Helper helper;
    bool resume = false, fresh_name = false;
    bool channel = false;  // true: the answer contains RTRAIN_CHANNEL, the credentials of the run's own connections
    JobArray array;
    ArrayMember member;
    std::set<std::string> directories;  // names of those runs of the array for which an earlier run's directory exists
};
enum class For { submit, plan };  // the purpose of the check; a plan needs neither a name nor secrets

bool is_sha256(const std::string& text) { return text.size() == 64 && storage::is_hex(text); }

std::string text_field(const json& body, const char* name, Problems& problems) {
    const auto entry = body.find(name);
    if (entry == body.end() || entry->is_null()) return "";
    if (entry->is_string()) return entry->get<std::string>();
    problems.push_back({.path = name, .message = "must be a string"});
    return "";
}

bool flag_field(const json& body, const char* name, Problems& problems) {
    const auto entry = body.find(name);
    if (entry == body.end() || entry->is_null()) return false;
    if (entry->is_boolean()) return entry->get<bool>();
    problems.push_back({.path = name, .message = "must be true or false"});
    return false;
}

void check_secrets(const Submission& submission, Problems& problems) {
    if (submission.secrets.size() > spec::list_limit("secrets"))
        return problems.push_back({.path = "secrets",
                                   .message = "has " + std::to_string(submission.secrets.size()) +
                                              " values; the most is " + std::to_string(spec::list_limit("secrets"))});
    for (const auto& [name, value] : submission.secrets.items())
        if (!value.is_string()) problems.push_back({.path = "secrets." + name, .message = "must be a string"});
    for (const std::string& name : submission.job.secrets)
        if (!submission.secrets.contains(name))
            problems.push_back({.path = "secrets",
                                .message = "no value was sent for secret " + name,
                                .suggestion = "export " + name + " where you submit"});
}

bool exists(const HeadOptions& options, const std::string& sha256) {
    std::error_code none;
    return std::filesystem::exists(blob_path(options, sha256), none);
}

// Returns about how many bytes of the head's memory one run of the job takes: the job's text, the nodes that it names,
// its workers.
std::size_t bytes_of(const spec::Job& job) {
    return spec::to_json(job).size() + (job.nodes.size() + job.exclude_nodes.size()) * spec::bytes_of_name +
           spec::demand_bytes(job) * std::max(job.workers, job.workers_max);
}

// Reports a problem if the runs of an array would take too many bytes, since each run has a copy of the job.
void check_array(const Submission& submission, Problems& problems) {
    const spec::Job& job = submission.job;
    const std::size_t runs = submission.array.indices.size();
    const std::size_t of_one = bytes_of(job);
    if (runs * of_one > spec::array_bytes_most)
        problems.push_back({.path = "array",
                            .message = std::to_string(runs) + " runs of " + std::to_string(of_one) +
                                       " bytes each (their job, and what their workers need) are more than " +
                                       std::to_string(spec::array_bytes_most) + " bytes",
                            .suggestion = "submit several smaller arrays, one after the other has ended"});
}

// The part of a request that is read from its text, without the head's records. Any thread may make it.
struct ReadRequest {
    json body;
    spec::ReadAnswer job;
    std::set<std::string> directories{};  // as Submission::directories
};
Result<ReadRequest> read_request(const Exchange& exchange) {
    auto body = body_of(exchange);
    if (!body) return body.error();
    spec::ReadAnswer job = spec::job_from_json(body->contains("job") ? json_text((*body)["job"]) : "null");
    return ReadRequest{.body = *std::move(body), .job = std::move(job)};
}

bool on_cluster_storage(const spec::Job& job) {
    const auto uri = storage::parse_uri(job.storage_path.empty() ? "cluster://" : job.storage_path);
    return uri && uri->scheme == storage::Scheme::cluster;
}

bool has_directory(const HeadOptions& options, const std::string& name) {
    std::error_code unseen;
    return std::filesystem::exists(options.storage_root + "/" + name + "/run.json", unseen);
}

// Returns the names of those runs of the array that have a directory in the head's storage. Reads the disk for each
// run.
std::set<std::string> directories_of(const HeadOptions& options, const spec::Job& job, const std::string& array) {
    std::set<std::string> out;
    const auto parsed = parse_array(array);
    if (!parsed) return out;
    for (const std::uint32_t index : parsed->indices)
        if (const std::string name = rtrain::array_member(job.name, index); has_directory(options, name))
            out.insert(name);
    return out;
}

// Reads the request and calls `then` on the loop. A long request is read by a thread of the pool, and so are the
// directories of an array's runs, since both would block the loop.
template <class Then>
void with_request(Exchange& exchange, const HeadOptions& options, Then then) {
    constexpr std::size_t read_at_once = 32 << 10;
    const auto go_on = [then, &options](Exchange& asked, Result<ReadRequest> read) {
        if (!read) return refuse(asked, read.error());
        const json array = read->body.value("array", json());
        if (!array.is_string() || array.get<std::string>().empty() || !read->job.job ||
            !on_cluster_storage(*read->job.job))
            return then(asked, *std::move(read));
        on_pool_at(
            options.storage_root, asked,
            [&options, kept = std::make_shared<ReadRequest>(*std::move(read)), text = array.get<std::string>()] {
                kept->directories = directories_of(options, *kept->job.job, text);
                return Result<std::shared_ptr<ReadRequest>>(kept);
            },
            [then](Exchange& to, Result<std::shared_ptr<ReadRequest>> looked) {
                looked ? then(to, std::move(**looked)) : refuse(to, looked.error());
            });
    };
    if (exchange.request.body.size() <= read_at_once) return go_on(exchange, read_request(exchange));
    on_pool(exchange, [kept = exchange] { return read_request(kept); }, go_on);
}

// Reads the secrets of the request, and the line numbers of the job's fields, which messages contain.
void read_objects(const json& body, Submission& out, Problems& problems) {
    constexpr std::size_t lines_most = 64;
    if (body.contains("secrets") && body["secrets"].is_object()) out.secrets = body["secrets"];
    if (body.contains("secrets") && !body["secrets"].is_object() && !body["secrets"].is_null())
        problems.push_back({.path = "secrets", .message = "must be an object of names and values"});
    if (body.contains("lines") && body["lines"].is_object() && body["lines"].value("at", json()).is_object() &&
        body["lines"]["at"].size() <= lines_most)
        out.lines = body["lines"];
    if (json_text(out.lines).size() > spec::request_lines_most)
        problems.push_back(
            {.path = "lines", .message = "is longer than " + std::to_string(spec::request_lines_most) + " bytes"});
}

void read_array(const json& body, bool job_is_read, Submission& out, Problems& problems) {
    if (const std::string array = text_field(body, "array", problems); !array.empty()) {
        auto parsed = parse_array(array);
        if (parsed) out.array = *std::move(parsed);
        if (parsed && job_is_read) check_array(out, problems);
        if (!parsed)
            problems.push_back({.path = "array", .message = parsed.error().message, .suggestion = parsed.error().next});
    }
    if (body.contains("array_member")) out.member = array_member(body["array_member"], problems);
}

// Checks that this caller has uploaded the job's code archive and the archive of its driver.
void check_archives(const Exchange& exchange, const Known& known, const Submission& out, Problems& problems) {
    if (!out.code_sha256.empty() && !is_sha256(out.code_sha256))
        problems.push_back({.path = "code_sha256", .message = "is not a SHA-256 in lower-case hex"});
    else if (!out.code_sha256.empty() &&
             !(exists(known.options, out.code_sha256) && known.ownership.has_blob(exchange.caller, out.code_sha256)))
        problems.push_back({.path = "code_sha256",
                            .message = "this archive was not uploaded",
                            .suggestion = "PUT /v1/blobs/" + out.code_sha256 + " first"});
    // Agents fetch the driver's archive for the run, so the caller must have uploaded it. The error is the same if the
    // archive does not exist. A resumed run may have its archive in its directory instead.
    const bool goes_on = out.resume || !out.restore_from.empty();
    if (const auto driver = out.job.env.find("RTRAIN_DRIVER_SHA256");
        driver != out.job.env.end() && is_sha256(driver->second) &&
        (!goes_on || exists(known.options, driver->second)) &&
        !known.ownership.has_blob(exchange.caller, driver->second))
        problems.push_back({.path = "env.RTRAIN_DRIVER_SHA256",
                            .message = "this blob was not uploaded by " + exchange.caller.user,
                            .suggestion = "PUT /v1/blobs/" + driver->second + " first"});
}

// Reads the whole request and collects all of its problems.
Submission read_submission(const Exchange& exchange, const Known& known, ReadRequest read, For use,
                           Problems& problems) {
    const json& body = read.body;
    spec::ReadAnswer& job = read.job;
    Submission out;
    out.directories = std::move(read.directories);
    problems.insert(problems.begin(), job.problems.begin(), job.problems.end());
    const bool job_is_read = job.job.has_value();
    if (job_is_read) out.job = std::move(*job.job);
    out.key = text_field(body, "key", problems);
    out.code_sha256 = text_field(body, "code_sha256", problems);
    out.restore_from = text_field(body, "restore_from", problems);
    const std::string session = text_field(body, "session", problems);
    out.program = submitting_program(exchange, session);
    out.resume = flag_field(body, "resume", problems);
    out.fresh_name = flag_field(body, "new", problems);
    out.channel = flag_field(body, "channel", problems);
    if (job_is_read) out.helper = read_helper(exchange, body, out.program, out.job, problems);
    read_objects(body, out, problems);
    if (use == For::submit) check_secrets(out, problems);
    read_array(body, job_is_read, out, problems);
    if (out.restore_from.size() > spec::request_text_most)
        problems.push_back({.path = "restore_from",
                            .message = "is longer than " + std::to_string(spec::request_text_most) + " bytes"});
    if (session.size() > 200) problems.push_back({.path = "session", .message = "is longer than 200 characters"});
    if (out.key.size() > 200) problems.push_back({.path = "key", .message = "is longer than 200 characters"});
    check_archives(exchange, known, out, problems);
    if (out.channel && !out.array.indices.empty())
        problems.push_back({.path = "channel",
                            .message = "each run of a job array has its own channel",
                            .suggestion = "leave channel out, or submit the runs one by one"});
    if (use == For::submit && out.job.name.empty() && problems.empty())
        problems.push_back({.path = "name", .message = "is missing"});
    return out;
}

// Returns true if the name is taken: by a live run, by any run with the same storage path, or by a pending job array.
bool has_run(const Known& known, const spec::Job& job, const std::string& name) {
    const std::string path = job.storage_path.empty() ? "cluster://" : job.storage_path;
    for (const RunId id : known.view.names.named(name)) {
        const Run& run = known.view.cluster.runs.at(id);
        if (!terminal(run.state) || run.storage_path == path) return true;
    }
    return is_promised(known.view.cluster, name);
}

// Like has_run; the name is also taken if its directory exists at a storage path that this head can read.
bool taken(const Known& known, const spec::Job& job, const std::string& name) {
    return has_run(known, job, name) || (on_cluster_storage(job) && has_directory(known.options, name));
}

// Returns a free name that ends with a number. Small numbers are tried one after the other. A large number is found by
// bisection, so that the time grows with the number of its digits.
std::string free_name(const Known& known, const spec::Job& job) {
    constexpr std::uint64_t tried_in_order = 16;
    const auto numbered = [&](std::uint64_t n) { return job.name + "-" + std::to_string(n); };
    if (!taken(known, job, job.name)) return job.name;
    std::uint64_t is_taken = 1, is_free = 2;
    while (taken(known, job, numbered(is_free))) {
        is_taken = is_free;
        is_free = is_free < tried_in_order ? is_free + 1 : 2 * is_free;
    }
    while (is_free - is_taken > 1) {
        const std::uint64_t middle = is_taken + (is_free - is_taken) / 2;
        (taken(known, job, numbered(middle)) ? is_taken : is_free) = middle;
    }
    return numbered(is_free);
}

// A field that the spec allows, but that has no effect in this version or on some nodes. The run's warnings mention it.
struct NotCarriedOut {
    bool asked;
    const char* words;
};
std::vector<NotCarriedOut> not_carried_out(const spec::Job& job) {
    return {
        {!job.preload.empty(),
         "python.preload is carried out on nodes with warm starts (joined without --no-warm), where a template fits "
         "(describe: starts); elsewhere a worker imports its modules itself"},
        {!job.trainer_resources.empty(),
         "scaling.trainer_resources is not carried out: it is for a program beside the workers, and a driver is a "
         "run of its own"}};
}

std::vector<std::string> warnings_for(const Known& known, const spec::Job& job) {
    std::vector<std::string> out;
    if (on_cluster_storage(job) && !known.facts.storage_warning.empty()) out.push_back(known.facts.storage_warning);
    for (const std::string& warning : unknown_nodes(known.view.cluster, job)) out.push_back(warning);
    for (const NotCarriedOut& field : not_carried_out(job))
        if (field.asked) out.emplace_back(field.words);
    return out;
}

// Returns the key under which a run's record, secrets and code are stored. If two users send the same key, the results
// differ.
std::string own_key(const std::string& key, const std::string& user) {
    return "user-key-" + security::sha256_hex(user + "\n" + key);
}

// Returns the run of an earlier submission with the same key; null if there is none. Records of earlier versions
// contain the key as the client sent it.
const Run* earlier_submission(const Known& known, const std::string& key, const std::string& user) {
    if (key.empty()) return nullptr;
    for (const std::string& kept : {own_key(key, user), key})
        for (const RunId id : known.view.names.submitted(kept)) {
            const Run& run = known.view.cluster.runs.at(id);
            if (run.user == user) return &run;
        }
    return nullptr;
}

// Returns the place of the submitted run in a job array. A submission that resumes a run of an array keeps the place.
ArrayMember member_of(const Known& known, const Submission& submission) {
    if (!submission.resume || !submission.member.array.empty()) return submission.member;
    const std::string path = submission.job.storage_path.empty() ? "cluster://" : submission.job.storage_path;
    ArrayMember member;
    for (const RunId id : known.view.names.named(submission.job.name)) {
        const Run& run = known.view.cluster.runs.at(id);
        if (run.storage_path == path) member = {.array = run.array, .index = run.array_index};
    }
    return member;
}

RunSubmitted event_of(const Known& known, const Submission& submission, const std::vector<After>& after,
                      const std::string& user) {
    RunSpec spec = spec::run_spec(submission.job);
    spec.after = after;
    const ArrayMember member = member_of(known, submission);
    return {.name = submission.job.name,
            .user = user,
            .submit_key = submission.key,
            .job_json = spec::to_json(submission.job),
            .storage_path = submission.job.storage_path.empty() ? "cluster://" : submission.job.storage_path,
            .spec = std::move(spec),
            .resume = submission.resume,
            .restore_from = submission.restore_from,
            .warnings = warnings_for(known, submission.job),
            .wall_ms = wall_ms(),
            .array = submission.array.indices,
            .array_parallel = submission.array.parallel,
            .member_of = member.array,
            .member_index = member.index,
            .program = submission.program,
            .yielding = submission.helper.yielding,
            .parent = submission.helper.parent};
}

void accept(Exchange& exchange, const Known& known, const Stores& stores, const Submission& submission) {
    const auto after = predecessors(exchange.view, submission.job.after);
    if (!after) return refuse(exchange, after.error());
    const std::string secrets = submission.secrets.empty() ? "" : json_text(submission.secrets);
    const Submissions::Files files{.user = exchange.caller.user,
                                   .code_sha256 = submission.code_sha256,
                                   .secrets_json = secrets,
                                   .lines_json = submission.lines.empty() ? "" : json_text(submission.lines),
                                   .for_any_user = submission.resume && is_admin(exchange.caller)};
    if (auto saved = stores.submissions.save(submission.key, files); !saved) return refuse(exchange, saved.error());
    if (is_admin(exchange.caller))
        stores.blobs.let_use(spec::to_json(submission.job), submission.code_sha256, exchange.caller.user);
    audit_detail(exchange, "name=" + submission.job.name);
    const RunId next{exchange.view.cluster.meta.next_run};
    exchange.events.take(
        event_of(known, submission, *after, exchange.caller.user),
        [kept = exchange, next,
         tokens = submission.channel ? &stores.tokens : nullptr](const Decision& decision) mutable {
            if (decision.refused) return refuse(kept, *decision.refused);
            RTRAIN_CHECK(decision.created.has_value(), "a submission that is not refused names its run");
            const int status =
                *decision.created < next ? 200 : 201;  // an earlier submission with this key has made the run
            reply_submitted(kept, status, *decision.created, tokens);
        });
}

void refuse_problems(Exchange& exchange, const Problems& problems) {
    const bool listed = problems.size() <= spec::problems_most;
    refuse(exchange,
           {ErrorCode::invalid,
            (listed ? std::to_string(problems.size()) : "more than " + std::to_string(spec::problems_most)) +
                " problem(s) in the submission; first: " + (problems[0].path.empty() ? "" : problems[0].path + ": ") +
                problems[0].message,
            "rtrain validate shows all of them"},
           problems);
}

// Fails unless the caller owns the files from which the run resumes, and the job array that it joins.
Status check_user(const Known& known, const Caller& caller, const Submission& submission) {
    const spec::Job& job = submission.job;
    const std::string path = job.storage_path.empty() ? "cluster://" : job.storage_path;
    if (const Status may = known.ownership.may_use_directory(caller, job.name, path); !may) return may;
    const ArrayMember& member = submission.member;
    for (const RunId id : known.view.names.named(member.array + "-" + std::to_string(member.index)))
        if (const Run& run = known.view.cluster.runs.at(id);
            run.array == member.array && run.user != caller.user && !is_admin(caller))
            return Error{ErrorCode::unauthorised, "the job array " + member.array + " is " + run.user + "'s",
                         "leave array_member out"};
    return Done{};
}

// Checks the run's name. If the request has `new`, replaces it by a free one.
Status check_name(const Known& known, const Caller& caller, Submission& submission) {
    spec::Job& job = submission.job;
    if (submission.resume)
        if (const Status may = check_user(known, caller, submission); !may) return may;
    if (submission.fresh_name) job.name = free_name(known, job);
    if (!submission.array.indices.empty() && (submission.fresh_name || submission.resume))
        return Error{ErrorCode::usage, "an array has neither new nor resume", "give the job another name"};
    for (const std::uint32_t index : submission.array.indices)
        if (const std::string member = rtrain::array_member(job.name, index);
            has_run(known, job, member) || submission.directories.contains(member))
            return Error{ErrorCode::conflict, "there is a run '" + member + "' at this storage path",
                         "give the job another name"};
    if (submission.array.indices.empty() && !submission.resume && taken(known, job, job.name))
        return Error{ErrorCode::conflict, "there is a run '" + job.name + "' at this storage path",
                     "--resume goes on from its last checkpoint, --new takes the name " + free_name(known, job)};
    return Done{};
}

// Returns the bytes that the head stores for a submission: records of its runs, its event, its secrets.
KeptBytes kept_of(const Submission& submission) {
    const auto runs = static_cast<std::int64_t>(std::max<std::size_t>(1, submission.array.indices.size()));
    const auto of_one = static_cast<std::int64_t>(spec::bytes_of_run + bytes_of(submission.job));
    const auto secrets =
        submission.secrets.empty() ? 0 : static_cast<std::int64_t>(json_text(submission.secrets).size());
    return {.memory = runs * of_one, .database = 2 * runs * of_one + of_one, .files = secrets};
}

// Fails if the user would have too many runs that have not ended, since lists, metrics and the scheduler look at each.
Status check_live_runs(const Known& known, const std::string& user, const Submission& submission) {
    const std::size_t runs = std::max<std::size_t>(1, submission.array.indices.size());
    const std::size_t live = known.view.names.live_runs_of(user) + unmade_runs_of(known.view.cluster, user);
    const std::size_t most = known.options.user_live_runs;
    if (live + runs <= most) return Done{};
    return Error{ErrorCode::full,
                 user + " has " + std::to_string(live) + " runs that have not ended, and this adds " +
                     std::to_string(runs) + "; the most is " + std::to_string(most),
                 "submit this when others have ended, or stop some (rtrain stop)"};
}

void submit(Exchange& exchange, const Known& known, const Stores& stores, ReadRequest read) {
    if (const Run* before = earlier_submission(
            known, read.body.value("key", json()).is_string() ? read.body["key"] : "", exchange.caller.user)) {
        drop_audit(exchange);
        const bool channel = read.body.value("channel", json()) == true;
        return reply_submitted(exchange, 200, before->id, channel ? &stores.tokens : nullptr);
    }
    Problems problems;
    if (read.job.job) add_secrets_of_owner(exchange, stores.submissions, *read.job.job, read.body);
    Submission submission = read_submission(exchange, known, std::move(read), For::submit, problems);
    if (!problems.empty()) return refuse_problems(exchange, problems);
    submission.key = own_key(submission.key.empty() ? security::random_hex(16) : submission.key, exchange.caller.user);
    if (const Status below = mark_parent(exchange, submission.job); !below) return refuse(exchange, below.error());
    if (const Status named = check_name(known, exchange.caller, submission); !named)
        return refuse(exchange, named.error());
    if (const Status live = check_live_runs(known, exchange.caller.user, submission); !live)
        return refuse(exchange, live.error());
    if (const Status may = stores.bytes.may_add(exchange.caller.user, Kept::runs, kept_of(submission)); !may)
        return refuse(exchange, may.error());
    accept(exchange, known, stores, submission);
}

// Answers with a plan, or refuses the job as a submission would be refused. Without `as_submitted`, only the placement
// is planned: the name may be taken, and the answer about a gang that no present node could hold is "infeasible".
void plan_of(Exchange& exchange, const Known& known, Planner& planner, ReadRequest read) {
    Problems problems;
    const bool as_submitted = flag_field(read.body, "as_submitted", problems);
    Submission submission = read_submission(exchange, known, std::move(read), For::plan, problems);
    if (!problems.empty()) return refuse_problems(exchange, problems);
    if (!as_submitted) {
        submission.job.name = "this job";  // a name that no run can have
        submission.job.wait_for_nodes = true;
    } else if (const Status below = mark_parent(exchange, submission.job); !below) {
        return refuse(exchange, below.error());
    } else if (const Status named = check_name(known, exchange.caller, submission); !named) {
        return refuse(exchange, named.error());
    }
    const auto after = predecessors(exchange.view, submission.job.after);
    if (!after) return refuse(exchange, after.error());
    submission.key.clear();  // the key is removed, so that the plan does not return the run of an earlier submission
    RunSubmitted event = event_of(known, submission, *after, exchange.caller.user);
    const std::vector<std::string> warnings = event.warnings;
    planner.plan(exchange.view.clock.now(), std::move(event),
                 [kept = exchange, queue = submission.job.queue, lines = submission.lines,
                  warnings](const Result<Plan>& plan) mutable {
                     guarded(kept, [&] {
                         if (!plan) return refuse(kept, plan.error());
                         if (plan->refused) return refuse(kept, *plan->refused);
                         reply_json(kept, 200, plan_json(*plan, queue, lines, warnings));
                     });
                 });
}

}  // namespace

void post_run(Exchange& exchange, const HeadOptions& options, const HeadFacts& facts, const Ownership& ownership,
              Submissions& submissions, Blobs& blobs, const UserBytes& bytes, const TokenBook& tokens) {
    const Known known{exchange.view, options, facts, ownership};
    with_request(exchange, options,
                 [known, stores = Stores{submissions, blobs, bytes, tokens}](Exchange& asked, ReadRequest read) {
                     submit(asked, known, stores, std::move(read));
                 });
}

namespace {

// Returns a submission that continues an ended run from a checkpoint, with the run's job and code. The head stores no
// secrets of a run that has ended.
Result<ReadRequest> request_to_restore(const Exchange& exchange, const Known& known, const Submissions& submissions,
                                       const Run& run) {
    const std::string restore = "rtrain restore " + run.name;
    const auto asked = body_of(exchange);
    if (!asked) return asked.error();
    const json checkpoint = asked->value("checkpoint", json(""));
    if (!checkpoint.is_string()) return Error{ErrorCode::usage, "checkpoint must be a string", ""};
    const std::string directory = checkpoint.get<std::string>();
    if (!terminal(run.state))
        return Error{ErrorCode::conflict, "run " + run.name + " is " + to_text(run.state), "rtrain stop " + run.name};
    const auto kept = known.view.cluster.checkpoints.find({.run = run.id, .directory = directory});
    if (!directory.empty() && (kept == known.view.cluster.checkpoints.end() || kept->second.deleting))
        return Error{ErrorCode::not_found, "run " + run.name + " keeps no checkpoint " + directory,
                     "rtrain checkpoints list " + run.name};
    json job = parsed_or_null(run.job_json);
    if (!job.is_object()) return Error{ErrorCode::damaged, "the record of run " + run.name + " has no job", restore};
    job.erase("after");  // the run has begun before, so its predecessors no longer matter
    job["priority"] = run.spec.priority;
    if (const json secrets = job.value("secrets", json::array()); !secrets.empty())
        return Error{
            ErrorCode::usage,
            "the head does not keep the secrets of a run that has ended: " + run.name + " needs their values again",
            restore + ", where the secrets are set"};
    const std::string code = submissions.code(run.submit_key);
    if (!code.empty() && !exists(known.options, code))
        return Error{ErrorCode::not_found, "the head no longer has the code of run " + run.name,
                     restore + ", which reads it from the run's directory"};
    spec::ReadAnswer read = spec::job_from_json(json_text(job));
    return ReadRequest{.body = {{"code_sha256", code}, {"resume", true}, {"restore_from", directory}},
                       .job = std::move(read)};
}

}  // namespace

void post_restore(Exchange& exchange, const HeadOptions& options, const HeadFacts& facts, const Ownership& ownership,
                  Submissions& submissions, Blobs& blobs, const UserBytes& bytes, const TokenBook& tokens) {
    const Known known{exchange.view, options, facts, ownership};
    with_run(exchange, [&](const Run& run) {
        auto request = request_to_restore(exchange, known, submissions, run);
        if (!request) return refuse(exchange, request.error());
        const std::string from = request->body["restore_from"];
        if (!from.empty()) audit_detail(exchange, "checkpoint=" + from);
        submit(exchange, known, {submissions, blobs, bytes, tokens}, *std::move(request));
    });
}

void post_plan(Exchange& exchange, const HeadOptions& options, const HeadFacts& facts, const Ownership& ownership,
               Planner& planner) {
    const Known known{exchange.view, options, facts, ownership};
    with_request(exchange, options, [known, &planner](Exchange& asked, ReadRequest read) {
        plan_of(asked, known, planner, std::move(read));
    });
}

}  // namespace rtrain::head
