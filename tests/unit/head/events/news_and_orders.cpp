// Between agents and the core: attempts are found by incarnation, and orders are filled from the records.
#include <cmath>

#include "daemon/head/events/news.hpp"
#include "daemon/head/events/orders.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

// Returns run 1 with an attempt ordered as number 2, incarnation 9, with two ranks on n1 and one on n2.
Cluster cluster_with_attempt() {
    Cluster cluster;
    cluster.meta.cluster_id = "c0ffee00";
    for (const char* name : {"n1", "n2"})
        cluster.nodes[NodeId{name}] = {.id = {name}, .address = std::string("10.0.0.") + name[1], .port = 7434};
    Run run{.id = RunId{1}, .name = "digits", .user = "ann"};
    run.spec.gang.bundles.assign(3, Bundle{.demand = {{"CPU", units(2)}}});
    run.attempts = 2;
    run.checkpoints = 5;
    cluster.runs[run.id] = run;
    Attempt attempt{.id = {RunId{1}, 2}, .incarnation = 9};
    attempt.workers.resize(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        attempt.workers[rank].seat.node = NodeId{rank < 2 ? "n1" : "n2"};
        attempt.workers[rank].local_rank = rank % 2;
        attempt.workers[rank].node_rank = rank / 2;
    }
    attempt.workers[2].seat.gpus = {{.device = 3, .amount = units(1)}};
    cluster.attempts[attempt.id] = attempt;
    return cluster;
}

}  // namespace

TEST_CASE("news are about the attempt of their incarnation, whatever number they carry") {
    const Cluster cluster = cluster_with_attempt();
    const protocol::News claimed{
        1, protocol::Prepared{.attempt = {1, 9, 4}, .claimed = true, .from = "checkpoint_000001-a001"}};
    const auto event = std::get<NodePrepared>(event_of(cluster, NodeId{"n1"}, {}, claimed).value());
    CHECK(event.attempt == AttemptId{RunId{1}, 2});  // as ordered
    CHECK(event.claimed_number == 4);                // as claimed
    CHECK(event.from == "checkpoint_000001-a001");
    const protocol::News stranger{2, protocol::Emptied{.attempt = {1, 8, 2}}};
    CHECK(find_attempt(cluster, {1, 8, 2}) == nullptr);
    CHECK(std::get<NodeEmptied>(event_of(cluster, NodeId{"n1"}, {}, stranger).value()).attempt.number == 2);
}

TEST_CASE("reports and notices stay out of the core") {
    const Cluster cluster = cluster_with_attempt();
    CHECK_FALSE(event_of(cluster, NodeId{"n1"}, {}, {1, protocol::Reported{}}).has_value());
    CHECK_FALSE(event_of(cluster, NodeId{"n1"}, {}, {1, protocol::Notice{}}).has_value());
    const protocol::Notice of_nobody{.attempt = {.run = 99}, .text = "lost", .reason = "checkpoint_given_up"};
    CHECK_FALSE(event_of(cluster, NodeId{"n1"}, {}, {1, of_nobody}).has_value());
}

TEST_CASE("only the numbers of a commit's metrics go into the records") {
    const Cluster cluster = cluster_with_attempt();
    const protocol::News news{
        1, protocol::Committed{.attempt = {1, 9, 2}, .metrics_json = R"({"loss":0.5,"note":"x","on":true})"}};
    const auto event = std::get<CheckpointCommitted>(event_of(cluster, NodeId{"n1"}, {}, news).value());
    CHECK(event.metrics == std::map<std::string, double>{{"loss", 0.5}});
}

