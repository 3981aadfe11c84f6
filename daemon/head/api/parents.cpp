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

}  // namespace

std::string parent_of(const Run& run) {
    if (run.job_json.find(parent_label) == std::string::npos) return "";
    const json job = parsed_or_null(run.job_json);
    if (!job.is_object() || !job.contains("labels") || !job["labels"].is_object()) return "";
    const json parent = job["labels"].value(parent_label, json());
    return parent.is_string() ? parent.get<std::string>() : "";
}

Status mark_parent(const Exchange& exchange, spec::Job& job) {
    job.labels.erase(parent_label);
    const auto asking = asking_run(exchange);
    const auto entry = asking ? exchange.view.cluster.runs.find(*asking) : exchange.view.cluster.runs.end();
    if (entry == exchange.view.cluster.runs.end()) return Done{};
    const Run& parent = entry->second;
    if (parent.state == RunState::stopping || terminal(parent.state))
        return Error{ErrorCode::conflict, "run " + parent.name + ", which submits this one, is ending", ""};
    job.labels[parent_label] = exchange.view.run_id(parent.id);
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
