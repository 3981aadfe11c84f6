// The part of an attempt's report group for the ranks of this node.
#include <algorithm>

#include "daemon/agent/machine/message_bounds.hpp"
#include "daemon/agent/machine/report_group.hpp"

namespace rtrain::agent {
namespace {

using namespace protocol;
constexpr std::size_t settled_max = 64;
constexpr std::size_t ahead_max = 64;
constexpr const char* unreachable_reason = "storage_unreachable";
constexpr std::int64_t partial_after_ms = 1'000;  // after this time the waiting ranks are sent to the coordinator

void send(LocalRanks& local, GroupMessage message, GroupSink& sink) {
    if (local.coordinates)
        sink.to_coordinator.push_back(std::move(message));
    else
        sink.out.push_back(ToGroup{local.attempt, "", std::move(message)});
}

void send_to_ranks(const LocalRanks& local, const worker::FromAgent& message, GroupSink& sink) {
    for (const std::uint32_t rank : local.ranks) sink.out.push_back(ToWorker{local.attempt, rank, message});
}

bool wants_sync(const LocalRanks& local, const worker::Report& report) {
    if (!report.checkpoint) return false;
    if (report.upload == worker::Upload::run_default) return local.mode == UploadMode::sync;
    return report.upload == worker::Upload::sync;
}

bool wants_upload(const LocalRanks& local, const worker::Report& report) {
    if (!report.checkpoint) return false;
    if (report.upload == worker::Upload::run_default) return local.mode != UploadMode::none;
    return report.upload != worker::Upload::none;
}

// Returns when the checkpoint counts as one that does not move. nullopt: no rank waits for it, or it counts so already.
std::optional<Time> silent_at(const LocalRanks& local) {
    if (!local.upload || local.upload->done || local.upload->silent || local.upload->retry_at) return std::nullopt;
    if (!local.complete || !local.complete->checkpoint) return std::nullopt;
    return local.upload->answered_at + Duration{local.silence_ms};
}

void drop_staged(LocalRanks& local, std::uint64_t index, GroupSink& sink) {
    const auto entry = local.staged.find(index);
    if (entry == local.staged.end()) return;
    sink.out.push_back(DropStaged{local.attempt, std::move(entry->second)});
    local.staged.erase(entry);
}

// Sends `committed` to every rank, and keeps it for ranks that reconnect.
void settle(LocalRanks& local, worker::Committed news, GroupSink& sink) {
    send_to_ranks(local, news, sink);
    local.settled[news.index] = std::move(news);
    if (local.settled.size() > settled_max) local.settled.erase(local.settled.begin());
}

void complete(LocalRanks& local, GroupReport report, GroupSink& sink) {
    local.partial_at.reset();
    local.complete = report;
    send(local, std::move(report), sink);
}

// Lists what the ranks have staged. If the storage is silent, the name that rank 0 requested is not claimed there: the
// checkpoint then has a name with its attempt.
void list(LocalRanks& local, Time now, const GroupReport& report, GroupSink& sink) {
    const bool claim = !local.storage_silent;
    const bool on_node = !local.local_run_path.empty();  // staged on the storage itself, which is needed anyway
    if (claim && !on_node && !report.directory_name.empty()) local.claiming_at = now;
    sink.out.push_back(ListStaged{local.attempt, report.index, local.staged[report.index], report.directory_name,
                                  local.number, claim || on_node});
}

// Sends one message for all ranks of the node, with the files' names if there are files.
void gather(LocalRanks& local, Time now, GroupSink& sink) {
    GroupReport report{.index = local.passed + 1, .exact = true, .deeper = true};
    StagedPaths staged;
    if (!local.ended_unwatched.empty()) {
        report.checkpoint_error = "ranks of this node have ended";
        report.error_reason = "ranks_ended";
    }
    for (auto& [rank, rank_report] : local.come) {
        report.metrics_json.emplace_hint(report.metrics_json.end(), rank, std::move(rank_report.metrics_json));
        report.sync = report.sync || wants_sync(local, rank_report);
        if (rank_report.checkpoint) staged[rank] = rank_report.checkpoint->path;
        report.checkpoint = report.checkpoint || wants_upload(local, rank_report);
        // A real error has priority over the message that another rank has replaced its files.
        if (report.checkpoint_error.empty() ||
            (report.error_reason == worker::replaced_reason && !rank_report.checkpoint_error.empty())) {
            report.checkpoint_error = rank_report.checkpoint_error;
            report.error_reason = rank_report.error_reason;
        }
        if (rank == 0 && rank_report.checkpoint) report.directory_name = rank_report.checkpoint->directory_name;
    }
    bound_metrics(report.metrics_json);
    if (!staged.empty()) local.staged[report.index] = staged;
    if (!report.checkpoint) return complete(local, std::move(report), sink);
    list(local, now, report, sink);
    local.complete = std::move(report);
    local.partial_at.reset();
}

void answer(const LocalRanks& local, std::uint32_t rank, std::uint64_t index, GroupSink& sink) {
    sink.out.push_back(ToWorker{local.attempt, rank, worker::Reported{.index = index}});
}

// The storage does not take that checkpoint at present, whichever node found it so: nobody need wait for its commit.
void in_trouble(const LocalRanks& local, std::uint64_t index, GroupSink& sink) {
    if (local.upload && local.upload->index == index && !local.upload->sync)
        send_to_ranks(local, worker::Reported{.index = index, .directory = ""}, sink);
}

// Nothing of the checkpoint moves: the coordinator lets a newer one replace it.
void upload_silent(LocalRanks& local, GroupSink& sink) {
    LocalUpload& upload = *local.upload;
    upload.silent = local.storage_silent = true;
    if (!local.coordinates) in_trouble(local, upload.index, sink);
    send(local,
         GroupUploaded{.index = upload.index,
                       .error = "the storage has taken nothing of it for " + seconds(silence_first_ms) + " s or more",
                       .error_reason = unreachable_reason},
         sink);
}

void forget_upload(LocalRanks& local) {
    if (local.upload->running) local.given_up_try = local.upload->index;
    local.upload.reset();
}

// Begins a try to upload the checkpoint, after the end of the one before. On a silent storage no rank waits for it.
void begin_try(LocalRanks& local, Time now, Outputs& out) {
    LocalUpload& upload = *local.upload;
    upload.answered_at = now;
    upload.silent = false;
    upload.retry_at.reset();
    upload.running = !local.given_up_try;
    if (upload.running)
        out.push_back(Upload{local.attempt, upload.index, upload.directory, upload.staged, upload.skip, local.number});
}

void begin_upload(LocalRanks& local, Time now, const GroupReleased& released, GroupSink& sink) {
    if (local.upload) give_up_upload(local, sink);
    LocalUpload upload{.index = released.index,
                       .directory = released.directory,
                       .staged = local.staged[released.index],
                       .skip = {released.skip.begin(), released.skip.end()},
                       .sync = released.sync};
    local.upload = std::move(upload);
    begin_try(local, now, sink.out);
    if (local.storage_silent) upload_silent(local, sink);
}

// Handles a repeated release: the coordinator waits for this node's part. If the ranks have not passed the report, they
// will send it again. Otherwise its part is under way, settled, or lost.
void on_repeated_release(LocalRanks& local, const GroupReleased& message, GroupSink& sink) {
    if (message.directory.empty()) return;
    if (message.index > local.passed && !local.ranks.empty()) {
        local.asked = message;
        return;
    }
    local.asked.reset();
    const bool known = (local.upload && local.upload->index == message.index) || local.settled.contains(message.index);
    if (!known) send(local, GroupUploaded{.index = message.index, .error = part_lost}, sink);
}

void answer_asked(LocalRanks& local, GroupSink& sink) {
    if (const auto asked = local.asked) on_repeated_release(local, *asked, sink);
}

// Returns the message about the next report, with all ranks of the node that will send no further one. Before its
// attempt has begun, the coordinator keeps only the last such message.
GroupArrived arrival(const LocalRanks& local) {
    GroupArrived arrived{.index = local.passed + 1};
    for (const std::uint32_t rank : local.ended)
        if (!local.come.contains(rank)) arrived.ended.push_back(rank);
    // If other ranks of the node still report, their reports contain these ends.
    if (local.ranks.empty()) arrived.ended_unwatched = {local.ended_unwatched.begin(), local.ended_unwatched.end()};
    return arrived;
}

void send_ended(LocalRanks& local, GroupSink& sink) {
    GroupArrived arrived = arrival(local);
    if (!arrived.ended.empty() || !arrived.ended_unwatched.empty()) send(local, std::move(arrived), sink);
}

// Records that a report has passed. No rank that has ended has passed a later one.
void know_last_reports(LocalRanks& local, GroupSink& sink) {
    local.ranks.insert(local.ended_unwatched.begin(), local.ended_unwatched.end());
    local.ended.merge(local.ended_unwatched);
    local.ended_unwatched.clear();
    send_ended(local, sink);
}

void released(LocalRanks& local, Time now, const GroupReleased& message, GroupSink& sink) {
    if (message.index != local.passed + 1 || !local.complete) return on_repeated_release(local, message, sink);
    const bool brought = local.staged.contains(message.index);
    local.passed = message.index;
    local.come.clear();
    local.complete.reset();
    local.claiming_at.reset();
    local.partial_at.reset();
    local.hopeless.clear();
    local.asked.reset();
    if (!message.directory.empty()) begin_upload(local, now, message, sink);
    if (message.directory.empty() || !message.sync) {
        worker::Reported reported{.index = message.index};
        if (!message.directory.empty()) reported.directory = message.directory;
        send_to_ranks(local, reported, sink);
    }
    if (message.directory.empty() && brought) {
        drop_staged(local, message.index, sink);
        settle(local, {.index = message.index}, sink);
    }
    know_last_reports(local, sink);
}

void committed(LocalRanks& local, const GroupCommitted& message, GroupSink& sink) {
    worker::Committed news{.index = message.index, .directory = message.directory};
    if (!message.directory.empty() && !local.local_run_path.empty())
        news.path = local.local_run_path + "/" + message.directory;
    if (!message.error.empty()) news.error = message.error;
    bool sync = false;
    if (local.upload && local.upload->index == message.index) {
        sync = local.upload->sync;
        forget_upload(local);
    }
    drop_staged(local, message.index, sink);
    settle(local, std::move(news), sink);
    if (sync) send_to_ranks(local, worker::Reported{.index = message.index, .directory = message.directory}, sink);
}

void broadcast_passed(LocalRanks& local, const GroupBroadcast& message, GroupSink& sink) {
    if (message.index != local.broadcast_passed + 1) return;
    local.broadcast_passed = message.index;
    local.broadcast_data = message.data;
    local.broadcast_come.clear();
    local.broadcast_partial_at.reset();
    send_to_ranks(local, worker::Broadcast{.index = message.index, .data = message.data}, sink);
}

}  // namespace

void rank_joined(LocalRanks& local, Time now, std::uint32_t rank, const worker::Hello& hello, GroupSink& sink) {
    if (hello.next_index > local.passed + 1) {  // this agent was restarted, and the last report has passed
        local.passed = hello.next_index - 1;
        for (const auto& [late, report] : local.come)  // these ranks have not received the release
            if (report.index <= local.passed) answer(local, late, report.index, sink);
        local.come.clear();
        local.complete.reset();
        local.claiming_at.reset();
        answer_asked(local, sink);
        take_ahead(local, now, sink);
    }
    for (const std::uint64_t index : hello.uncommitted) {
        const auto entry = local.settled.find(index);
        if (entry != local.settled.end()) sink.out.push_back(ToWorker{local.attempt, rank, entry->second});
        const bool pending = (local.upload && local.upload->index == index) || index > local.passed;
        if (entry == local.settled.end() && !pending)
            sink.out.push_back(ToWorker{local.attempt, rank, worker::Committed{.index = index}});
    }
}

std::uint64_t next_report_of(const LocalRanks& local, std::uint32_t rank) {
    const auto later = local.ahead.find(rank);
    if (later != local.ahead.end() && !later->second.empty()) return later->second.rbegin()->first + 1;
    return local.passed + (local.come.contains(rank) ? 2 : 1);
}

std::uint64_t next_broadcast_of(const LocalRanks& local, std::uint32_t rank) {
    return local.broadcast_passed + (local.broadcast_come.contains(rank) ? 2 : 1);
}

void rank_reported(LocalRanks& local, Time now, std::uint32_t rank, worker::Report report, GroupSink& sink) {
    if (report.index <= local.passed) {
        const bool waits = local.upload && local.upload->index == report.index && local.upload->sync;
        if (!waits) answer(local, rank, report.index, sink);
        return;
    }
    if (report.index > local.passed + 1) {
        auto& later = local.ahead[rank];
        if (later.size() < ahead_max) later.insert_or_assign(report.index, std::move(report));
        return;
    }
    if (local.come.contains(rank)) return;  // a repeated report, which waits already
    local.come.emplace(rank, std::move(report));
    local.came.insert_or_assign(rank, now);
    if (local.come.size() == local.ranks.size()) return gather(local, now, sink);
    if (!local.partial_at) local.partial_at = now + Duration{partial_after_ms};
}

std::optional<WaitingReport> waiting_report(const LocalRanks& local, std::uint32_t rank) {
    const auto report = local.come.find(rank);
    if (report == local.come.end()) return std::nullopt;
    return WaitingReport{.report = report->second, .since = local.came.at(rank)};
}

// Handles reports that were kept. A rank sends several reports at once to a new agent, and other ranks may send the
// earlier ones later.
void take_ahead(LocalRanks& local, Time now, GroupSink& sink) {
    for (auto& [rank, later] : local.ahead)
        while (!later.empty() && later.begin()->first <= local.passed + 1)
            rank_reported(local, now, rank, std::move(later.extract(later.begin()).mapped()), sink);
}

void rank_broadcast(LocalRanks& local, Time now, std::uint32_t rank, worker::Broadcast message, GroupSink& sink) {
    if (message.index <= local.broadcast_passed) {
        worker::Broadcast again{.index = message.index, .data = local.broadcast_data};
        sink.out.push_back(ToWorker{local.attempt, rank, std::move(again)});
        return;
    }
    local.broadcast_come.insert_or_assign(rank, std::move(message));
    if (local.broadcast_come.size() != local.ranks.size()) {
        if (!local.broadcast_partial_at) local.broadcast_partial_at = now + Duration{partial_after_ms};
        return;
    }
    local.broadcast_partial_at.reset();
    GroupBroadcast all{.index = local.broadcast_passed + 1};
    if (const auto root = local.broadcast_come.find(0); root != local.broadcast_come.end())
        all.data = root->second.data.value_or("");
    send(local, std::move(all), sink);
}

// Records the end of a rank whose last report is unknown, since this agent may have missed a release during its
// restart. The node's other ranks do not wait for the rank in the next report.
void rank_ended_unwatched(LocalRanks& local, Time now, std::uint32_t rank, GroupSink& sink) {
    local.ranks.erase(rank);
    local.come.erase(rank);
    local.ahead.erase(rank);
    local.ended_unwatched.insert(rank);
    answer_asked(local, sink);
    if (local.ranks.empty()) return send_ended(local, sink);
    if (!local.complete && local.come.size() == local.ranks.size()) gather(local, now, sink);
}

// Records a rank's end. If a report of the rank may still pass, `released` sends the rank's end after it.
void rank_ended(LocalRanks& local, std::uint32_t rank, GroupSink& sink) {
    local.ended.insert(rank);
    if (!local.come.contains(rank)) send_ended(local, sink);
}

void staged_listed(LocalRanks& local, const StagedListed& listed, GroupSink& sink) {
    if (!local.complete || local.complete->index != listed.index) return;
    local.claiming_at.reset();
    GroupReport report = *local.complete;
    report.files = listed.files;
    report.exact = listed.exact;
    if (!listed.in_place.empty()) report.directory_name = listed.in_place;
    if (!listed.why.empty()) {
        report.checkpoint_error = listed.why;
        report.error_reason = listed.reason;
    }
    if (const auto large = local.coordinates ? std::nullopt : too_large(report)) {
        report.files.clear();
        report.checkpoint_error = large->message;
        report.error_reason = large->reason;
    }
    complete(local, std::move(report), sink);
}

void from_coordinator(LocalRanks& local, Time now, const GroupMessage& message, GroupSink& sink) {
    if (const auto* release = std::get_if<GroupReleased>(&message)) {
        released(local, now, *release, sink);
        return take_ahead(local, now, sink);
    }
    if (const auto* commit = std::get_if<GroupCommitted>(&message)) return committed(local, *commit, sink);
    if (const auto* broadcast = std::get_if<GroupBroadcast>(&message)) return broadcast_passed(local, *broadcast, sink);
    if (const auto* part = std::get_if<GroupUploaded>(&message)) {
        const bool own = local.upload && local.upload->index == part->index;
        if (own && part->error_reason == unreachable_reason) local.storage_silent = true;
        return in_trouble(local, part->index, sink);
    }
    if (const auto* arrived = std::get_if<GroupArrived>(&message); arrived && arrived->index == local.passed + 1)
        local.hopeless = arrived->hopeless;
    if (const auto* stacks = std::get_if<GroupStacks>(&message)) {
        DumpStacks dump{.attempt = local.attempt, .why = stacks->why};
        for (const std::uint32_t rank : stacks->ranks)
            if (local.ranks.contains(rank)) dump.ranks.push_back(rank);
        if (!dump.ranks.empty()) sink.out.push_back(std::move(dump));
    }
}

void uploaded(LocalRanks& local, Time now, const Uploaded& news, GroupSink& sink) {
    const bool unreachable = news.reason == unreachable_reason;
    if (local.given_up_try == news.index) {
        local.given_up_try.reset();
        local.storage_silent = unreachable;
        if (!local.upload || local.upload->running || local.upload->done) return;
        begin_try(local, now, sink.out);
        if (!unreachable)
            send(local,
                 GroupUploaded{.index = local.upload->index,
                               .error = "the storage answers again",
                               .error_reason = storage_answers},
                 sink);
        return;
    }
    if (!local.upload || local.upload->index != news.index) return;  // replaced meanwhile
    LocalUpload& upload = *local.upload;
    local.storage_silent = unreachable;
    upload.running = upload.silent = false;
    upload.answered_at = now;
    if (news.why.empty()) local.silence_ms = silence_first_ms;
    if (news.why.empty()) {
        upload.done = true;
        upload.files = news.files;
    } else {
        broke_off(upload, now);
        upload.retry_at = now + Duration{upload.backoff_ms};
        upload.backoff_ms = std::min(upload.backoff_ms * 2, backoff_max_ms);
        if (!local.coordinates) in_trouble(local, news.index, sink);
    }
    send(local, GroupUploaded{.index = news.index, .files = news.files, .error = news.why, .error_reason = news.reason},
         sink);
}

void joined_coordinator(LocalRanks& local, const std::string& node, GroupSink& sink) {
    send(local, GroupJoin{.node = node, .ranks = {local.ranks.begin(), local.ranks.end()}}, sink);
    const bool listing = local.complete && local.complete->checkpoint && local.complete->files.empty() &&
                         local.complete->checkpoint_error.empty();
    if (local.complete && !listing) send(local, *local.complete, sink);
    if (local.upload && local.upload->done)
        send(local, GroupUploaded{.index = local.upload->index, .files = local.upload->files}, sink);
    send_ended(local, sink);
    if (!local.broadcast_come.empty() && local.broadcast_come.size() == local.ranks.size())
        send(local, GroupBroadcast{.index = local.broadcast_passed + 1}, sink);
}

void local_time(LocalRanks& local, Time now, GroupSink& sink) {
    if (local.broadcast_partial_at && now >= *local.broadcast_partial_at) {
        local.broadcast_partial_at = now + Duration{10 * partial_after_ms};
        GroupArrived arrived = arrival(local);
        arrived.broadcast = local.broadcast_passed + 1;
        for (const auto& [rank, message] : local.broadcast_come) arrived.broadcast_ranks.push_back(rank);
        send(local, std::move(arrived), sink);
    }
    if (local.partial_at && now >= *local.partial_at) {
        local.partial_at = now + Duration{10 * partial_after_ms};
        GroupArrived arrived = arrival(local);
        for (const auto& [rank, report] : local.come) arrived.ranks.push_back(rank);
        send(local, std::move(arrived), sink);
    }
    if (local.upload && local.upload->retry_at && now >= *local.upload->retry_at) begin_try(local, now, sink.out);
    if (const auto at = silent_at(local); at && now >= *at) {
        local.silence_ms = std::min(local.silence_ms * 2, silence_max_ms);
        upload_silent(local, sink);
    }
    if (local.claiming_at && now >= *local.claiming_at + Duration{silence_first_ms}) {
        local.claiming_at.reset();
        local.storage_silent = true;
        if (local.complete) list(local, now, *local.complete, sink);
    }
}

void resume_upload(LocalRanks& local, Time now, const SavedUpload& saved, Outputs& out) {
    LocalUpload upload{.index = saved.released.index,
                       .directory = saved.released.directory,
                       .staged = saved.staged,
                       .skip = {saved.released.skip.begin(), saved.released.skip.end()},
                       .sync = saved.released.sync};
    local.staged[upload.index] = saved.staged;
    local.upload = std::move(upload);
    begin_try(local, now, out);
}

// Drops the upload of a checkpoint that will not be committed: the coordinator has ended, or a newer checkpoint
// replaces it.
void give_up_upload(LocalRanks& local, GroupSink& sink) {
    if (!local.upload) return;
    const std::uint64_t index = local.upload->index;
    const bool sync = local.upload->sync;
    forget_upload(local);
    drop_staged(local, index, sink);
    settle(local, {.index = index}, sink);
    if (sync) send_to_ranks(local, worker::Reported{.index = index}, sink);
}

std::optional<Time> next_wake(const LocalRanks& local) {
    std::optional<Time> at = local.partial_at;
    if (local.broadcast_partial_at && (!at || *local.broadcast_partial_at < *at)) at = local.broadcast_partial_at;
    const auto no_later_than = [&](std::optional<Time> other) {
        if (other && (!at || *other < *at)) at = other;
    };
    if (local.upload) no_later_than(local.upload->retry_at);
    no_later_than(silent_at(local));
    if (local.claiming_at) no_later_than(*local.claiming_at + Duration{silence_first_ms});
    return at;
}

}  // namespace rtrain::agent