TEST_CASE("a commit with many numbers keeps 1,000 of them and its score") {
    Cluster cluster = cluster_with_attempt();
    cluster.runs.at(RunId{1}).spec.retention.score_attribute = "score";
    std::string metrics = "{";
    for (int i = 0; i < 5'000; ++i) metrics += "\"n" + std::to_string(i) + "\":1,";
    const protocol::News news{
        1, protocol::Committed{.attempt = {1, 9, 2}, .metrics_json = metrics + R"("score":0.5,"a\u0062":2})"}};
    const auto event = std::get<CheckpointCommitted>(event_of(cluster, NodeId{"n1"}, {}, news).value());
    CHECK(event.metrics.size() == 1'001);
    CHECK(event.metrics.at("score") == 0.5);
    CHECK(event.metrics.contains("n999"));
}

TEST_CASE("the score of a commit may be nested; a key that is spelled like its path comes first") {
    Cluster cluster = cluster_with_attempt();
    cluster.runs.at(RunId{1}).spec.retention.score_attribute = "eval/top/acc";
    const auto score = [&](const char* metrics) {
        const protocol::News news{1, protocol::Committed{.attempt = {1, 9, 2}, .metrics_json = metrics}};
        const auto event = std::get<CheckpointCommitted>(event_of(cluster, NodeId{"n1"}, {}, news).value());
        const auto entry = event.metrics.find("eval/top/acc");
        return entry == event.metrics.end() ? std::optional<double>() : entry->second;
    };
    CHECK(score(R"({"eval":{"top":{"acc":0.5}}})") == 0.5);
    CHECK(score(R"({"eval/top":{"acc":0.5}})") == 0.5);
    CHECK(score(R"({"eval":{"top/acc":0.5},"eval/top":{}})") == 0.5);
    CHECK(score(R"({"eval":{"top":{"acc":0.5}},"eval/top/acc":0.25})") == 0.25);
    CHECK(std::isnan(score(R"({"eval":{"top":{"acc":"NaN"}}})").value()));
    CHECK(score(R"({"eval":{"top":{"acc":true}}})") == std::nullopt);
    CHECK(score(R"({"eval":{"top":0.5}})") == std::nullopt);
    CHECK(score(R"({"eval":{"top":{"acc":0.5}},"eval/top/acc":null})") == std::nullopt);
}

TEST_CASE("a commit carries which ask it answers; an older agent does not say") {
    const Cluster cluster = cluster_with_attempt();
    const auto answers = [&](std::optional<std::int64_t> request) {
        const protocol::News news{1, protocol::Committed{.attempt = {1, 9, 2}, .answers = request}};
        return std::get<CheckpointCommitted>(event_of(cluster, NodeId{"n1"}, {}, news).value()).answers;
    };
    CHECK(answers(7'000) == Time{7'000});
    CHECK(answers(0) == Time{});
    CHECK(answers({}) == std::nullopt);
    const RequestCheckpoint asked{.attempt = {RunId{1}, 2}, .node = NodeId{"n1"}, .asked = Time{7'000}};
    CHECK(std::get<protocol::RequestCheckpoint>(order_of(cluster, asked, {}).value()).asked == 7'000);
}

TEST_CASE("a start that was overtaken by the end of its attempt is not ordered any more") {
    Cluster cluster = cluster_with_attempt();
    const AttemptId id{RunId{1}, 2};
    const PrepareNode prepare{.attempt = id, .incarnation = 9, .node = NodeId{"n2"}};
    const LaunchWorkers launch{.attempt = id, .node = NodeId{"n2"}};
    const StopAttempt stop{.attempt = id, .node = NodeId{"n2"}};
    CHECK_FALSE(overtaken(cluster, prepare));
    CHECK_FALSE(overtaken(cluster, launch));
    cluster.attempts.at(id).state = AttemptState::stopping;
    CHECK(overtaken(cluster, prepare));
    CHECK(overtaken(cluster, launch));
    CHECK_FALSE(overtaken(cluster, stop));
    cluster.attempts.erase(id);
    CHECK(overtaken(cluster, prepare));
    CHECK(overtaken(cluster, launch));
}

TEST_CASE("a preparation names all nodes of the attempt with their ranks and addresses, rank 0's first") {
    const Cluster cluster = cluster_with_attempt();
    const PrepareNode effect{.attempt = {RunId{1}, 2}, .incarnation = 9, .node = NodeId{"n2"}};
    const auto order = std::get<protocol::Prepare>(*order_of(cluster, effect, {.code_sha256 = "abc"}));
    CHECK(order.attempt == protocol::AttemptRef{1, 9, 2});
    CHECK(order.run_id == "c0ffee-1");
    CHECK(order.storage_path == "cluster://");
    CHECK(order.world_size == 3);
    CHECK(order.code_sha256 == "abc");
    CHECK(order.attempts_before == 1);
    CHECK(order.nodes ==
          std::vector<protocol::PeerNode>{{"n1", "10.0.0.1", 7434, {0, 1}}, {"n2", "10.0.0.2", 7434, {2}}});
}

TEST_CASE("a launch carries this node's workers alone, with their shares of devices") {
    const Cluster cluster = cluster_with_attempt();
    const LaunchWorkers effect{.attempt = {RunId{1}, 2}, .node = NodeId{"n2"}};
    const auto order = std::get<protocol::Launch>(*order_of(cluster, effect, {.secrets = {{"A", "b"}}, .token = "t"}));
    CHECK(order.node_rank == 1);
    CHECK(order.checkpoint_counter == 5);
    CHECK(order.secrets.at("A") == "b");
    CHECK(order.workers == std::vector<protocol::LaunchWorker>{
                               {.rank = 2, .local_rank = 0, .gpus = {3}, .gpu_ticks = {10'000}, .cpu_ticks = 20'000}});
}

TEST_CASE("an attempt that is gone is still stopped, but never prepared or launched") {
    const Cluster cluster;
    const AttemptId gone{RunId{5}, 1};
    CHECK_FALSE(
        order_of(cluster, PrepareNode{.attempt = gone, .incarnation = 3, .node = NodeId{"n1"}}, {}).has_value());
    CHECK_FALSE(order_of(cluster, LaunchWorkers{gone, NodeId{"n1"}}, {}).has_value());
    const auto stop = order_of(
        cluster,
        StopAttempt{.attempt = gone, .incarnation = 3, .node = NodeId{"n1"}, .grace = {}, .why = reasons::GivenUp{}},
        {});
    CHECK(std::get<protocol::Stop>(*stop).attempt == protocol::AttemptRef{5, 3, 1});
    CHECK(std::get<protocol::Stop>(*stop).alone);  // a node with its part of a checkpoint waits for no other part
}

TEST_CASE("the last node of an attempt that ends is told that it is the last") {
    Cluster cluster = cluster_with_attempt();
    const AttemptId id{RunId{1}, 2};
    Attempt& attempt = cluster.attempts.at(id);
    const auto alone = [&] {
        const auto stop = order_of(cluster, StopAttempt{.attempt = id, .incarnation = 9, .node = NodeId{"n1"}}, {});
        return std::get<protocol::Stop>(*stop).alone;
    };
    attempt.nodes_waiting = {NodeId{"n1"}};
    CHECK_FALSE(alone());  // it is being prepared there, and does not end
    attempt.state = AttemptState::stopping;
    CHECK(alone());
    attempt.nodes_waiting = {NodeId{"n1"}, NodeId{"n2"}};
    CHECK_FALSE(alone());
    attempt.nodes_waiting = {NodeId{"n2"}};
    CHECK_FALSE(alone());
    attempt.state = AttemptState::failed;  // the node reported it after the end
    CHECK(alone());
}
