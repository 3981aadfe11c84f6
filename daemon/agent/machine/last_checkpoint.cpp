// Decides how long to wait for a checkpoint that is under way when the ranks of its attempt have ended here. The agent
// waits while the upload makes progress, and while the head is unreachable, since no attempt can end without it.
// Otherwise it waits for a bounded time.
#include <algorithm>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {

using namespace protocol;

namespace {

constexpr std::int64_t patience_ms = 60'000;  // since the last progress, between tries
// Within a try that neither makes progress nor fails: a mount that hangs, a slow line.
constexpr std::int64_t stuck_ms = 300'000;
constexpr std::int64_t cut_patience_ms = 15'000;  // for the part of a node that has lost its connection
// A node whose part is stored waits this long, after its ranks have ended, for the coordinator's result. The parts of
// other nodes may take as long. A link that breaks at each message must not keep the node for ever.
constexpr std::int64_t outcome_patience_ms = 3'600'000;
// An empty node sends its last messages on another connection than the head's message that it is empty.
constexpr std::int64_t last_messages_ms = 1'000;
constexpr std::int64_t notice_after_ms = 10'000;
constexpr std::int64_t backoff_first_ms = 1'000;
constexpr std::uint32_t in_vain_max = 3;

// Returns the nodes whose part of the pending checkpoint the coordinator does not have.
std::vector<std::string> parts_missing(const LocalAttempt& attempt) {
    std::vector<std::string> nodes;
    if (!attempt.coordinator || !attempt.coordinator->commit) return nodes;
    for (const std::string& node : attempt.coordinator->commit->nodes_waiting)
        if (node != attempt.coordinator->own_node) nodes.push_back(node);
    return nodes;
}

// Returns when to give up. Other nodes' parts have no limit here: each node gives up its own part and reports that it
// is empty, and the head passes that on.
std::optional<Time> stands_still_at(const LocalAttempt& attempt, Time from, bool parts_are_missing) {
    if (attempt.local && attempt.local->upload && !attempt.local->upload->done) {
        const LocalUpload& own = *attempt.local->upload;
        if (own.running || attempt.local->given_up_try)
            return std::max({from, own.advanced_at, own.answered_at}) + Duration{stuck_ms};
        return std::max(from, own.advanced_at) + Duration{patience_ms};
    }
    if (!attempt.coordinator || !attempt.coordinator->commit || parts_are_missing) return std::nullopt;
    const Commit& commit = *attempt.coordinator->commit;
    return std::max(from, commit.stored_at) + Duration{commit.writing ? stuck_ms : patience_ms};
}

std::optional<Time> give_up_at(const AgentState& state, const LocalAttempt& attempt) {
    if (!attempt.uploads_from || !(state.registered || state.left)) return std::nullopt;
    const Time from = std::max(*attempt.uploads_from, state.registered_at);
    const auto missing = parts_missing(attempt);
    std::optional<Time> at = stands_still_at(attempt, from, !missing.empty());
    const auto no_later_than = [&](Time since, std::int64_t ms) {
        const Time latest = std::max(from, since) + Duration{ms};
        at = at ? std::min(*at, latest) : latest;
    };
    const bool only_heard =
        !attempt.coordinator && attempt.local && attempt.local->upload && attempt.local->upload->done;
    if (only_heard) no_later_than(from, outcome_patience_ms);
    if (attempt.others_gone && (only_heard || !missing.empty())) no_later_than(*attempt.others_gone, last_messages_ms);
    for (const auto& [node, since] : attempt.nodes_cut) {
        const bool waited_for = attempt.coordinator ? std::find(missing.begin(), missing.end(), node) != missing.end()
                                                    : node.empty();  // the coordinator
        if (waited_for) no_later_than(since, cut_patience_ms);
    }
    return at;
}

std::optional<Time> notice_at(const LocalAttempt& attempt) {
    const bool due =
        attempt.uploads_from && !attempt.uploading_noticed && attempt.coordinator && attempt.coordinator->commit;
    return due ? std::optional(*attempt.uploads_from + Duration{notice_after_ms}) : std::nullopt;
}

// Sends a notice for a run that continues although its ranks have ended.
void notice_what_is_waited_for(Step& step, LocalAttempt& attempt) {
    attempt.uploading_noticed = true;
    const Commit& commit = *attempt.coordinator->commit;
    std::string text = "the ranks on " + step.state.node +
                       " have ended; the attempt ends once its last checkpoint is stored: " + commit.directory +
                       " (report " + std::to_string(commit.index) + ") is on its way";
    for (const std::string& node : parts_missing(attempt)) text += ", " + node + " is storing its part";
    if (!commit.trouble.empty()) text += "; " + commit.trouble;
    text += "; it is given up only when nothing of it has moved for a minute, or by rtrain stop --now";
    add_news(step, Notice{.attempt = reference(attempt), .text = std::move(text), .reason = "last_checkpoint"});
}

void give_up(Step& step, LocalAttempt& attempt) {
    std::string why = "the attempt has ended";
    for (const std::string& node : parts_missing(attempt)) why += ", and " + node + " has not stored its part";
    abandon_uploads(step, attempt, why);
}

}  // namespace

void last_checkpoint_time(Step& step, LocalAttempt& attempt) {
    if (const auto at = give_up_at(step.state, attempt); at && step.now >= *at) return give_up(step, attempt);
    if (const auto at = notice_at(attempt); at && step.now >= *at) notice_what_is_waited_for(step, attempt);
}

std::optional<Time> next_last_checkpoint(const AgentState& state, const LocalAttempt& attempt) {
    const auto at = give_up_at(state, attempt), notice = notice_at(attempt);
    return at && notice ? std::min(*at, *notice) : at ? at : notice;
}

// Retries at once the uploads to the head's storage, since the head can be reached again.
void try_uploads_now(Step& step) {
    for (auto& [key, attempt] : step.state.attempts) {
        const auto now = [&](auto& waiting) {
            if (!waiting || !waiting->retry_at) return;
            waiting->retry_at = step.now;
            waiting->backoff_ms = backoff_first_ms;
        };
        if (attempt.local) now(attempt.local->upload);
        if (attempt.coordinator) now(attempt.coordinator->commit);
    }
}

void on(Step& step, const UploadMoved& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt || !attempt->local || !attempt->local->upload) return;
    LocalUpload& upload = *attempt->local->upload;
    const bool replaced = attempt->local->given_up_try == input.index;
    if (!replaced && (upload.index != input.index || !upload.running)) return;
    upload.answered_at = step.now;  // also if a replaced checkpoint's try moves, since this one waits for its end
    if (replaced) return;
    if (input.bytes > upload.bytes) attempt->local->storage_silent = upload.silent = false;  // it has answered
    upload.bytes = input.bytes;
}

// Handles the end of a try that failed. A try that got further than all before it restarts the patience. A try that
// only moved something restarts it a few times, since a full disk takes the same bytes again and again.
void broke_off(LocalUpload& upload, Time now) {
    const bool further = upload.bytes > upload.most_bytes;
    if (further) upload.in_vain = 0;
    if (further || (upload.bytes > 0 && ++upload.in_vain <= in_vain_max)) {
        upload.advanced_at = now;
        upload.backoff_ms = backoff_first_ms;
    }
    upload.most_bytes = std::max(upload.most_bytes, upload.bytes);
    upload.bytes = 0;
}

}  // namespace rtrain::agent
