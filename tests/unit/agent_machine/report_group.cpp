// The report group: the barrier, checkpoints, missing ranks.
#include <set>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

// Both ranks report with files, and these are listed.
Outputs report_checkpoint(Machine& machine, std::uint64_t index, const std::string& name = {}, bool exact = false) {
    machine.take(report_with_files(0, index, name));
    machine.take(report_with_files(1, index));
    return machine.take(StagedListed{.attempt = attempt_1, .index = index, .files = one_file, .exact = exact});
}

}  // namespace

TEST_CASE("report is a barrier: nobody passes before all have come") {
    Machine machine = running();
    CHECK(to_workers<worker::Reported>(machine.take(report(0, 1, "{\"loss\":1}"))).empty());

    const Outputs out = machine.take(report(1, 1, "{\"loss\":2}"));

    CHECK(to_workers<worker::Reported>(out).size() == 2);
    REQUIRE(news<protocol::Reported>(out).size() == 1);
    CHECK(news<protocol::Reported>(out)[0].metrics_json ==
          std::map<std::uint32_t, std::string>{{0, "{\"loss\":1}"}, {1, "{\"loss\":2}"}});
    CHECK(all<JournalMetrics>(out).size() == 1);
}

TEST_CASE("once the job's `stop` is reached, its checkpoint is stored and nobody passes a further report") {
    Machine machine = running({.policy = {.stop_at = {{"loss", 1}}}});
    const auto passes = [&](std::uint64_t index) {
        machine.take(report(0, index, R"({"loss":0.5})"));
        return !to_workers<worker::Reported>(machine.take(report(1, index, R"({"loss":7})"))).empty();
    };
    CHECK(passes(1));  // rank 0's metrics count
    const Outputs reached = report_checkpoint(machine, 2);
    CHECK(to_workers<worker::Reported>(reached).size() == 2);
    CHECK(all<Upload>(reached).size() == 1);
    CHECK_FALSE(passes(3));
    machine.take(Uploaded{.attempt = attempt_1, .index = 2, .files = hashed});
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 2});
    CHECK(news<protocol::Committed>(written).size() == 1);
    CHECK(all<SignalWorker>(machine.head(protocol::Stop{.attempt = {17, 1, 1}, .grace_ms = 5'000})).size() == 2);
}

TEST_CASE("metrics go to the head together, a moment later; what is news takes those before it along") {
    Machine machine = running();
    const auto both = [&](std::uint64_t index) {
        machine.take(report(0, index));
        return machine.take(report(1, index));
    };
    CHECK(all<ToHead>(both(1)).size() == 1);  // the first one makes the attempt RUNNING
    CHECK(all<ToHead>(both(2)).empty());
    CHECK(all<ToHead>(both(3)).empty());

    machine.now = *next_wake(machine.state);
    const auto sent = all<ToHead>(machine.take(TimerFired{}));

    REQUIRE(sent.size() == 1);
    CHECK(std::get<protocol::NewsBatch>(sent[0].message).items.size() == 2);
    both(4);
    const Outputs ended = machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 1}, 5});
    REQUIRE_FALSE(all<ToHead>(ended).empty());
    CHECK(std::get<protocol::NewsBatch>(all<ToHead>(ended)[0].message).items.size() == 2);
}

TEST_CASE("no message to the head is longer than it takes, however much the ranks report") {
    Machine machine = running();
    const std::string big = R"({"a":")" + std::string(4u << 20, 'x') + "\"}";  // larger than the bound of a worker
    const auto both = [&](std::uint64_t index) {
        machine.take(report(0, index, big));
        return machine.take(report(1, index, big));
    };
    const auto first = news<protocol::Reported>(both(1));
    REQUIRE(first.size() == 1);
    CHECK(first[0].metrics_json.at(0) == big);
    CHECK(first[0].metrics_json.at(1).find("left_out") != std::string::npos);
    both(2);
    both(3);
    machine.now = *next_wake(machine.state);
    const auto sent = all<ToHead>(machine.take(TimerFired{}));
    CHECK(sent.size() == 2);  // A message has one long report at most: the head parses a message as a whole.
    for (const ToHead& one : sent) CHECK(protocol::encode(one.message).size() < 16u << 20);
}

