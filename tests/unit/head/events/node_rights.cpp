// The access of a node's certificate: its own part of the attempts placed on it, and nothing of other nodes' runs.
#include "daemon/head/events/node_rights.hpp"

#include <set>

#include "daemon/head/events/news.hpp"
#include "tests/unit/head_agent.hpp"
#include "tests/unit/net_raw.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

const NodeId one{"node-1"}, two{"node-2"}, stranger{"node-3"};
constexpr RunId run{7};
const protocol::AttemptRef attempt{.run = 7, .incarnation = 12, .number = 2};
const protocol::AttemptRef unknown{.run = 7, .incarnation = 99, .number = 2};
const protocol::AttemptRef removed{.run = 6, .incarnation = 5, .number = 1};

// Returns attempt 2 of run 7: ranks 0 and 1 on node-1, rank 2 on node-2. Attempt 1, which has ended, was on node-2
// alone.
Cluster cluster_of_two() {
    Cluster cluster;
    cluster.runs[run] = Run{.id = run, .name = "train", .user = "ann", .attempts = 2};
    const auto place = [&](std::uint32_t number, std::uint32_t incarnation, const std::vector<NodeId>& nodes) {
        Attempt placed{.id = {run, number}, .incarnation = incarnation};
        for (const NodeId& node : nodes) placed.workers.push_back(Worker{.seat = {.node = node}});
        cluster.attempts[placed.id] = placed;
    };
    place(1, 11, {two});
    place(2, 12, {one, one, two});
    cluster.attempts[{run, 1}].state = AttemptState::failed;
    cluster.checkpoints[{run, "kept-a001"}] = Checkpoint{.run = run, .directory = "kept-a001"};
    cluster.checkpoints[{run, "going-a001"}] = Checkpoint{.run = run, .directory = "going-a001", .deleting = true};
    return cluster;
}

struct Case {
    std::string what;
    protocol::FromAgent message;
    std::set<NodeId> may;
};

protocol::FromAgent news(decltype(protocol::News::what) what) {
    return protocol::News{.seq = 1, .what = std::move(what)};
}

protocol::FromAgent beat(const protocol::AttemptRef& of, std::uint32_t rank) {
    return protocol::Heartbeat{.workers = {{.attempt = of, .rank = rank}}};
}

const std::set<NodeId> anybody{one, two, stranger}, members{one, two}, nobody{};

std::vector<Case> of_itself() {
    return {{"hello", protocol::Hello{}, anybody},
            {"register", protocol::Register{.held = {attempt}}, anybody},
            {"cleared", protocol::Cleared{.id = 3}, anybody},
            {"that it is taken away", protocol::Leaving{}, anybody},
            {"the answer to a dial", protocol::PeerDialled{}, anybody},
            {"a batch", protocol::NewsBatch{}, anybody},
            {"a heartbeat without workers", protocol::Heartbeat{}, anybody},
            {"the pulse of rank 0", beat(attempt, 0), {one}},
            {"the pulse of rank 2", beat(attempt, 2), {two}},
            {"the pulse of an attempt that nobody knows", beat(unknown, 0), anybody}};
}

protocol::FromAgent claim_with(std::vector<protocol::EarlierCheckpoint> earlier) {
    return news(protocol::Prepared{.attempt = attempt, .claimed = true, .earlier = std::move(earlier)});
}

