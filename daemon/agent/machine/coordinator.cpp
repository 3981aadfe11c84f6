// The coordinator of a report group, on rank 0's node. It releases a report once every node has sent its part, and
// writes a manifest once every node has uploaded. A newer checkpoint waits for the one under way, or replaces it if its
// storage fails. One whose manifest has no answer is `closing` beside it.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "daemon/agent/machine/message_bounds.hpp"
#include "daemon/agent/machine/report_group.hpp"
#include "runtime/worker/frames/stop.hpp"

namespace rtrain::agent {
namespace {

using namespace protocol;
constexpr std::int64_t first_warning_ms = 30'000;

AttemptKey key(const Coordinator& c) { return key_of(c.attempt); }

void send(const Coordinator& c, const std::string& node, GroupMessage message, GroupSink& sink) {
    if (node == c.own_node)
        sink.to_local.push_back(std::move(message));
    else
        sink.out.push_back(ToGroup{key(c), node, std::move(message)});
}

void send_to_all(const Coordinator& c, const GroupMessage& message, GroupSink& sink) {
    for (const auto& [node, ranks] : c.nodes) send(c, node, message, sink);
}

void notice(const Coordinator& c, std::string reason, std::string text, GroupSink& sink) {
    sink.news.push_back(Notice{.attempt = c.attempt, .text = std::move(text), .reason = std::move(reason)});
}

// Bounds the memory for reports with wrong indexes: a node is at most one report ahead. The highest are dropped first.
constexpr std::size_t reports_ahead_most = 64;

template <class Value>
void forget_far_ahead(std::map<std::uint64_t, Value>& by_report) {
    while (by_report.size() > reports_ahead_most) by_report.erase(std::prev(by_report.end()));
}

Gathered& gathered(Coordinator& c, Time now, std::uint64_t index) {
    const auto [entry, fresh] = c.gathering.try_emplace(index);
    if (fresh) {
        entry->second.since = now;
        entry->second.warn_at = now + Duration{first_warning_ms};
    }
    return entry->second;
}

std::string listed(const std::vector<std::uint32_t>& ranks) {
    std::string text;
    for (const std::uint32_t rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    return text;
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
    return (ranks.size() > 1 ? "ranks " : "rank ") + listed(ranks);
}

void request_stacks(const Coordinator& c, const std::vector<std::uint32_t>& missing, const std::string& why,
                    GroupSink& sink) {
    for (const auto& [node, ranks] : c.nodes) {
        GroupStacks stacks{.why = why};
        for (const std::uint32_t rank : missing)
            if (ranks.contains(rank)) stacks.ranks.push_back(rank);
        if (!stacks.ranks.empty()) send(c, node, std::move(stacks), sink);
    }
}

void warn_missing(Coordinator& c, Time now, std::uint64_t index, Gathered& gathering, GroupSink& sink) {
    std::vector<std::uint32_t> missing, waiting;
    for (std::uint32_t rank = 0; rank < c.world_size; ++rank)
        (gathering.ranks.contains(rank) ? waiting : missing).push_back(rank);
    gathering.warn_at = now + Duration{gathering.warn_every_ms};
    gathering.warn_every_ms *= 2;
    if (missing.empty()) return;
    ++c.warnings;
    const bool several_wait = waiting.size() > 1;
    const std::string since = " for " + seconds((now - gathering.since).ms) + " s", report = std::to_string(index);
    notice(c, "missing_ranks",
           "`report` was not called by all " + std::to_string(c.world_size) + " workers: ranks [" + listed(missing) +
               "] have not come" + since + " (" +
               (several_wait ? "ranks " + listed(waiting) + " wait" : "rank " + listed(waiting) + " waits") +
               ", report " + report + ")",
           sink);
    request_stacks(c, missing, "the other ranks wait for it in report " + report + since, sink);
}

// Returns why the report can never pass; empty if it still may.
std::string hopeless(const Coordinator& c, Time now, std::uint64_t index, const Gathered& gathering) {
    if (gathering.ranks.empty() || gathering.nodes.size() == c.nodes.size()) return "";
    std::vector<std::uint32_t> missing, ended;
    for (std::uint32_t rank = 0; rank < c.world_size; ++rank)
        if (!gathering.ranks.contains(rank)) missing.push_back(rank);
    for (const auto& [rank, after] : c.ended)
        if (after < index && !gathering.ranks.contains(rank)) ended.push_back(rank);
    const std::string waiting = listed({gathering.ranks.begin(), gathering.ranks.end()});
    const std::string waits =
        (gathering.ranks.size() > 1 ? "ranks " + waiting + " wait" : "rank " + waiting + " waits") + " in report " +
        std::to_string(index);
    if (!ended.empty())
        return "ranks report unequally often: " + ranks_text(ended) + " ended after report " +
               std::to_string(c.ended.at(ended.front())) + ", " + waits +
               ", which can never pass; every rank must call report() the same number of times";
    if (c.timeout_ms == 0 || missing.empty() || now - gathering.since < Duration{c.timeout_ms}) return "";
    return "ranks report unequally often, or one is stuck: " + waits + ", and for " +
           seconds((now - gathering.since).ms) + " s rank " + listed(missing) +
           " has not come (backend.timeout_s); every rank must call report() the same number of times";
}

constexpr std::int64_t hopeless_again_ms = 10'000;

// Returns when to end a hopeless report. The time is in the past only if there is something to send now.
std::optional<Time> hopeless_at(const Coordinator& c, const Gathered& gathering) {
    const bool complete = gathering.nodes.size() == c.nodes.size() || gathering.ranks.size() >= c.world_size;
    if (c.enough || complete) return std::nullopt;
    if (gathering.hopeless_sent_at) return *gathering.hopeless_sent_at + Duration{hopeless_again_ms};
    if (c.timeout_ms == 0) return std::nullopt;
    return gathering.since + Duration{c.timeout_ms};
}

// Ends a hopeless report: the node of the first waiting rank ends that rank, which ends the attempt with this text.
void end_hopeless(Coordinator& c, Time now, GroupSink& sink) {
    const auto entry = c.gathering.find(c.passed + 1);
    if (entry == c.gathering.end() || c.enough) return;
    Gathered& gathering = entry->second;
    if (gathering.hopeless_sent_at && now < *gathering.hopeless_sent_at + Duration{hopeless_again_ms}) return;
    std::string why = hopeless(c, now, entry->first, gathering);
    if (why.empty()) return;
    if (!gathering.hopeless_sent_at) notice(c, "missing_ranks", why, sink);
    gathering.hopeless_sent_at = now;
    for (const auto& [node, ranks] : c.nodes)
        if (ranks.contains(*gathering.ranks.begin()))
            send(c, node, GroupArrived{.index = entry->first, .hopeless = std::move(why)}, sink);
}

// Ends the first rank that waits in a broadcast for a rank that has ended.
void end_stuck_broadcast(Coordinator& c, GroupSink& sink) {
    const std::uint64_t index = c.broadcast_passed + 1;
    std::set<std::uint32_t> waiting;
    if (const auto come = c.broadcast_ranks.find(index); come != c.broadcast_ranks.end()) waiting = come->second;
    if (const auto come = c.broadcast_nodes.find(index); come != c.broadcast_nodes.end())
        for (const std::string& node : come->second) waiting.insert(c.nodes[node].begin(), c.nodes[node].end());
    std::vector<std::uint32_t> ended;
    for (const auto& [rank, after] : c.ended)
        if (!waiting.contains(rank)) ended.push_back(rank);
    for (const std::uint32_t rank : c.ended_unwatched)
        if (!waiting.contains(rank)) ended.push_back(rank);
    if (waiting.empty() || ended.empty()) return;
    const std::string why = "ranks make unequally many collective calls: " + ranks_text(ended) + " ended, and " +
                            ranks_text({waiting.begin(), waiting.end()}) + (waiting.size() > 1 ? " wait" : " waits") +
                            " in a call of rtrain.train that all ranks make, which can never pass; every rank must "
                            "make the same calls in the same order";
    if (!std::exchange(c.stuck_broadcast_noticed, true)) notice(c, "missing_ranks", why, sink);
    for (const auto& [node, ranks] : c.nodes)
        if (ranks.contains(*waiting.begin())) send(c, node, GroupArrived{.index = c.passed + 1, .hopeless = why}, sink);
}

// Returns, by node, the files to leave out, so that each name occurs once: the lowest rank's file is kept.
std::map<std::string, std::vector<std::string>> collisions(const Coordinator& c, const Gathered& gathering,
                                                           std::string& example) {
    std::map<std::string, std::uint32_t> owner;
    for (const auto& [node, report] : gathering.nodes)
        for (const StagedFile& file : report.files) {
            const auto [entry, fresh] = owner.emplace(file.path, file.rank);
            if (!fresh && file.rank != entry->second) example = file.path;
            entry->second = std::min(entry->second, file.rank);
        }
    std::map<std::string, std::vector<std::string>> skip;
    for (const auto& [node, report] : gathering.nodes)
        for (const StagedFile& file : report.files) {
            const auto ranks = c.nodes.find(node);
            if (ranks != c.nodes.end() && !ranks->second.contains(owner[file.path])) skip[node].push_back(file.path);
        }
    for (auto& [node, paths] : skip) {
        std::sort(paths.begin(), paths.end());
        paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    }
    return skip;
}

std::string known(const std::string& reason) { return reason.empty() ? "storage_failed" : reason; }  // older agents

struct Wish {
    bool checkpoint = false, sync = false;
    std::string error, error_reason, metrics_json;  // metrics_json: rank 0's
    WishedName name{.exact = true};
};
Wish wish_of(const Coordinator& c, const Gathered& gathering) {
    Wish wish;
    bool deeper = true;
    for (const auto& [node, report] : gathering.nodes) {
        wish.checkpoint = wish.checkpoint || report.checkpoint;
        wish.sync = wish.sync || report.sync;
        if (wish.error.empty()) {
            wish.error = report.checkpoint_error;
            wish.error_reason = report.error_reason;
        }
        // A directory that is already in place is not moved. Its name has priority over rank 0's request (of the own
        // node).
        const bool first = wish.name.text.empty() || node != c.own_node;
        if (!report.directory_name.empty() && first) wish.name.text = report.directory_name;
        wish.name.exact = wish.name.exact && report.exact;
        deeper = deeper && report.deeper;
    }
    // An older agent refuses every message about a deeper directory, so such a checkpoint is given up.
    if (wish.name.text.find('/') != std::string::npos) wish.name.exact = wish.name.exact && deeper;
    return wish;
}

GroupReleased released_with_files(const Commit& commit, const std::string& node) {
    GroupReleased released{.index = commit.index, .directory = commit.directory, .sync = commit.sync};
    if (const auto skip = commit.skips.find(node); skip != commit.skips.end()) released.skip = skip->second;
    return released;
}

// Names the directory of a checkpoint. A repeated name is noticed once, since a program mostly repeats it each time.
std::string new_directory(Coordinator& c, const Wish& wish, GroupSink& sink) {
    NewDirectory directory = name_directory(c, wish.name);
    if (!directory.first_repeated.empty())
        notice(c, "checkpoint_name_again",
               "the name '" + directory.first_repeated +
                   "' was given to a checkpoint of this attempt before, which stays as it is: this one is " +
                   directory.name + ", and later ones are numbered on",
               sink);
    return std::move(directory.name);
}

void begin_commit(Coordinator& c, Time now, const Reported& reported, const Gathered& gathering, Wish wish,
                  GroupSink& sink) {
    const std::uint64_t index = reported.index;
    std::string example;
    auto skip = collisions(c, gathering, example);
    if (!example.empty())
        notice(c, "checkpoint_names",
               "several ranks have a file '" + example + "' in the checkpoint of report " + std::to_string(index) +
                   ": the lowest rank's is kept",
               sink);
    Commit commit{.index = index,
                  .directory = reported.checkpoint,
                  .metrics_json = std::move(wish.metrics_json),
                  .since = now,
                  .wall_ms = sink.wall_ms,
                  .blocked_ms = (now - gathering.since).ms,
                  .sync = wish.sync};
    for (const auto& [node, report] : gathering.nodes) commit.nodes_waiting.insert(node);
    commit.skips = std::move(skip);
    c.commit = std::move(commit);
    for (const auto& [node, ranks] : c.nodes) send(c, node, released_with_files(*c.commit, node), sink);
}

// Returns true if a newer checkpoint may begin. A manifest that is being written may appear later, so its files stay.
bool replaceable(const Coordinator& c) {
    return c.commit->writing ? c.commit->manifest_late && !c.closing : !c.commit->trouble.empty();
}

void make_way(Coordinator& c, GroupSink& sink) {
    if (c.commit && c.commit->writing) c.closing = std::exchange(c.commit, std::nullopt);
    abandon_commit(c, "", sink);
}

// Releases a report that every node has sent. Returns true if it was released.
bool release(Coordinator& c, Time now, std::uint64_t index, Gathered& gathering, GroupSink& sink) {
    Wish wish = wish_of(c, gathering);
    const bool whole = gathering.nodes.size() == c.nodes.size();
    const bool with_files = wish.checkpoint && wish.error.empty() && whole;
    if (with_files && c.commit && !replaceable(c)) {
        if (!gathering.waiting_noticed)
            notice(c, "upload_in_flight",
                   "report " + std::to_string(index) + " waits: the checkpoint of report " +
                       std::to_string(c.commit->index) + " (" + c.commit->directory + ") is still being stored",
                   sink);
        gathering.waiting_noticed = true;
        return false;
    }
    if (with_files) make_way(c, sink);
    if (!wish.error.empty() && wish.error_reason != worker::replaced_reason)
        notice(c, known(wish.error_reason), "checkpoint not written: " + wish.error + "; training goes on", sink);
    Reported reported{.attempt = c.attempt, .index = index, .wall_ms = sink.wall_ms};
    if (with_files) reported.checkpoint = new_directory(c, wish, sink);
    for (auto& [node, report] : gathering.nodes) reported.metrics_json.merge(report.metrics_json);
    bound_metrics(reported.metrics_json);
    c.passed = index;
    c.knows_passed = true;
    for (const std::uint32_t rank : std::exchange(c.ended_unwatched, {})) c.ended.try_emplace(rank, index);
    const auto rank0 = reported.metrics_json.find(0);
    const bool here = rank0 != reported.metrics_json.end();
    c.enough = c.enough || (here && worker::reached_stop(c.stop_at, rank0->second));
    if (here) wish.metrics_json = rank0->second;
    sink.out.push_back(JournalMetrics{key(c), index, sink.wall_ms, reported.metrics_json});
    sink.news.push_back(reported);
    if (with_files)
        begin_commit(c, now, reported, gathering, std::move(wish), sink);
    else
        send_to_all(c, GroupReleased{.index = index}, sink);
    return true;
}

// Returns whether report passed + 1 waits for no rank of the node, since all of them have ended and may have passed it.
bool may_be_past(const Coordinator& c, const std::set<std::uint32_t>& ranks) {
    return std::includes(c.ended_unwatched.begin(), c.ended_unwatched.end(), ranks.begin(), ranks.end());
}

void release_ready(Coordinator& c, Time now, GroupSink& sink) {
    const auto entry = c.gathering.find(c.passed + 1);
    if (entry == c.gathering.end() || c.enough) return;
    const bool all_here = entry->second.nodes.size() == c.nodes.size();
    if (!all_here && c.ended_unwatched.empty()) return;
    for (const auto& [node, ranks] : c.nodes)
        if (!all_here && !entry->second.nodes.contains(node) && !may_be_past(c, ranks)) return;
    if (release(c, now, entry->first, entry->second, sink)) c.gathering.erase(c.gathering.begin(), std::next(entry));
}

std::optional<Time> manifest_late_at(const Coordinator& c) {
    if (!c.commit || !c.commit->writing || c.commit->manifest_late) return std::nullopt;
    return c.commit->writing_at + Duration{silence_first_ms};
}

// Records that a node's ranks have passed report `passed`. A restarted coordinator may not have that.
void catch_up(Coordinator& c, std::uint64_t passed, GroupSink& sink) {
    if (passed <= c.passed) return;
    c.passed = passed;
    for (auto old = c.gathering.begin(); old != c.gathering.end() && old->first <= c.passed;) {
        for (const auto& [late, late_report] : old->second.nodes)
            send(c, late, GroupReleased{.index = old->first}, sink);
        old = c.gathering.erase(old);
    }
}

void on_message(Coordinator& c, Time now, const std::string& node, GroupReport report, GroupSink& sink) {
    if (report.index > 0) catch_up(c, report.index - 1, sink);
    if (report.index <= c.passed) {
        const bool with_files = c.commit && c.commit->index == report.index;
        GroupReleased again{.index = report.index};
        if (with_files) again = released_with_files(*c.commit, node);
        return send(c, node, std::move(again), sink);
    }
    Gathered& gathering = gathered(c, now, report.index);
    for (const auto& [rank, metrics] : report.metrics_json) gathering.ranks.insert(rank);
    gathering.nodes.insert_or_assign(node, std::move(report));
    release_ready(c, now, sink);
}

void write_manifest(Coordinator& c, Time now, GroupSink& sink) {
    Commit& commit = *c.commit;
    commit.writing = true;
    commit.writing_at = now;
    commit.retry_at.reset();
    storage::Manifest manifest{.directory = commit.directory,
                               .attempt = c.attempt.number,
                               .report = commit.index,
                               .world_size = c.world_size,
                               .wall_ms = commit.wall_ms,
                               .metrics_json = commit.metrics_json};
    for (const StagedFile& file : commit.files)
        manifest.files.push_back({.path = file.path, .bytes = file.bytes, .sha256 = file.sha256, .rank = file.rank});
    std::sort(manifest.files.begin(), manifest.files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    sink.out.push_back(WriteManifest{key(c), std::move(manifest)});
}

// Notices a trouble, once for each kind in a row, not at every try. No rank needs to wait for the commit.
void in_trouble(Coordinator& c, const std::string& why, const std::string& reason, GroupSink& sink) {
    Commit& commit = *c.commit;
    if ((commit.trouble.empty() || commit.trouble_reason != known(reason)) && c.replaced_trouble != known(reason))
        notice(c, known(reason), "checkpoint not written: " + why + "; training goes on, and it is tried again", sink);
    commit.trouble = why;
    commit.trouble_reason = known(reason);
    send_to_all(c, GroupUploaded{.index = commit.index, .error = why, .error_reason = known(reason)}, sink);
}

void on_message(Coordinator& c, Time now, const std::string& node, const GroupUploaded& news, GroupSink& sink) {
    if (c.closing && c.closing->index == news.index) return;
    if (!c.commit || c.commit->index != news.index) {  // settled, but the node has not received that
        if (c.committed.index == news.index) return send(c, node, c.committed, sink);
        if (c.given_up.index == news.index) return send(c, node, c.given_up, sink);
        return send(c, node, GroupCommitted{.index = news.index}, sink);
    }
    if (!c.commit->nodes_waiting.contains(node)) return;
    if (news.error == part_lost || news.error_reason == name_taken) {
        abandon_commit(c, node + ": " + news.error, sink);
        return release_ready(c, now, sink);
    }
    if (news.error_reason == storage_answers) return c.replaced_trouble.clear(), c.commit->trouble.clear();
    if (!news.error.empty()) {
        in_trouble(c, node + ": " + news.error, news.error_reason, sink);
        return release_ready(c, now, sink);  // a newer checkpoint that waits may replace it
    }
    c.commit->nodes_waiting.erase(node);
    c.commit->files.insert(c.commit->files.end(), news.files.begin(), news.files.end());
    if (!c.commit->nodes_waiting.empty()) return;
    c.commit->stored_at = now;
    if (!c.closing) write_manifest(c, now, sink);
}

// Asks a node that has reconnected for its part, since it may have lost the part.
void joined(Coordinator& c, const std::string& node, GroupSink& sink) {
    if (c.commit && c.commit->nodes_waiting.contains(node)) send(c, node, released_with_files(*c.commit, node), sink);
}

void on_message(Coordinator& c, Time now, const GroupArrived& news, GroupSink& sink) {
    if (news.index == 0) return;
    catch_up(c, news.index - 1, sink);
    for (const std::uint32_t rank : news.ended) c.ended[rank] = news.index - 1;
    for (const std::uint32_t rank : news.ended_unwatched) {
        if (c.knows_passed)
            c.ended.try_emplace(rank, c.passed);
        else if (!c.ended.contains(rank))
            c.ended_unwatched.insert(rank);
    }
    if (news.broadcast > c.broadcast_passed)
        c.broadcast_ranks[news.broadcast].insert(news.broadcast_ranks.begin(), news.broadcast_ranks.end());
    end_stuck_broadcast(c, sink);
    if (!c.ended_unwatched.empty()) release_ready(c, now, sink);
    if (news.index <= c.passed || news.ranks.empty()) return;
    Gathered& gathering = gathered(c, now, news.index);
    gathering.ranks.insert(news.ranks.begin(), news.ranks.end());
}

void on_message(Coordinator& c, const std::string& node, const GroupBroadcast& news, GroupSink& sink) {
    if (news.index <= c.broadcast_passed)
        return send(c, node, GroupBroadcast{.index = news.index, .data = c.broadcast_data}, sink);
    if (node == c.own_node) c.broadcast_data = news.data;  // rank 0 is on this node
    auto& come = c.broadcast_nodes[news.index];
    come.insert(node);
    if (come.size() != c.nodes.size()) return end_stuck_broadcast(c, sink);
    c.broadcast_passed = news.index;
    c.broadcast_ranks.erase(c.broadcast_ranks.begin(), c.broadcast_ranks.upper_bound(news.index));
    c.broadcast_nodes.erase(c.broadcast_nodes.begin(), c.broadcast_nodes.upper_bound(news.index));
    send_to_all(c, GroupBroadcast{.index = news.index, .data = c.broadcast_data}, sink);
}

// Removes the parts of a message that concern other ranks than the node's own.
void own_ranks_alone(const std::set<std::uint32_t>& own, GroupMessage& message) {
    const auto foreign = [&](std::uint32_t rank) { return !own.contains(rank); };
    if (auto* report = std::get_if<GroupReport>(&message)) {
        std::erase_if(report->metrics_json, [&](const auto& metrics) { return foreign(metrics.first); });
        std::erase_if(report->files, [&](const StagedFile& file) { return foreign(file.rank); });
        const bool in_place = report->exact && is_checkpoint_directory(report->directory_name);
        if (foreign(0) && !in_place) report->directory_name.clear();
    }
    if (auto* uploaded = std::get_if<GroupUploaded>(&message))
        std::erase_if(uploaded->files, [&](const StagedFile& file) { return foreign(file.rank); });
    if (auto* arrived = std::get_if<GroupArrived>(&message)) {
        std::erase_if(arrived->ranks, foreign);
        std::erase_if(arrived->ended, foreign);
        std::erase_if(arrived->ended_unwatched, foreign);
        std::erase_if(arrived->broadcast_ranks, foreign);
    }
}

}  // namespace

std::string seconds(std::int64_t ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(ms) / 1000);
    return text;
}

void from_node(Coordinator& c, Time now, const std::string& node, GroupMessage message, GroupSink& sink) {
    const auto member = c.nodes.find(node);
    if (member == c.nodes.end()) return;  // not a node of this attempt
    own_ranks_alone(member->second, message);
    forget_far_ahead(c.gathering);
    forget_far_ahead(c.broadcast_nodes);
    forget_far_ahead(c.broadcast_ranks);
    if (std::holds_alternative<GroupJoin>(message)) return joined(c, node, sink);
    if (auto* report = std::get_if<GroupReport>(&message)) on_message(c, now, node, std::move(*report), sink);
    if (const auto* uploaded = std::get_if<GroupUploaded>(&message)) return on_message(c, now, node, *uploaded, sink);
    if (const auto* arrived = std::get_if<GroupArrived>(&message)) on_message(c, now, *arrived, sink);
    end_hopeless(c, now, sink);
    if (const auto* broadcast = std::get_if<GroupBroadcast>(&message)) return on_message(c, node, *broadcast, sink);
}

// Resumes a checkpoint after a restart. Every node repeats its uploads once it is connected; the own one uploads again.
void resume_commit(Coordinator& c, Time now, const SavedUpload& saved) {
    Commit commit{.index = saved.released.index,
                  .directory = saved.released.directory,
                  .metrics_json = saved.metrics_json,
                  .skips = saved.skips,
                  .since = now,
                  .wall_ms = saved.wall_ms,
                  .blocked_ms = saved.blocked_ms,
                  .sync = saved.released.sync};
    for (const auto& [node, ranks] : c.nodes) commit.nodes_waiting.insert(node);
    c.commit = std::move(commit);
}

std::optional<SavedUpload> saved_upload_of(const LocalRanks& local, const Coordinator* c) {
    if (!local.upload) return std::nullopt;
    const LocalUpload& upload = *local.upload;
    SavedUpload saved{.released = {.index = upload.index,
                                   .directory = upload.directory,
                                   .skip = {upload.skip.begin(), upload.skip.end()},
                                   .sync = upload.sync},
                      .staged = upload.staged};
    if (c == nullptr || !c->commit || c->commit->index != upload.index) return saved;
    saved.metrics_json = c->commit->metrics_json;
    saved.wall_ms = c->commit->wall_ms;
    saved.blocked_ms = c->commit->blocked_ms;
    saved.skips = c->commit->skips;
    return saved;
}

namespace {

void announce(Coordinator& c, Time now, const Commit& commit, GroupSink& sink) {
    Committed committed{.attempt = c.attempt,
                        .directory = commit.directory,
                        .metrics_json = commit.metrics_json,
                        .index = commit.index,
                        .world_size = c.world_size,
                        .wall_ms = sink.wall_ms,
                        .blocked_us = commit.blocked_ms * 1000,
                        .upload_ms = (now - commit.since).ms};
    for (const StagedFile& file : commit.files) committed.bytes += file.bytes;
    sink.news.push_back(std::move(committed));
    c.committed = {.index = commit.index, .directory = commit.directory};
    c.replaced_trouble.clear();
    send_to_all(c, c.committed, sink);
}

// Gives a checkpoint up. Empty `why`: a newer one replaced it. Workers that wait for it (sync) get an error.
void give_up(Coordinator& c, const Commit& commit, const std::string& why, GroupSink& sink) {
    notice(c, why.empty() ? "checkpoint_replaced" : "checkpoint_given_up",
           "the checkpoint of report " + std::to_string(commit.index) + " (" + commit.directory +
               ") was given up: " + (why.empty() ? "a newer one replaces it" : why) +
               (commit.trouble.empty() ? "" : " (" + commit.trouble + ")"),
           sink);
    sink.out.push_back(DropUncommitted{key(c), commit.directory});
    c.replaced_trouble = why.empty() && !commit.trouble.empty() ? commit.trouble_reason : "";
    c.given_up = {.index = commit.index, .error = commit.sync ? why : ""};
    send_to_all(c, c.given_up, sink);
}

// The manifest of the commit before has an answer at last.
void closed(Coordinator& c, Time now, const ManifestWritten& news, GroupSink& sink) {
    const Commit commit = *std::exchange(c.closing, std::nullopt);
    if (news.why.empty())
        announce(c, now, commit, sink);
    else
        give_up(c, commit, news.reason == name_taken ? news.why : "", sink);
    if (c.commit && c.commit->nodes_waiting.empty()) write_manifest(c, now, sink);
    release_ready(c, now, sink);
}

}  // namespace

void manifest_written(Coordinator& c, Time now, const ManifestWritten& news, GroupSink& sink) {
    if (c.closing && c.closing->index == news.index) return closed(c, now, news, sink);
    if (!c.commit || c.commit->index != news.index) return;
    Commit& commit = *c.commit;
    commit.writing = commit.manifest_late = false;
    if (news.reason == name_taken) {
        abandon_commit(c, news.why, sink);
        return release_ready(c, now, sink);
    }
    if (!news.why.empty()) {
        in_trouble(c, news.why, news.reason, sink);
        commit.retry_at = now + Duration{commit.backoff_ms};
        commit.backoff_ms = std::min(commit.backoff_ms * 2, backoff_max_ms);
        return release_ready(c, now, sink);
    }
    announce(c, now, *std::exchange(c.commit, std::nullopt), sink);
    release_ready(c, now, sink);
}

// Gives a checkpoint up. With `why` empty it was replaced by a newer one; otherwise so is the one before it.
void abandon_commit(Coordinator& c, const std::string& why, GroupSink& sink) {
    if (!why.empty() && c.closing) give_up(c, *std::exchange(c.closing, std::nullopt), why, sink);
    if (c.commit) give_up(c, *std::exchange(c.commit, std::nullopt), why, sink);
}

void coordinator_time(Coordinator& c, Time now, GroupSink& sink) {
    for (auto& [index, gathering] : c.gathering)
        if (now >= gathering.warn_at) warn_missing(c, now, index, gathering, sink);
    end_hopeless(c, now, sink);
    if (c.commit && c.commit->retry_at && now >= *c.commit->retry_at) write_manifest(c, now, sink);
    if (const auto late = manifest_late_at(c); late && now >= *late) {
        c.commit->manifest_late = true;
        in_trouble(c, "the storage has not answered for " + seconds(silence_first_ms) + " s", "storage_unreachable",
                   sink);
        release_ready(c, now, sink);
    }
}

std::optional<Time> next_wake(const Coordinator& c) {
    std::optional<Time> at;
    if (c.commit) at = c.commit->retry_at ? c.commit->retry_at : manifest_late_at(c);
    for (const auto& [index, gathering] : c.gathering) {
        if (!at || gathering.warn_at < *at) at = gathering.warn_at;
        if (const auto due = hopeless_at(c, gathering); due && *due < *at && index == c.passed + 1) at = due;
    }
    return at;
}

}  // namespace rtrain::agent