TEST_CASE("news go out as the head acknowledges them: no connection holds more than a window of them") {
    Machine machine = running();
    const std::string big = R"({"a":")" + std::string(2u << 20, 'x') + "\"}";
    machine.take(HeadDisconnected{});
    for (std::uint64_t index = 1; index <= 20; ++index) {
        machine.take(report(0, index, big));
        machine.take(report(1, index, big));
    }
    for (const auto& [seq, kept] : machine.state.outbox)
        CHECK(protocol::encode(protocol::FromAgent{kept.news}).size() <= kept.bytes);
    machine.take(HeadConnected{});
    std::vector<std::uint64_t> sent;
    const auto take = [&](const Outputs& outputs) {
        std::size_t bytes = 0;
        for (const ToHead& one : all<ToHead>(outputs)) {
            bytes += protocol::encode(one.message).size();
            if (const auto* news = std::get_if<protocol::News>(&one.message)) sent.push_back(news->seq);
            if (const auto* batch = std::get_if<protocol::NewsBatch>(&one.message))
                for (const protocol::News& item : batch->items) sent.push_back(item.seq);
        }
        return bytes;
    };
    const auto acknowledge = [&] {
        const std::size_t before = sent.size();
        CHECK(take(machine.head(protocol::NewsAck{sent.back()})) < 20u << 20);
        return sent.size() > before;
    };
    CHECK(take(machine.head(protocol::Welcome{.news_seen = 2})) < 20u << 20);
    REQUIRE_FALSE(sent.empty());
    CHECK(sent.size() < machine.state.outbox.size());
    CHECK(take(machine.take(TimerFired{})) == 0);  // there is no room
    CHECK(*next_wake(machine.state) > machine.now);
    while (acknowledge()) continue;
    CHECK(machine.state.outbox.empty());
    CHECK(machine.state.unacknowledged_bytes == 0);
    CHECK(sent.front() == 3);
    for (std::size_t i = 1; i < sent.size(); ++i) CHECK(sent[i] == sent[i - 1] + 1);
    CHECK(sent.back() == machine.state.next_news - 1);
}

TEST_CASE("no message to the head is longer than it reads, whatever escaping makes of what ranks said") {
    Machine machine = running();
    machine.take(HeadDisconnected{});
    const std::string many = "[" + std::string(1u << 20, '"') + "]";  // each character takes two bytes in a message
    for (std::uint64_t index = 1; index <= 12; ++index) {
        machine.take(report(0, index, many));
        machine.take(report(1, index, many));
    }
    for (int checkpoint = 0; checkpoint < 20; ++checkpoint)
        machine.take(CheckpointGone{.run = 17, .directory = "d", .why = std::string(256u << 10, '\1')});
    machine.take(HeadConnected{});
    Outputs outputs = machine.head(protocol::Welcome{.news_seen = 2});
    std::uint64_t last = 2;
    while (last + 1 < machine.state.next_news) {
        const std::uint64_t before = last;
        for (const ToHead& one : all<ToHead>(outputs)) {
            CHECK(protocol::encode(one.message).size() < 16u << 20);
            if (const auto* news = std::get_if<protocol::News>(&one.message)) last = news->seq;
            if (const auto* batch = std::get_if<protocol::NewsBatch>(&one.message)) last = batch->items.back().seq;
        }
        REQUIRE(last > before);
        outputs = machine.head(protocol::NewsAck{last});
    }
}

TEST_CASE("a report whose answer was lost is answered at once and counted once") {
    Machine machine = running();
    machine.take(report(0, 1));
    machine.take(report(1, 1));
    const Outputs again = machine.take(report(1, 1));
    CHECK(to_workers<worker::Reported>(again).size() == 1);
    CHECK(news<protocol::Reported>(again).empty());
}

