// An agent dies while a checkpoint is under way, and the next agent commits it.
#include <algorithm>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

Machine uploading(const Shape& shape) {
    Machine machine = running(shape);
    for (const std::uint32_t rank : shape.nodes[shape.here]) machine.take(report_with_files(rank, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    return machine;
}

// Gives the next agent on this disk its first inputs, and returns it.
Machine restarted(const Machine& before, Outputs& adopted) {
    Machine machine;
    machine.now = before.now;
    AttemptFound news{.saved = before.state.attempts.at(attempt_1).saved};
    for (const protocol::LaunchWorker& worker : news.saved.launch->workers)
        news.workers[worker.rank] = 100 + worker.rank;
    adopted = machine.take(news);
    machine.connect();
    return machine;
}

template <class T, class Which>
std::ptrdiff_t position(const Outputs& outputs, Which which) {
    return std::find_if(outputs.begin(), outputs.end(),
                        [&](const Output& one) {
                            const T* here = std::get_if<T>(&one);
                            return here != nullptr && which(*here);
                        }) -
           outputs.begin();
}
constexpr auto any = [](const auto&) { return true; };

}  // namespace

TEST_CASE("a checkpoint on its way when the coordinator's agent dies is committed by the next one") {
    const Machine before = uploading({});
    Outputs adopted;
    Machine machine = restarted(before, adopted);
    REQUIRE(all<Upload>(adopted).size() == 1);
    CHECK(all<Upload>(adopted)[0].staged == StagedPaths{{0, "/stage/0"}, {1, "/stage/1"}});

    const Outputs uploaded = machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    REQUIRE(all<WriteManifest>(uploaded).size() == 1);
    CHECK(all<WriteManifest>(uploaded)[0].manifest.directory == "checkpoint_000001-a001");
    CHECK(all<WriteManifest>(uploaded)[0].manifest.metrics_json == "{\"loss\":1}");
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(news<protocol::Committed>(written).size() == 1);
    REQUIRE(all<KeepAttempt>(written).size() == 1);
    CHECK_FALSE(all<KeepAttempt>(written)[0].saved.uploading);
}

TEST_CASE(
    "a checkpoint is on the agent's disk before its upload begins, and its commit is news before it is forgotten") {
    Machine machine = running();
    machine.take(report_with_files(0, 1));
    machine.take(report_with_files(1, 1));
    const Outputs begun = machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    CHECK(position<KeepAttempt>(begun, any) < position<Upload>(begun, any));

    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    const auto of_commit = [](const KeepNews& one) {
        return std::holds_alternative<protocol::Committed>(one.news.what);
    };
    CHECK(position<KeepNews>(written, of_commit) < position<KeepAttempt>(written, any));
    CHECK(position<KeepAttempt>(written, any) < position<ToWorker>(written, any));
}

namespace {

std::optional<std::int64_t> answer_of_commit(Machine& machine, std::uint64_t index) {
    machine.take(Uploaded{.attempt = attempt_1, .index = index, .files = hashed});
    const auto sent = news<protocol::Committed>(machine.take(ManifestWritten{.attempt = attempt_1, .index = index}));
    REQUIRE(sent.size() == 1);
    return sent[0].answers;
}

}  // namespace

TEST_CASE("a checkpoint that was on its way when one was asked for is no answer, and the next one is") {
    Machine machine = uploading({});
    const protocol::RequestCheckpoint asked{.attempt = {17, 1, 1}, .reason = "drain", .asked = 5'000};
    CHECK(to_workers<worker::Wanted>(machine.head(asked)).size() == 2);
    CHECK(answer_of_commit(machine, 1) == 0);
    for (const std::uint32_t rank : {0U, 1U}) machine.take(report_with_files(rank, 2));
    machine.take(StagedListed{.attempt = attempt_1, .index = 2, .files = one_file});
    CHECK(to_workers<worker::Wanted>(machine.head(asked)).size() == 2);  // a repeated order is the same request

    SECTION("by this agent") { CHECK(answer_of_commit(machine, 2) == 5'000); }
    SECTION("by the next one, which is told again") {
        Outputs adopted;
        Machine next = restarted(machine, adopted);
        next.head(asked);
        CHECK(answer_of_commit(next, 2) == 5'000);
    }
    SECTION("another ask came meanwhile: the checkpoint is older than that") {
        machine.head(protocol::RequestCheckpoint{.attempt = {17, 1, 1}, .reason = "stop", .asked = 6'000});
        CHECK(answer_of_commit(machine, 2) == 0);
    }
}

TEST_CASE("nobody asked: a commit answers nothing, and says so") {
    Machine machine = uploading({});
    CHECK(answer_of_commit(machine, 1) == 0);
}

TEST_CASE("a node whose agent dies in mid-upload uploads again, and tells the coordinator when it is connected") {
    Machine before = uploading({.nodes = {{0}, {1, 2}}, .here = 1});
    before.take(
        PeerMessage{attempt_1, "",
                    protocol::GroupReleased{.index = 1, .directory = "checkpoint_000001-a001", .skip = {"shared.pt"}}});
    Outputs adopted;
    Machine machine = restarted(before, adopted);
    REQUIRE(all<Upload>(adopted).size() == 1);
    CHECK(all<Upload>(adopted)[0].skip == std::set<std::string>{"shared.pt"});

    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    const auto sent = all<ToGroup>(machine.take(GroupConnected{attempt_1}));
    REQUIRE(sent.size() == 2);
    CHECK(std::get<protocol::GroupUploaded>(sent[1].message).files == hashed);
}

TEST_CASE("a node whose agent died before it heard of the release waits for its ranks to bring the report again") {
    const Machine before = running({.nodes = {{0}, {1}}, .here = 1});
    const protocol::GroupReleased released{.index = 4, .directory = "checkpoint_000001-a001"};
    Outputs adopted;
    Machine machine = restarted(before, adopted);
    CHECK(all<ToGroup>(machine.take(PeerMessage{attempt_1, "", released})).empty());

    SECTION("they do: the part is uploaded") {
        machine.take(WorkerJoined{attempt_1, 1, {.attempt = "c0ffee-17-a1", .rank = 1, .next_index = 4}});
        machine.take(report_with_files(1, 4));
        machine.take(StagedListed{.attempt = attempt_1, .index = 4, .files = one_file});
        CHECK(all<Upload>(machine.take(PeerMessage{attempt_1, "", released})).size() == 1);
    }
    SECTION("they have passed it: the part is lost, and is said to be") {
        const auto sent = all<ToGroup>(
            machine.take(WorkerJoined{attempt_1, 1, {.attempt = "c0ffee-17-a1", .rank = 1, .next_index = 5}}));
        REQUIRE(sent.size() == 1);
        CHECK(std::get<protocol::GroupUploaded>(sent[0].message).error == part_lost);
    }
    SECTION("they have ended: so have their files") {
        const auto sent = all<ToGroup>(machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 0}, 7}));
        REQUIRE(sent.size() == 2);  // also that rank 1 has ended
        CHECK(std::get<protocol::GroupUploaded>(sent[0].message).error == part_lost);
    }
}

namespace {

// Returns the coordinator's answer to a node whose part of report `index` is stored.
std::optional<protocol::GroupCommitted> answer_to_part(Machine& machine, std::uint64_t index) {
    const auto sent = all<ToGroup>(machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = index}}));
    if (sent.empty()) return std::nullopt;
    CHECK(sent[0].node == "n2");
    return std::get<protocol::GroupCommitted>(sent[0].message);
}

}  // namespace

TEST_CASE("a node that says again what it has stored is told what became of the checkpoint meanwhile") {
    Machine before = uploading({.nodes = {{0}, {1}}});
    before.take(PeerMessage{attempt_1, "n2",
                            protocol::GroupReport{.index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true}});
    CHECK_FALSE(answer_to_part(before, 1));  // rank 0's part is under way
    before.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    CHECK_FALSE(answer_to_part(before, 1));  // the manifest is under way
    before.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    Outputs adopted;
    Machine next = restarted(before, adopted);
    const protocol::GroupCommitted committed{.index = 1, .directory = "checkpoint_000001-a001"};

    SECTION("by this agent") { CHECK(answer_to_part(before, 1) == committed); }
    SECTION("by the next one") { CHECK(answer_to_part(next, 1) == committed); }
    SECTION("of another report it knows only that nobody waits for it") {
        CHECK(answer_to_part(before, 2) == protocol::GroupCommitted{.index = 2});
    }
    SECTION("an agent that has closed the attempt, or never had it, waits for no part") {
        Machine other;
        CHECK(answer_to_part(other, 1) == protocol::GroupCommitted{.index = 1});
        CHECK(other.take(PeerMessage{attempt_1, "n2", protocol::GroupJoin{.node = "n2"}}).empty());
    }
}

TEST_CASE("a node that must be told of a release again is told what to leave out") {
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    const protocol::GroupReport same_name{.index = 1,
                                          .metrics_json = {{1, "{}"}},
                                          .checkpoint = true,
                                          .files = {{.rank = 1, .path = "model.pt", .bytes = 9}}};
    machine.take(PeerMessage{attempt_1, "n2", same_name});

    const auto again = all<ToGroup>(machine.take(PeerMessage{attempt_1, "n2", same_name}));

    REQUIRE(again.size() == 1);
    CHECK(std::get<protocol::GroupReleased>(again[0].message).skip == std::vector<std::string>{"model.pt"});
}

TEST_CASE("a node dials the coordinator where it is after it came back at another port") {
    Machine machine = running({.nodes = {{0}, {1}}, .here = 1});
    const std::string coordinator = machine.state.attempts.at(attempt_1).saved.prepare.nodes.front().node;
    const protocol::PeerMoved moved{.node = coordinator, .address = "10.0.0.1", .port = 7'500};

    const Outputs out = machine.head(moved);

    REQUIRE(all<DialCoordinator>(out).size() == 1);
    CHECK(all<DialCoordinator>(out)[0].peer.port == 7'500);
    CHECK(all<KeepAttempt>(out)[0].saved.prepare.nodes.front().port == 7'500);
    CHECK(machine.head(moved).empty());  // a repeated message changes nothing
    CHECK(machine.head(protocol::PeerMoved{.node = "n9", .address = "10.0.0.9", .port = 1}).empty());
}

TEST_CASE("that the job's `stop` was reached outlives the coordinator's agent: nobody passes a further report") {
    Machine before = running({.policy = {.stop_at = {{"loss", 1}}}});
    before.take(report(0, 1, R"({"loss":2})"));
    CHECK(to_workers<worker::Reported>(before.take(report(1, 1, R"({"loss":2})"))).size() == 2);
    CHECK(before.state.attempts.at(attempt_1).saved.enough);

    Outputs adopted;
    Machine machine = restarted(before, adopted);
    CHECK(to_workers<worker::Reported>(machine.take(report(0, 2, R"({"loss":2})"))).empty());
    CHECK(to_workers<worker::Reported>(machine.take(report(1, 2, R"({"loss":2})"))).empty());
}

TEST_CASE("the next agent knows which names its attempt has used") {
    Machine before = running();
    for (const std::uint32_t rank : {0u, 1u}) before.take(report_with_files(rank, 1, "latest"));
    before.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file});
    before.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed});
    before.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    Outputs adopted;
    Machine machine = restarted(before, adopted);
    for (const std::uint32_t rank : {0u, 1u}) {
        machine.take(WorkerJoined{attempt_1, rank, {.attempt = "c0ffee-17-a1", .rank = rank, .next_index = 2}});
        machine.take(report_with_files(rank, 2, "latest"));
    }
    const auto uploads = all<Upload>(machine.take(StagedListed{.attempt = attempt_1, .index = 2, .files = one_file}));
    REQUIRE(uploads.size() == 1);
    CHECK(uploads[0].directory == "latest-2-a001");
}
