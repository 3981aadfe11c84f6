// See parents.hpp. A label of the job names the parent, so the parent is known as long as the job exists.
#include "daemon/head/api/parents.hpp"

#include <set>

#include "daemon/head/requests/pages_json.hpp"
#include "daemon/security/security.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::head {
namespace {

constexpr const char* parent_label = "rtrain.parent";

// Returns the run whose worker sends the request. Such a worker uses the run's token, with the id "run-17". The token
// has been checked before.
std::optional<RunId> asking_run(const Exchange& exchange) {
    constexpr std::string_view bearer = "Bearer ", run = "run-";
    const std::string header = exchange.request.header("authorization");
    if (!header.starts_with(bearer)) return std::nullopt;
    const auto token = security::parse_token(header.substr(bearer.size()));
    if (!token || !token->id.starts_with(run)) return std::nullopt;
    return RunId{std::stoull(token->id.substr(run.size()))};
}

constexpr const char* yields_field = "yields";

// Returns the run of whose worker the request is; null if none of its records is left, or a person sends it.
const Run* submitting_run(const Exchange& exchange) {
    const auto id = asking_run(exchange);
    const auto entry = id ? exchange.view.cluster.runs.find(*id) : exchange.view.cluster.runs.end();
    return entry == exchange.view.cluster.runs.end() ? nullptr : &entry->second;
}

bool is_helper(const json& body) {
    const auto entry = body.find(yields_field);
    return entry != body.end() && !entry->is_null();
}

}  // namespace

Helper read_helper(const Exchange& exchange, const json& body, const std::string& program, spec::Job& job,
                   Problems& problems) {
    if (!is_helper(body)) return {};
    const auto wrong = [&](const char* path, std::string message, std::string suggestion) {
        problems.push_back({.path = path, .message = std::move(message), .suggestion = std::move(suggestion)});
    };
    if (!body[yields_field].is_boolean()) wrong(yields_field, "must be true or false", "");
    const Run* owner = submitting_run(exchange);
    if (owner == nullptr && program.empty())
        wrong(yields_field, "a run that may yield belongs to a run or a session, and this one has no owner",
              "submit it from a worker of a run, or with a session; leave yields out for an ordinary run");
    if (job.workers != 1 || job.workers_max > 1)
        wrong(yields_field, "a run that may yield has one worker", "set scaling.workers to 1");
    const json array = body.value("array", json());
    if ((!array.is_null() && array != json("")) || body.value("resume", json(false)) == json(true))
        wrong(yields_field, "a run that may yield is no job array and does not resume a run", "leave yields out");
    if (owner != nullptr && job.queue != default_queue && job.queue != owner->spec.queue)
        wrong("queue", "a run that may yield uses the queue of its owner, " + owner->spec.queue, "leave queue out");
    if (owner != nullptr) job.queue = owner->spec.queue;
    return {.yielding = body[yields_field] == json(true) ? Yielding::active : Yielding::paused,
            .parent = owner == nullptr ? RunId{} : owner->id};
}

void add_secrets_of_owner(const Exchange& exchange, const Submissions& submissions, const spec::Job& job, json& body) {
    const Run* owner = submitting_run(exchange);
    if (!is_helper(body) || owner == nullptr || job.secrets.empty()) return;
    json& sent = body["secrets"];
    if (sent.is_null()) sent = json::object();
    if (!sent.is_object()) return;  // read_submission refuses it
    const std::map<std::string, std::string> values = submissions.secrets(*owner);
    for (const std::string& name : job.secrets)
        if (const auto value = values.find(name); value != values.end() && !sent.contains(name))
            sent[name] = value->second;
}

std::string parent_of(const Run& run) {
    if (run.job_json.find(parent_label) == std::string::npos) return "";
    const json job = parsed_or_null(run.job_json);
    if (!job.is_object() || !job.contains("labels") || !job["labels"].is_object()) return "";
    const json parent = job["labels"].value(parent_label, json());
    return parent.is_string() ? parent.get<std::string>() : "";
}

Status mark_parent(const Exchange& exchange, spec::Job& job) {
    job.labels.erase(parent_label);
    const Run* parent = submitting_run(exchange);
    if (parent == nullptr) return Done{};
    if (parent->state == RunState::stopping || terminal(parent->state))
        return Error{ErrorCode::conflict, "run " + parent->name + ", which submits this one, is ending", ""};
    job.labels[parent_label] = exchange.view.run_id(parent->id);
    return Done{};
}

// Combines the name of a session with the token, so that no user can join another user's session.
std::string submitting_program(const Exchange& exchange, const std::string& session) {
    const auto& runs = exchange.view.cluster.runs;
    if (const auto asking = asking_run(exchange)) {
        const auto entry = runs.find(*asking);
        return entry == runs.end() ? "" : program_of(entry->second);
    }
    if (session.empty()) return "";
    const Caller& caller = exchange.caller;
    return "session-" +
           security::sha256_hex(caller.user + "\n" + caller.token_id + "\n" + caller.session + "\n" + session);
}

std::vector<RunId> submitted_below(const View& view, RunId parent) {
    std::vector<RunId> children;
    std::set<std::string> above{view.run_id(parent)};
    for (const auto& [id, run] :
         view.cluster.runs) {  // runs are visited by their numbers, so a parent comes before its children
        if (!above.contains(parent_of(run))) continue;
        above.insert(view.run_id(id));
        if (!terminal(run.state)) children.push_back(id);
    }
    return children;
}

}  // namespace rtrain::head