TEST_CASE("an agent that is new to its ranks hears several reports of one at once, and passes them in their order") {
    Machine machine = running();
    for (const std::uint64_t index : {2, 3, 1, 3})
        CHECK(news<protocol::Reported>(machine.take(report(0, index))).empty());
    CHECK(news<protocol::Reported>(machine.take(report(1, 3))).empty());
    CHECK(news<protocol::Reported>(machine.take(report(1, 1))).size() == 1);
    const Outputs out = machine.take(report(1, 2));
    REQUIRE(news<protocol::Reported>(out).size() == 2);
    CHECK(news<protocol::Reported>(out)[0].index == 2);
    CHECK(news<protocol::Reported>(out)[1].index == 3);
    CHECK(to_workers<worker::Reported>(out).size() == 4);
    CHECK(news<protocol::Reported>(machine.take(report(0, 3))).empty());
}

TEST_CASE("reports that were kept for an earlier agent begin where it had heard none") {
    Machine machine = running();
    machine.take(report(0, 8));
    machine.take(report(0, 9));
    machine.take(WorkerJoined{attempt_1, 1, {.next_index = 8}});
    machine.take(report(1, 8));
    const Outputs out = machine.take(report(1, 9));
    REQUIRE(news<protocol::Reported>(out).size() == 1);
    CHECK(news<protocol::Reported>(out)[0].index == 9);
}

TEST_CASE("a checkpoint returns once staged, and is committed when uploaded and its manifest is written") {
    Machine machine = running();
    const Outputs staged = report_checkpoint(machine, 1);
    CHECK(to_workers<worker::Reported>(staged).size() == 2);
    REQUIRE(all<Upload>(staged).size() == 1);
    CHECK(all<Upload>(staged)[0].directory == "checkpoint_000001-a001");
    CHECK(news<protocol::Committed>(staged).empty());
    REQUIRE(news<protocol::Reported>(staged).size() == 1);
    CHECK(news<protocol::Reported>(staged)[0].checkpoint == "checkpoint_000001-a001");

    const Outputs uploaded = machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    REQUIRE(all<WriteManifest>(uploaded).size() == 1);
    CHECK(all<WriteManifest>(uploaded)[0].manifest.files[0].sha256 == "aa");
    CHECK(all<WriteManifest>(uploaded)[0].manifest.metrics_json == "{\"loss\":1}");
    CHECK(news<protocol::Committed>(uploaded).empty());

    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    REQUIRE(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Committed>(written)[0].bytes == 10);
    REQUIRE(to_workers<worker::Committed>(written).size() == 2);
    CHECK(to_workers<worker::Committed>(written)[0].second.path == "/runs/digits/checkpoint_000001-a001");
}

TEST_CASE("with sync the report returns with the commit") {
    Machine machine = running({.upload = UploadMode::sync});
    CHECK(to_workers<worker::Reported>(report_checkpoint(machine, 1)).empty());
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(to_workers<worker::Reported>(written).size() == 2);
}

TEST_CASE("a second checkpoint waits for the first and says so; a report without one does not wait") {
    Machine machine = running();
    report_checkpoint(machine, 1);
    machine.take(report(0, 2));
    CHECK(to_workers<worker::Reported>(machine.take(report(1, 2))).size() == 2);

    const Outputs second = report_checkpoint(machine, 3);
    CHECK(to_workers<worker::Reported>(second).empty());
    REQUIRE(news<protocol::Notice>(second).size() == 1);
    CHECK(news<protocol::Notice>(second)[0].reason == "upload_in_flight");

    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(to_workers<worker::Reported>(written).size() == 2);
    CHECK(all<Upload>(written)[0].directory == "checkpoint_000002-a001");
}

