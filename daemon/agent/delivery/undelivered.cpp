// See undelivered.hpp.
#include "daemon/agent/delivery/undelivered.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/workers/user_rights.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A mount point without its mount is a directory without runs: that this one is not there says nothing then.
Status other_runs_are_there(const AttemptContext& context) {
    if (!context.store->local()) return Done{};
    const fs::path path = fs::path(context.store->local_path(context.prepare.run_name)).parent_path();
    const UserRights rights(context.user);
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return worn.taken().error();
    std::error_code failed;
    for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
        std::error_code unseen;
        if (fs::exists(at->path() / "run.json", unseen)) return Done{};
    }
    return Error{ErrorCode::unreachable, "no run is in " + path.string() + "; is it mounted?", ""};
}

// An attempt's claim names the run that it is of; run.json names the first run of a directory only.
Result<bool> run_is_gone(const AttemptContext& context, std::uint32_t number) {
    const auto claim = storage::read_claim(*context.store, context.prepare.run_name, number);
    if (claim) return claim->run_id != context.prepare.run_id || claim->cluster_id != context.prepare.cluster_id;
    if (claim.error().code != ErrorCode::not_found) return claim.error();
    if (Status seen = other_runs_are_there(context); !seen) return seen.error();
    return true;
}

Try<Context> context_of(const Rest& rest, const NodeFacts& facts) {
    if (rest.context) return rest.context;
    return context_of_ended(facts, rest.prepare);
}

}  // namespace

std::string encode_mark(const Rest& rest) {
    json mark{{"since_wall_ms", rest.since_wall_ms}, {"logs", rest.logs}};
    if (rest.end) mark["end"] = storage::encode(*rest.end);
    return mark.dump();
}

// An agent before this one wrote the time alone, and left logs behind.
Rest rest_of(const SavedAttempt& saved, const std::string& mark, const NodeFiles& files) {
    Rest rest{.prepare = saved.prepare,
              .context = {},
              .number = saved.number,
              .journal = std::make_shared<Journal>(files.journal(key_of(saved.prepare.attempt))),
              .logs = true};
    const json in = json::parse(mark, nullptr, false);
    if (in.is_number_integer()) rest.since_wall_ms = in.get<std::int64_t>();
    if (!in.is_object()) return rest;
    if (const auto since = in.find("since_wall_ms"); since != in.end() && since->is_number_integer())
        rest.since_wall_ms = since->get<std::int64_t>();
    if (const auto logs = in.find("logs"); logs != in.end() && logs->is_boolean()) rest.logs = logs->get<bool>();
    if (const auto text = in.find("end"); text != in.end() && text->is_string())
        if (auto end = storage::decode_end(text->get<std::string>(), "end.json")) rest.end = std::move(*end);
    return rest;
}

Tried deliver(const Rest& rest, const NodeFacts& facts) {
    const auto result = context_of(rest, facts);
    if (const auto* why = std::get_if<Trouble>(&result))
        return {.all = Error{ErrorCode::io, why->why, ""}, .context = {}};
    Tried tried{.context = std::get<Context>(result)};
    const AttemptContext& context = *tried.context;
    const auto gone = run_is_gone(context, rest.number);
    if (!gone) tried.all = gone.error();
    tried.run_is_gone = gone && *gone;
    if (!gone || *gone) return tried;
    if (rest.journal) tried.all = deliver(*rest.journal, context, rest.number);
    if (tried.all && rest.logs) tried.all = copy_logs(context, facts, rest.number);
    tried.logs = rest.logs && tried.all;
    if (tried.all && rest.end) tried.all = storage::write_end(*context.store, context.prepare.run_name, *rest.end);
    return tried;
}

}  // namespace rtrain::agent
