// See pending_delivery.hpp.
#include "daemon/agent/delivery/pending_delivery.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/workers/user_rights.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Fails if the storage path holds no other run. Such a directory may be a mount point without its mount, so a missing
// run does not prove that it was removed.
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

// Returns true if the run's directory was removed or belongs to another run. The attempt's claim names its run;
// run.json names only the first run of a directory.
Result<bool> run_is_gone(const AttemptContext& context, std::uint32_t number) {
    const auto claim = storage::read_claim(*context.store, context.prepare.run_name, number);
    if (claim) return claim->run_id != context.prepare.run_id || claim->cluster_id != context.prepare.cluster_id;
    if (claim.error().code != ErrorCode::not_found) return claim.error();
    if (Status seen = other_runs_are_there(context); !seen) return seen.error();
    return true;
}

Try<Context> context_of(const PendingDelivery& delivery, const NodeFacts& facts) {
    if (delivery.context) return delivery.context;
    return context_of_ended(facts, delivery.prepare);
}

}  // namespace

std::string encode_mark(const PendingDelivery& delivery) {
    json mark{{"since_wall_ms", delivery.since_wall_ms}, {"logs", delivery.logs}};
    if (delivery.end) mark["end"] = storage::encode(*delivery.end);
    return json_text(mark);
}

// Reads the mark of a pending delivery. An older agent wrote only the time, and left only logs.
PendingDelivery delivery_of(const SavedAttempt& saved, const std::string& mark, const NodeFiles& files) {
    PendingDelivery delivery{.prepare = saved.prepare,
                             .context = {},
                             .number = saved.number,
                             .journal = std::make_shared<Journal>(files.journal(key_of(saved.prepare.attempt))),
                             .logs = true};
    const json in = parse_json(mark);
    if (in.is_number_integer()) delivery.since_wall_ms = in.get<std::int64_t>();
    if (!in.is_object()) return delivery;
    if (const auto since = in.find("since_wall_ms"); since != in.end() && since->is_number_integer())
        delivery.since_wall_ms = since->get<std::int64_t>();
    if (const auto logs = in.find("logs"); logs != in.end() && logs->is_boolean()) delivery.logs = logs->get<bool>();
    if (const auto text = in.find("end"); text != in.end() && text->is_string())
        if (auto end = storage::decode_end(text->get<std::string>(), "end.json")) delivery.end = std::move(*end);
    return delivery;
}

Status run_is_there(const AttemptContext& context, std::uint32_t number) {
    const auto gone = run_is_gone(context, number);
    if (!gone) return gone.error();
    if (*gone) return Error{ErrorCode::not_found, context.prepare.run_name + " is not in its storage any more", ""};
    return Done{};
}

Tried deliver(const PendingDelivery& delivery, const NodeFacts& facts) {
    const auto result = context_of(delivery, facts);
    if (const auto* why = std::get_if<Trouble>(&result))
        return {.all = Error{ErrorCode::io, why->why, ""}, .context = {}};
    Tried tried{.context = std::get<Context>(result)};
    const AttemptContext& context = *tried.context;
    const auto gone = run_is_gone(context, delivery.number);
    if (!gone) tried.all = gone.error();
    tried.run_is_gone = gone && *gone;
    if (!gone || *gone) return tried;
    if (delivery.journal) tried.all = deliver(*delivery.journal, context, delivery.number);
    if (tried.all && delivery.logs) tried.all = copy_logs(context, facts, delivery.number);
    tried.logs = delivery.logs && tried.all;
    if (tried.all && delivery.end)
        tried.all = storage::write_end(*context.store, context.prepare.run_name, *delivery.end);
    return tried;
}

}  // namespace rtrain::agent