TEST_CASE("a full disk is named, training goes on, the upload is tried again, a newer checkpoint replaces it") {
    Machine machine = running();
    report_checkpoint(machine, 1);
    const Outputs full = machine.take(
        Uploaded{.attempt = attempt_1, .index = 1, .why = "no space left on /runs", .reason = "storage_full"});
    REQUIRE(news<protocol::Notice>(full).size() == 1);
    CHECK(news<protocol::Notice>(full)[0].text.find("no space left on /runs") != std::string::npos);
    CHECK(news<protocol::Notice>(full)[0].text.find("training goes on") != std::string::npos);
    CHECK(news<protocol::Notice>(full)[0].reason == "storage_full");
    const auto sent = to_workers<worker::Reported>(full);  // no rank needs to wait for it
    REQUIRE(sent.size() == 2);
    CHECK(sent[1].second == worker::Reported{.index = 1, .directory = ""});

    const Outputs again = machine.later(1'000);
    CHECK(all<Upload>(again).size() == 1);
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .why = "no space left on /runs", .reason = "storage_full"});

    const Outputs newer = report_checkpoint(machine, 2);
    CHECK(to_workers<worker::Reported>(newer).size() == 2);
    CHECK(all<DropUncommitted>(newer) == std::vector<DropUncommitted>{{attempt_1, "checkpoint_000001-a001"}});
    const auto given_up = to_workers<worker::Committed>(newer);
    REQUIRE(given_up.size() == 2);
    CHECK(given_up[0].second.index == 1);
    CHECK_FALSE(given_up[0].second.error.has_value());
    machine.take(Uploaded{.attempt = attempt_1, .index = 2, .files = hashed});
    CHECK(news<protocol::Committed>(machine.take(ManifestWritten{.attempt = attempt_1, .index = 2})).size() == 1);
}