std::vector<Case> of_preparation() {
    return {{"prepared", news(protocol::Prepared{.attempt = attempt}), members},
            {"the claim", news(protocol::Prepared{.attempt = attempt, .claimed = true}), {one}},
            {"a claim that starts elsewhere",
             news(protocol::Prepared{.attempt = attempt, .claimed = true, .from = "../other/x-a001"}), nobody},
            {"a claim of a number far beyond",
             news(protocol::Prepared{.attempt = {7, 12, 4'000'000'000}, .claimed = true}), nobody},
            {"a claim with an earlier checkpoint", claim_with({{.directory = "best-a001"}}), {one}},
            {"a claim with an earlier checkpoint elsewhere", claim_with({{.directory = "../x-a001"}}), nobody},
            {"a claim with an earlier checkpoint without a name", claim_with({{.directory = ""}}), nobody},
            {"a claim with an earlier checkpoint of long metrics",
             claim_with({{.directory = "best-a001", .metrics_json = std::string(20'000, ' ')}}), nobody},
            {"a claim with too many earlier checkpoints",
             claim_with(std::vector<protocol::EarlierCheckpoint>(1'001, {.directory = "best-a001"})), nobody},
            {"prepared for what nobody knows", news(protocol::Prepared{.attempt = unknown}), anybody},
            {"could not prepare", news(protocol::PrepareFailed{.attempt = attempt}), members},
            {"could not prepare what nobody knows", news(protocol::PrepareFailed{.attempt = unknown}), nobody}};
}

std::vector<Case> of_workers() {
    return {{"rank 1 started", news(protocol::Started{.attempt = attempt, .rank = 1}), {one}},
            {"rank 2 started", news(protocol::Started{.attempt = attempt, .rank = 2}), {two}},
            {"rank 3 started", news(protocol::Started{.attempt = attempt, .rank = 3}), nobody},
            {"rank 0 ended", news(protocol::Exited{.attempt = attempt, .rank = 0}), {one}},
            {"rank 2 ended", news(protocol::Exited{.attempt = attempt, .rank = 2}), {two}},
            {"a rank of an attempt that nobody knows ended", news(protocol::Exited{.attempt = unknown}), nobody},
            {"a rank of the attempt before ended", news(protocol::Exited{.attempt = {7, 11, 1}}), {two}},
            {"a rank of a removed run ended", news(protocol::Exited{.attempt = removed}), anybody},
            {"emptied", news(protocol::Emptied{attempt}), members},
            {"a log of rank 0", protocol::LogChunk{.attempt = attempt, .rank = 0, .stream = "out"}, {one}},
            {"a log of rank 2", protocol::LogChunk{.attempt = attempt, .rank = 2, .stream = "setup"}, {two}},
            {"a late log of attempt 1", protocol::LogChunk{.attempt = {7, 11, 1}, .stream = "err"}, {two}},
            {"a log by number alone", protocol::LogChunk{.attempt = unknown, .stream = "out"}, nobody},
            {"a log of a removed run", protocol::LogChunk{.attempt = removed, .stream = "out"}, anybody}};
}

std::vector<Case> of_reports() {
    return {
        {"a report", news(protocol::Reported{.attempt = attempt, .index = 1, .metrics_json = {{2, "{}"}}}), {one}},
        {"a report of rank 3", news(protocol::Reported{.attempt = attempt, .index = 1, .metrics_json = {{3, "{}"}}}),
         nobody},
        {"a report with a path", news(protocol::Reported{.attempt = attempt, .index = 1, .checkpoint = "../x-a001"}),
         nobody},
        {"a commit", news(protocol::Committed{.attempt = attempt, .directory = "c-a002"}), {one}},
        {"a commit elsewhere", news(protocol::Committed{.attempt = attempt, .directory = "../c-a002"}), nobody},
        {"a commit deeper", news(protocol::Committed{.attempt = attempt, .directory = "epochs/3"}), {one}},
        {"a commit that leads up", news(protocol::Committed{.attempt = attempt, .directory = "epochs/../../x"}),
         nobody},
        {"a commit among the claims", news(protocol::Committed{.attempt = attempt, .directory = "attempts/1"}), nobody},
        {"a late commit", news(protocol::Committed{.attempt = {7, 11, 1}, .directory = "c-a001"}), {two}},
        {"deleted what is kept", news(protocol::Deleted{.run = 7, .directory = "kept-a001"}), members},
        {"deleted what was to go", news(protocol::Deleted{.run = 7, .directory = "going-a001"}), anybody},
        {"a notice", news(protocol::Notice{.attempt = attempt}), members},
        {"a notice of the attempt before", news(protocol::Notice{.attempt = {7, 11, 1}}), {two}},
        {"a notice of who was to remove", news(protocol::Notice{.attempt = {.run = 7}}), anybody}};
}

}  // namespace

TEST_CASE("a node speaks of its own ranks only, whatever kind of message it says it with") {
    const Cluster cluster = cluster_of_two();
    std::set<std::size_t> messages, kinds;
    for (const auto& cases : {of_itself(), of_preparation(), of_workers(), of_reports()})
        for (const Case& one_case : cases) {
            messages.insert(one_case.message.index());
            if (const auto* message = std::get_if<protocol::News>(&one_case.message))
                kinds.insert(message->what.index());
            for (const NodeId& node : anybody) {
                const auto why = head::objection(cluster, node, one_case.message);
                INFO(one_case.what << ", by " << node.value << ": " << why.value_or("believed"));
                CHECK(!why.has_value() == one_case.may.contains(node));
            }
        }
    CHECK(messages.size() == std::variant_size_v<protocol::FromAgent>);  // a new kind needs a case
    CHECK(kinds.size() == std::variant_size_v<decltype(protocol::News::what)>);
}

TEST_CASE("a checkpoint that is kept is not said to be gone by a node that never had anything of its run") {
    Cluster cluster = cluster_of_two();
    const auto message = news(protocol::Deleted{.run = 7, .directory = "kept-a001"});
    cluster.checkpoints.erase({run, "going-a001"});
    CHECK(head::objection(cluster, stranger, message));
    CHECK(head::objection(cluster, stranger, news(protocol::Notice{.attempt = {.run = 7}})));
    CHECK(!head::objection(cluster, two, message));
}

TEST_CASE("a node reaches cluster:// beneath its own runs, and what it is to remove") {
    Cluster cluster = cluster_of_two();

    constexpr std::int64_t day = 24LL * 3'600'000;
    const auto reaches = [&](const NodeId& node, const std::string& path, head::Touch touch, Time at = Time{1'000}) {
        const bool known = head::run_named_in(path, node) == "train";
        return head::reaches_file(cluster, known ? std::set{run} : std::set<RunId>{}, node, path, touch, at);
    };
    using head::Touch;
    for (const char* path : {"train", "train/run.json", "train/kept-a001/model.pt"})
        for (const Touch touch : {Touch::read, Touch::write}) {
            INFO(path);
            CHECK(reaches(one, path, touch));
            CHECK(reaches(two, path, touch));
            CHECK(!reaches(stranger, path, touch));
        }
    for (const char* path : {"", "trainer/run.json", "other/x", ".rtrain-probe-train-node-2"})
        CHECK(!reaches(one, path, Touch::read));
    CHECK(reaches(one, ".rtrain-probe-train-node-1", Touch::write));
    CHECK(!reaches(stranger, ".rtrain-probe-train-node-3", Touch::write));
    for (const auto& [id, state] : std::map<NodeId, NodeState>{{one, NodeState::ready}, {stranger, NodeState::ready}})
        cluster.nodes[id] = Node{.id = id, .state = state};
    for (const char* path : {"train/going-a001", "train/attempts"}) CHECK(!reaches(stranger, path, Touch::read));
    CHECK(!reaches(stranger, "train/going-a001", Touch::write));  // the run's own node has the order
    cluster.nodes[one].state = NodeState::draining;
    // It has the order itself, since no node of the run is ready.
    CHECK(reaches(stranger, "train/going-a001", Touch::write));
    Checkpoint deeper = cluster.checkpoints.at({run, "going-a001"});
    deeper.directory = "epochs/3";
    cluster.checkpoints[{run, deeper.directory}] = deeper;
    for (const char* path : {"train/epochs/3", "train/epochs/3/model.pt"}) CHECK(reaches(stranger, path, Touch::write));
    CHECK(reaches(stranger, "train/names/epochs/3", Touch::read));  // the claim decides whether it is removed
    CHECK(!reaches(stranger, "train/names/epochs/3", Touch::write));
    for (const char* path :
         {"train/epochs", "train/epochs/30", "train/epochs/4/x", "train/names", "train/names/epochs"})
        CHECK(!reaches(stranger, path, Touch::read));
    CHECK(reaches(stranger, "train/attempts", Touch::read));
    CHECK(!reaches(stranger, "train/attempts", Touch::write));

    cluster.checkpoints.erase({run, "going-a001"});
    cluster.attempts[{run, 2}].workers.pop_back();  // the run continues on node-1 alone
    CHECK(reaches(two, "train/logs/x", Touch::write, Time{14 * day}));
    for (const Touch touch : {Touch::read, Touch::write}) CHECK(!reaches(two, "train/logs/x", touch, Time{16 * day}));
    CHECK(reaches(one, "train/logs/x", Touch::write, Time{16 * day}));

    cluster.runs[run].state = RunState::failed;
    for (auto& [id, ended] : cluster.attempts) ended.state = AttemptState::failed;
    CHECK(reaches(one, "train/logs/x", Touch::write, Time{14 * day}));
    CHECK(!reaches(one, "train/logs/x", Touch::write, Time{16 * day}));
    cluster.runs[run].storage_path = "/mnt/runs";
    CHECK(!reaches(one, "train/run.json", Touch::read));
}

TEST_CASE("what a node says of a run on another node is not believed, and is told; its own agent goes on") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint first = join(head, "node-1"), second = join(head, "node-2");
    HandMadeAgent owner(first, "node-1"), forger(second, "node-2");
    owner.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/node-1").status == 200; }));
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("victim")}, {"key", "k"}}).status < 300);
    const auto at = start_attempt(owner, 1);
    REQUIRE(eventually([&] { return state_of(head, "victim") == "RUNNING"; }));

    forger.register_node({at});
    forger.say(protocol::LogChunk{.attempt = at, .rank = 0, .stream = "out", .bytes = "forged line\n", .last = true});
    const protocol::AttemptRef made_up{at.run, 4'711, at.number};
    forger.say(protocol::LogChunk{.attempt = made_up, .rank = 0, .stream = "err", .bytes = "forged line\n"});
    forger.say(protocol::Heartbeat{.workers = {{.attempt = at, .rank = 0, .resident_bytes = 4'711}}});
    forger.tell(protocol::Reported{.attempt = at, .index = 1, .wall_ms = 1, .metrics_json = {{0, R"({"loss":0})"}}});
    forger.tell(protocol::Committed{.attempt = at, .directory = "forged-a001", .index = 1, .world_size = 1});
    forger.tell(protocol::Exited{.attempt = at, .rank = 0, .cause = exited(0), .exit_wall_us = 1});
    forger.tell(protocol::Exited{.attempt = made_up, .rank = 0, .cause = exited(1)});
    forger.tell(protocol::Emptied{at});
    while (forger.expect<protocol::NewsAck>().seq < forger.seq) {}  // acknowledged, so that they are not repeated
    for (int acks = 0; acks < 2; ++acks) {
        const auto ack = forger.expect<protocol::LogAck>();
        CHECK(ack.offset == (ack.stream == "out" ? 12 : 0));  // not its own: dropped; of no attempt: stays on the node
        CHECK(ack.later == (ack.stream == "err"));
    }

    CHECK(state_of(head, "victim") == "RUNNING");
    CHECK(head.call("GET", "/v1/runs/victim/metrics").body["items"].empty());
    CHECK(head.call("GET", "/v1/runs/victim/checkpoints").body["items"].empty());
    CHECK(head.call("GET", "/v1/runs/victim/logs").text.find("forged") == std::string::npos);
    CHECK(head.call("GET", "/metrics").text.find("4711") == std::string::npos);
    const std::string events = head.call("GET", "/v1/events?limit=1000").text;
    CHECK(events.find("security: node node-2 spoke of what is not its own") != std::string::npos);

    owner.say(protocol::LogChunk{.attempt = at, .rank = 0, .stream = "out", .bytes = "honest\n", .last = true});
    owner.tell(protocol::Reported{.attempt = at, .index = 1, .wall_ms = 1, .metrics_json = {{0, R"({"loss":1})"}}});
    end_well(owner, at, 1);
    CHECK(eventually([&] { return state_of(head, "victim") == "SUCCEEDED"; }));
    CHECK(eventually([&] { return head.call("GET", "/v1/runs/victim/metrics").body["items"].size() == 1; }));
    CHECK(head.call("GET", "/v1/runs/victim/logs").text.find("honest") != std::string::npos);
}

TEST_CASE("what a node says of an attempt that the head does not know is not believed, and nobody is blamed for it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "node-1"), "node-1");
    agent.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/node-1").status == 200; }));
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("train")}}).status < 300);
    const auto at = start_attempt(agent, 1);
    const protocol::AttemptRef since_backup{at.run, 4'711, at.number + 1};
    agent.say(protocol::LogChunk{.attempt = since_backup, .rank = 0, .stream = "out", .bytes = "kept\n", .last = true});
    const auto ack = agent.expect<protocol::LogAck>();
    CHECK(ack.later);
    CHECK(ack.offset == 0);
    agent.tell(protocol::Exited{.attempt = since_backup, .rank = 0, .cause = exited(0), .exit_wall_us = 1});
    agent.tell(protocol::Emptied{since_backup});
    while (agent.expect<protocol::NewsAck>().seq < agent.seq) {}
    CHECK(state_of(head, "train") == "RUNNING");
    CHECK(head.call("GET", "/v1/events?limit=1000").text.find("security:") == std::string::npos);
}

TEST_CASE("a node that may not write to a run is told so before a byte of the upload is read") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint first = join(head, "node-1"), second = join(head, "node-2");
    HandMadeAgent owner(first, "node-1"), other(second, "node-2");
    owner.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/node-1").status == 200; }));
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("victim")}}).status < 300);
    start_attempt(owner, 1);
    other.register_node();
    const auto begin = [&](const net::Endpoint& node) {
        net_tests::RawTls raw(head.started.port, node.certificate, node.private_key);
        raw.say(
            "PUT /v1/storage/victim/model.pt HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\n"
            "Content-Length: 1000000\r\n\r\n");
        return raw.read_some();
    };
    CHECK(begin(second).starts_with("HTTP/1.1 403"));
    CHECK(begin(first).starts_with("HTTP/1.1 100"));
}

TEST_CASE("a node reads and writes the files of its own runs at the head, and fetches their code alone") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint first = join(head, "node-1"), second = join(head, "node-2");
    HandMadeAgent owner(first, "node-1"), other(second, "node-2");
    owner.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/node-1").status == 200; }));
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("victim")}, {"key", "k"}}).status < 300);
    start_attempt(owner, 1);
    other.register_node();
    const auto status_of = [](const net::Endpoint& node, const std::string& method, const std::string& target) {
        return HeadUnderTest::send(node, {.method = method, .target = target, .body = method == "PUT" ? "x" : ""})
            .status;
    };
    const std::string file = "/v1/storage/victim/model.pt";
    CHECK(status_of(first, "PUT", file) == 201);
    CHECK(status_of(first, "GET", file) == 200);
    CHECK(status_of(first, "GET", "/v1/storage/victim?list=1") == 200);
    CHECK(status_of(first, "PUT", "/v1/storage/.rtrain-probe-victim-node-1") == 201);
    for (const char* method : {"GET", "PUT", "DELETE"}) {
        CHECK(status_of(second, method, file) == 403);
        const int refused = std::string(method) == "GET" ? 404 : 403;  // without a run there is no directory
        CHECK(status_of(first, method, "/v1/storage/another/model.pt") == refused);
    }
    CHECK(status_of(second, "DELETE", "/v1/storage/victim?tree=1") == 403);
    CHECK(status_of(second, "GET", "/v1/storage/victim?list=1") == 403);
    CHECK(status_of(first, "GET", "/v1/storage/?list=1") == 404);
    CHECK(status_of(first, "GET", file) == 200);  // still exists
    CHECK(status_of(first, "GET", "/v1/blobs/" + std::string(64, '0')) == 403);
    CHECK(status_of(first, "PUT", "/v1/blobs/" + std::string(64, '0')) != 201);  // before its body is read
    CHECK(status_of(first, "HEAD", "/v1/blobs/" + std::string(64, '0')) == 404);
}