TEST_CASE(
    "a notice names the kind of trouble, once until it is of another kind, and the newer checkpoint is no trouble") {
    Machine machine = running();
    report_checkpoint(machine, 1);
    const auto fails = [&](const std::string& why, const std::string& reason) {
        const auto sent = news<protocol::Notice>(
            machine.take(Uploaded{.attempt = attempt_1, .index = 1, .why = why, .reason = reason}));
        machine.later(1'000);
        return sent.empty() ? "nothing" : sent[0].reason;
    };
    CHECK(fails("no answer from s3", "storage_unreachable") == "storage_unreachable");
    CHECK(fails("no answer from s3", "storage_unreachable") == "nothing");
    CHECK(fails("denied", "storage_refused") == "storage_refused");
    CHECK(fails("something else", "") == "storage_failed");

    const Outputs newer = report_checkpoint(machine, 2);
    REQUIRE(news<protocol::Notice>(newer).size() == 1);
    CHECK(news<protocol::Notice>(newer)[0].reason == "checkpoint_replaced");
}

TEST_CASE("files that could not be staged leave the report without its checkpoint, for all ranks") {
    Machine machine = running();
    machine.take(report_with_files(0, 1));
    machine.take(WorkerMessage{
        attempt_1, 1, worker::Report{.index = 1, .checkpoint_error = "no space left", .error_reason = "storage_full"}});
    const Outputs out = machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    CHECK(to_workers<worker::Reported>(out).size() == 2);
    CHECK(all<Upload>(out).empty());
    CHECK(all<DropStaged>(out).size() == 1);
    CHECK(news<protocol::Notice>(out)[0].text.find("no space left") != std::string::npos);
}

TEST_CASE("ranks that do not come are named in the words of the documentation") {
    Machine machine = running({.nodes = {{0, 1, 2, 3}}});
    for (std::uint64_t index = 1; index < 17; ++index)
        for (std::uint32_t rank = 0; rank < 4; ++rank) machine.take(report(rank, index));
    machine.take(report(0, 17));
    // The waiting ranks are sent after a second; the coordinator counts from then on.
    Outputs out = machine.later(1'000);
    CHECK(news<protocol::Notice>(out).empty());
    out = machine.later(30'000);
    REQUIRE(news<protocol::Notice>(out).size() == 1);
    CHECK(news<protocol::Notice>(out)[0].reason == "missing_ranks");
    CHECK(
        news<protocol::Notice>(out)[0].text ==
        "`report` was not called by all 4 workers: ranks [1, 2, 3] have not come for 30.0 s (rank 0 waits, report 17)");
    CHECK(news<protocol::Notice>(machine.later(29'000)).empty());
    CHECK(news<protocol::Notice>(machine.later(1'000)).size() == 1);  // after 30 s more
    CHECK(news<protocol::Notice>(machine.later(59'000)).empty());     // then the interval is doubled
    CHECK(news<protocol::Notice>(machine.later(1'000)).size() == 1);
}

TEST_CASE("rank 0's bytes reach every rank once all have come") {
    Machine machine = running();
    const auto say = [](std::uint32_t rank, std::optional<std::string> data) {
        return WorkerMessage{attempt_1, rank, worker::Broadcast{.index = 1, .data = std::move(data)}};
    };
    CHECK(to_workers<worker::Broadcast>(machine.take(say(1, std::nullopt))).empty());
    const auto sent = to_workers<worker::Broadcast>(machine.take(say(0, "port 5")));
    REQUIRE(sent.size() == 2);
    CHECK(sent[1].second.data == "port 5");
}

TEST_CASE("the coordinator gathers nodes: one message each, one manifest, lower ranks' files win") {
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{
        .attempt = attempt_1, .index = 1, .files = {{.rank = 0, .path = "a"}, {.rank = 0, .path = "same"}}});
    protocol::GroupReport other{.index = 1,
                                .metrics_json = {{1, "{}"}},
                                .checkpoint = true,
                                .files = {{.rank = 1, .path = "b"}, {.rank = 1, .path = "same"}}};

    const Outputs released = machine.take(PeerMessage{attempt_1, "n2", other});
    const auto sent = all<ToGroup>(released);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].node == "n2");
    CHECK(std::get<protocol::GroupReleased>(sent[0].message).skip == std::vector<std::string>{"same"});
    CHECK(news<protocol::Notice>(released)[0].reason == "checkpoint_names");

    machine.take(
        Uploaded{.attempt = attempt_1, .index = 1, .files = {{.rank = 0, .path = "a"}, {.rank = 0, .path = "same"}}});
    const Outputs last = machine.take(
        PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1, .files = {{.rank = 1, .path = "b"}}}});
    REQUIRE(all<WriteManifest>(last).size() == 1);
    CHECK(all<WriteManifest>(last)[0].manifest.files.size() == 3);
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    REQUIRE(all<ToGroup>(written).size() == 1);
    CHECK(std::get<protocol::GroupCommitted>(all<ToGroup>(written)[0].message).directory == "checkpoint_000001-a001");
}

TEST_CASE("storage that one node finds away is told to the ranks of all: none waits for that commit") {
    const protocol::GroupUploaded away{.index = 1, .error = "no answer from s3", .error_reason = "storage_unreachable"};
    const UploadMode mode = GENERATE(UploadMode::async, UploadMode::sync);
    Machine machine = running({.nodes = {{0}, {1}}, .upload = mode});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    machine.take(PeerMessage{
        attempt_1, "n2",
        protocol::GroupReport{
            .index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true, .sync = mode == UploadMode::sync}});

    const Outputs sent = machine.take(PeerMessage{attempt_1, "n2", away});
    REQUIRE(all<ToGroup>(sent).size() == 1);
    CHECK(std::get<protocol::GroupUploaded>(all<ToGroup>(sent)[0].message).index == 1);
    const auto to_own = to_workers<worker::Reported>(sent);
    // Ranks that wait for the commit in `report` continue.
    REQUIRE(to_own.size() == (mode == UploadMode::sync ? 0 : 1));
    if (mode == UploadMode::sync) return;
    CHECK(to_own[0].second == worker::Reported{.index = 1, .directory = ""});

    machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1}});
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    const Outputs denied = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1, .why = "denied"});
    CHECK(all<ToGroup>(denied).size() == 1);
    CHECK(to_workers<worker::Reported>(denied).size() == 1);
}

TEST_CASE("a node passes on that the storage is away, of the checkpoint on its way alone") {
    Machine machine = running({.nodes = {{0}, {1, 2}}, .here = 1});
    machine.take(report_with_files(1, 1));
    machine.take(report_with_files(2, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = {{.rank = 1, .path = "a", .bytes = 1}}});
    const auto sent = [&](protocol::GroupMessage message) {
        return to_workers<worker::Reported>(machine.take(PeerMessage{attempt_1, "", std::move(message)}));
    };
    const protocol::GroupUploaded away{.index = 1, .error = "no answer from s3", .error_reason = "storage_unreachable"};
    CHECK(sent(away).empty());  // no rank has passed it yet
    CHECK(sent(protocol::GroupReleased{.index = 1, .directory = "checkpoint_000001-a001"}).size() == 2);
    const auto passed_on = sent(away);
    REQUIRE(passed_on.size() == 2);
    CHECK(passed_on[0].second == worker::Reported{.index = 1, .directory = ""});
}

TEST_CASE("a part that a node lost in its agent's restart is told to people, and ends no worker that trains on") {
    const UploadMode mode = GENERATE(UploadMode::async, UploadMode::sync);
    Machine machine = running({.nodes = {{0}, {1}}, .upload = mode});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    protocol::GroupReport other{.index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true};
    machine.take(PeerMessage{attempt_1, "n2", other});

    const Outputs lost =
        machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1, .error = part_lost}});

    REQUIRE(news<protocol::Notice>(lost).size() == 1);
    CHECK(news<protocol::Notice>(lost)[0].text.find(part_lost) != std::string::npos);
    const auto settled = to_workers<worker::Committed>(lost);
    REQUIRE(settled.size() == 1);
    CHECK(settled[0].second.error.has_value() == (mode == UploadMode::sync));
}

TEST_CASE("a node that asks late why a checkpoint was given up is told the reason") {
    Machine machine = running({.nodes = {{0}, {1}}, .upload = UploadMode::sync});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    machine.take(
        PeerMessage{attempt_1, "n2",
                    protocol::GroupReport{.index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true, .sync = true}});
    machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1, .error = part_lost}});

    const auto answer = all<ToGroup>(machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1}}));
    REQUIRE(answer.size() == 1);
    CHECK(std::get<protocol::GroupCommitted>(answer[0].message).error == std::string("n2: ") + part_lost);
}

TEST_CASE("a node beside the coordinator sends one message for its ranks, and again when the connection is back") {
    Machine machine = running({.nodes = {{0}, {1, 2}}, .here = 1});
    machine.take(report(1, 1));
    const Outputs sent = machine.take(report(2, 1));
    REQUIRE(all<ToGroup>(sent).size() == 1);
    CHECK(std::get<protocol::GroupReport>(all<ToGroup>(sent)[0].message).metrics_json.size() == 2);

    machine.take(GroupCut{attempt_1, ""});
    const auto again = all<ToGroup>(machine.take(GroupConnected{attempt_1}));
    REQUIRE(again.size() == 2);
    CHECK(std::holds_alternative<protocol::GroupJoin>(again[0].message));
    CHECK(std::holds_alternative<protocol::GroupReport>(again[1].message));
    const Outputs passed = machine.take(PeerMessage{attempt_1, "", protocol::GroupReleased{.index = 1}});
    CHECK(to_workers<worker::Reported>(passed).size() == 2);
    CHECK(to_workers<worker::Reported>(machine.take(PeerMessage{attempt_1, "", protocol::GroupReleased{.index = 1}}))
              .empty());
}

TEST_CASE("storage that stays away does not hold an ended attempt for ever") {
    Machine machine = running();
    report_checkpoint(machine, 1);
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .why = "stale file handle"});
    for (const std::uint32_t rank : {0u, 1u}) machine.take(WorkerEnded{attempt_1, rank, {.exit_code = 0}, 1});
    machine.take(LogsDone{attempt_1});
    machine.head(protocol::Stop{.attempt = {17, 1, 1}});
    const Outputs given_up = machine.later(60'000);
    CHECK(news<protocol::Emptied>(given_up).size() == 1);
    CHECK(news<protocol::Notice>(given_up).size() == 1);
    CHECK(news<protocol::Committed>(given_up).empty());
}

TEST_CASE("a name that is used again is numbered, and said once: no committed checkpoint is ever written over") {
    Machine machine = running();
    std::vector<std::string> sent;
    const auto commit = [&](std::uint64_t index, const std::string& name) {
        const Outputs out = report_checkpoint(machine, index, name);
        for (const auto& notice : news<protocol::Notice>(out)) sent.push_back(notice.reason);
        REQUIRE(all<Upload>(out).size() == 1);
        REQUIRE(news<protocol::Reported>(out).size() == 1);
        CHECK(news<protocol::Reported>(out)[0].checkpoint == all<Upload>(out)[0].directory);
        machine.take(Uploaded{.attempt = attempt_1, .index = index, .files = hashed});
        CHECK(news<protocol::Committed>(machine.take(ManifestWritten{.attempt = attempt_1, .index = index})).size() ==
              1);
        return all<Upload>(out)[0].directory;
    };
    CHECK(commit(1, "latest") == "latest-a001");
    CHECK(commit(2, "latest") == "latest-2-a001");
    CHECK(sent == std::vector<std::string>{"checkpoint_name_again"});
    CHECK(commit(3, "latest-3") == "latest-3-a001");
    CHECK(commit(4, "latest") == "latest-4-a001");
    CHECK(sent.size() == 1);
    CHECK(commit(5, "latest-2") == "latest-2-2-a001");
    CHECK(commit(6, "checkpoint_000007") == "checkpoint_000007-a001");
    CHECK(commit(7, "") == "checkpoint_000007-2-a001");
    CHECK(commit(8, "") == "checkpoint_000008-a001");
    CHECK(commit(9, "checkpoint_000008") == "checkpoint_000008-2-a001");
    CHECK(commit(10, "a/b") == "a_b-a001");
    CHECK(commit(11, "a_b") == "a_b-2-a001");
}

TEST_CASE("a checkpoint whose name is taken on storage is given up, once and for all, with the reason") {
    Machine machine = running({.upload = UploadMode::sync});
    const std::string why = "checkpoint digits/checkpoint_000001-a001 is committed already, with other files";
    report_checkpoint(machine, 1);
    Outputs out;
    SECTION("as an upload finds") {
        out = machine.take(Uploaded{.attempt = attempt_1, .index = 1, .why = why, .reason = name_taken});
    }
    SECTION("as its manifest finds") {
        machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
        out = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1, .why = why, .reason = name_taken});
    }
    REQUIRE(news<protocol::Notice>(out).size() == 1);
    CHECK(news<protocol::Notice>(out)[0].reason == "checkpoint_given_up");
    CHECK(news<protocol::Notice>(out)[0].text.find(why) != std::string::npos);
    REQUIRE(to_workers<worker::Committed>(out).size() == 2);
    CHECK(to_workers<worker::Committed>(out)[0].second.error->find(why) != std::string::npos);
    CHECK(to_workers<worker::Reported>(out).size() == 2);
    CHECK(all<DropStaged>(out).size() == 1);
    const Outputs later = machine.later(120'000);
    CHECK(all<Upload>(later).empty());
    CHECK(all<WriteManifest>(later).empty());
}

TEST_CASE("a name that is claimed on storage is the directory's; another use of it is numbered, with its attempt") {
    Machine machine = running();
    machine.take(report_with_files(0, 1, "latest"));
    const Outputs come = machine.take(report_with_files(1, 1));
    REQUIRE(all<ListStaged>(come).size() == 1);
    CHECK(all<ListStaged>(come)[0].name == "latest");
    CHECK(all<ListStaged>(come)[0].number == 1);
    const auto commit = [&](std::uint64_t index, const Outputs& out) {
        REQUIRE(all<Upload>(out).size() == 1);
        machine.take(Uploaded{.attempt = attempt_1, .index = index, .files = hashed});
        machine.take(ManifestWritten{.attempt = attempt_1, .index = index});
        return all<Upload>(out)[0].directory;
    };
    CHECK(commit(1, machine.take(StagedListed{attempt_1, 1, one_file, "", "", true})) == "latest");
    const Outputs again = report_checkpoint(machine, 2, "latest");
    CHECK(news<protocol::Notice>(again)[0].reason == "checkpoint_name_again");
    CHECK(commit(2, again) == "latest-2-a001");
    CHECK(commit(3, report_checkpoint(machine, 3, "other")) == "other-a001");  // used by an earlier attempt
    CHECK(commit(4, report_checkpoint(machine, 4, "latest-3", true)) == "latest-3");
    CHECK(commit(5, report_checkpoint(machine, 5, "latest")) == "latest-4-a001");
    CHECK(commit(6, report_checkpoint(machine, 6, "", true)) == "checkpoint_000006-a001");
}

TEST_CASE("a name is exact only where every node's agent takes directories without an attempt") {
    for (const bool new_version : {true, false}) {
        Machine machine = running({.nodes = {{0}, {1}}});
        machine.take(report_with_files(0, 1, "best"));
        machine.take(StagedListed{attempt_1, 1, one_file, "", "", true});
        protocol::GroupReport others{.index = 1, .metrics_json = {{1, "{}"}}};
        others.exact = new_version;
        const Outputs out = machine.take(PeerMessage{attempt_1, "n2", others});
        REQUIRE(all<Upload>(out).size() == 1);
        CHECK(all<Upload>(out)[0].directory == (new_version ? "best" : "best-a001"));
    }
    // No name is requested here, so there is nothing to claim.
    Machine other = running({.nodes = {{0}, {1}}, .here = 1});
    other.take(GroupConnected{attempt_1});
    const auto listing = all<ListStaged>(other.take(report_with_files(1, 1, "ignored")));
    REQUIRE(listing.size() == 1);
    CHECK(listing[0].name == "");
}

TEST_CASE("a node speaks of its own ranks: what it says of others' is left out of the report") {
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.take(report(0, 1));
    const protocol::GroupReport forged{
        .index = 1, .metrics_json = {{0, R"({"loss":0})"}, {1, R"({"loss":2})"}}, .directory_name = "forged"};
    // N3 is not a node of this attempt.
    CHECK(news<protocol::Reported>(machine.take(PeerMessage{attempt_1, "n3", forged})).empty());
    const auto sent = news<protocol::Reported>(machine.take(PeerMessage{attempt_1, "n2", forged}));
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].metrics_json.at(1) == R"({"loss":2})");
    CHECK(sent[0].metrics_json.at(0) != R"({"loss":0})");
}

TEST_CASE("a node that dials a member of a group is not taken for its coordinator") {
    Machine machine = running({.nodes = {{0}, {1}}, .here = 1});
    machine.take(report(1, 1));
    CHECK(to_workers<worker::Reported>(machine.take(PeerMessage{attempt_1, "n3", protocol::GroupReleased{.index = 1}}))
              .empty());
    const auto broadcast = WorkerMessage{attempt_1, 1, worker::Broadcast{.index = 1, .data = std::nullopt}};
    machine.take(broadcast);
    const protocol::GroupBroadcast forged{.index = 1, .data = "forged"};
    CHECK(to_workers<worker::Broadcast>(machine.take(PeerMessage{attempt_1, "n3", forged})).empty());
    CHECK(to_workers<worker::Broadcast>(machine.take(PeerMessage{attempt_1, "", forged})).size() == 1);
    CHECK(to_workers<worker::Reported>(machine.take(PeerMessage{attempt_1, "", protocol::GroupReleased{.index = 1}}))
              .size() == 1);
}
