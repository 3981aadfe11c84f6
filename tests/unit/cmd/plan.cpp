// `rtrain plan --cases`: one line of output for each line of input, exact amounts, and a reason for each bad line.
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/plan/plan_case.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::cmd;
using nlohmann::json;

namespace {

json answer(const std::string& line) { return parse_json(answer_line(line)); }

std::string one_node(const std::string& resources, const std::string& bundles, const std::string& more = "") {
    return R"({"id":"x","nodes":[{"id":"a","resources":)" + resources +
           R"(}],"request":{"strategy":"PACK","bundles":)" + bundles + "}" + more + "}";
}

}  // namespace

TEST_CASE("a case that fits is answered with its placement and its id") {
    const json got = answer(one_node(R"({"CPU":4,"GPU":2})", R"([{"CPU":1,"GPU":1},{"CPU":1,"GPU":1}])"));
    CHECK(got["id"] == "x");
    CHECK(got["verdict"] == "feasible now");
    CHECK(got["placement"]["0"]["node"] == "a");
    CHECK(got["placement"]["0"]["gpu"].size() == 1);
    CHECK(got["placement"]["0"]["gpu"].begin().value() == 1.0);
    CHECK(got["placement"]["1"]["gpu"] != got["placement"]["0"]["gpu"]);
}

TEST_CASE("amounts are exact: 0.0003 is three ticks") {
    CHECK(answer(one_node(R"({"CPU":0.0003})", R"([{"CPU":0.0001},{"CPU":0.0001},{"CPU":0.0001}])"))["verdict"] ==
          "feasible now");
    CHECK(answer(one_node(R"({"CPU":0.0003})", R"([{"CPU":0.0002},{"CPU":0.0002}])"))["verdict"] == "infeasible");
    CHECK(answer(one_node(R"({"CPU":1e1})", R"([{"CPU":1.0E+1}])"))["verdict"] == "feasible now");
}

TEST_CASE("an amount that is no amount makes the case invalid, and says why") {
    for (const char* wrong : {"0.00001", "1e-5", "-1", "1e300", "99999999999999999999", "true", "null", "\"much\"",
                              "NaN", "Infinity", "-Infinity", "[1]"}) {
        INFO(wrong);
        const json got = answer(one_node(R"({"CPU":4})", std::string("[{\"CPU\":") + wrong + "}]"));
        CHECK(got["verdict"] == "invalid");
        CHECK(got["id"] == "x");
        CHECK(!got["reasons"][0]["text"].get<std::string>().empty());
    }
}

TEST_CASE("all that is wrong with a map of amounts is told at once") {
    const auto text = [](const json& got) { return got["reasons"][0]["text"].get<std::string>(); };
    const json got = answer(one_node(R"({"CPU":4,"disk":true,"memory":-1,"tpu":0.00001})", R"([{"CPU":1}])"));
    CHECK(got["verdict"] == "invalid");
    for (const char* part :
         {"resources.disk: it is not a number", "resources.memory: \"-1\"", "resources.tpu: \"0.00001\""}) {
        INFO(text(got));
        CHECK(text(got).find(part) != std::string::npos);
    }
    const std::string bundle = text(answer(one_node(R"({"CPU":4})", R"([{"CPU":"x","GPU":1,"memory":[]}])")));
    CHECK(bundle.find("bundle 0.CPU: ") != std::string::npos);
    CHECK(bundle.find("bundle 0.memory: ") != std::string::npos);
}

TEST_CASE("all that is wrong with nodes and allocations is told at once, each at its path") {
    Problems wrong;
    cluster_from(parse_json(R"({"nodes": [
        {"id": "a", "resources": {"CPU": 4, "GPU": 1}},
        {"id": "b", "state": "asleep", "labels": [], "resources": {"CPU": "x", "GPU": 0.5}},
        {"resources": {}}, {"id": "a"}, {"id": "c", "resources": 7}],
        "allocations": [{"node": "a", "resources": {"CPU": 5, "GPU": 2}}, {"node": "zz"}, {"resources": {}},
        {"node": "a", "resources": {"CPU": 4}, "gpu": {"9": 1}}, {"node": "b", "resources": {"CPU": -1}}]})"),
                 wrong);
    std::vector<std::string> problems;
    for (const Problem& one : wrong) problems.push_back(one.path + " | " + one.message);
    const std::vector<std::string> expected{
        "nodes[1].state | node b: state \"asleep\" is none of ready, draining, quarantined, lost, dead",
        "nodes[1].labels | node b: labels must be a map",
        "nodes[1].resources.CPU | node b: resources.CPU: \"x\" is not an amount: it is not a number",
        "nodes[1].resources.GPU | node b: GPU is a number of whole devices",
        "nodes[2] | each of nodes needs an \"id\"",
        "nodes[3].id | node a is there twice",
        "nodes[4].resources | node c: resources must be a map of amounts",
        "allocations[0].resources.CPU | allocations take more CPU of node a than there is",
        "allocations[0].resources.GPU | an allocation names GPU 1 of node a, which has 1",
        "allocations[1].node | an allocation names node zz, which is not among nodes",
        "allocations[2] | each of allocations needs a \"node\"",
        "allocations[3].gpu | an allocation names GPU 9 of node a, which has 1",
        "allocations[4].resources.CPU | allocation on b: resources.CPU: \"-1\" is not an amount: it is negative"};
    CHECK(problems == expected);
    wrong.clear();
    cluster_from(parse_json(R"({"nodes": {"a": {}}, "allocations": 7})"), wrong);
    REQUIRE(wrong.size() == 2);
    CHECK((wrong[0].message == "nodes must be a list" && wrong[1].message == "allocations must be a list"));
}

TEST_CASE("three times 0.6 GPU do not fit two devices") {
    CHECK(answer(one_node(R"({"GPU":2})", R"([{"GPU":0.6},{"GPU":0.6},{"GPU":0.6}])"))["verdict"] == "infeasible");
    CHECK(answer(one_node(R"({"GPU":2})", R"([{"GPU":1.5}])"))["verdict"] == "invalid");
}

TEST_CASE("what others hold is pending, what nobody could give is infeasible") {
    const std::string held = R"(,"allocations":[{"node":"a","resources":{"CPU":3}}])";
    const json pending = answer(one_node(R"({"CPU":4})", R"([{"CPU":2}])", held));
    CHECK(pending["verdict"] == "pending");
    CHECK(pending["reasons"][0]["node"] == "a");
    CHECK(!pending.contains("placement"));
    CHECK(answer(one_node(R"({"CPU":4})", R"([{"CPU":5}])", held))["verdict"] == "infeasible");
}

TEST_CASE("what the gang itself holds does not come back when other jobs end") {
    const std::string own = R"(,"allocations":[{"node":"a","resources":{"CPU":3},"own":true}])";
    CHECK(answer(one_node(R"({"CPU":4})", R"([{"CPU":2}])", own))["verdict"] == "infeasible");
}

TEST_CASE("repair: placed bundles stay, and show the devices they hold") {
    const json got =
        answer(R"({"id":"r","nodes":[{"id":"a","resources":{"CPU":2,"GPU":1}},{"id":"b","resources":{"CPU":2,"GPU":1}}],
        "allocations":[{"node":"a","resources":{"CPU":1},"gpu":{"0":1},"own":true}],
        "request":{"strategy":"SPREAD","bundles":[{"CPU":1,"GPU":1},{"CPU":1,"GPU":1}],"placed":{"0":"a"}}})");
    CHECK(got["verdict"] == "feasible now");
    CHECK(got["placement"]["0"] == json({{"node", "a"}, {"gpu", {{"0", 1.0}}}}));
    CHECK(got["placement"]["1"]["node"] == "b");
}

TEST_CASE("a soft target is taken when the gang fits there, and forgotten when not") {
    const auto line = [](const char* cpu) {
        return std::string(
                   R"({"nodes":[{"id":"a","resources":{"CPU":8}},{"id":"b","resources":{"CPU":8}}],"request":{"strategy":"PACK","bundles":[{"CPU":)") +
               cpu + R"(}],"soft_target":"b"}})";
    };
    CHECK(answer(line("1"))["placement"]["0"]["node"] == "b");
    const json gone = answer(
        R"({"nodes":[{"id":"a","resources":{"CPU":8}}],"request":{"strategy":"PACK","bundles":[{"CPU":1}],"soft_target":"zz"}})");
    CHECK(gone["placement"]["0"]["node"] == "a");
}

TEST_CASE("draining and dead nodes take nothing, selectors hold per bundle or for all") {
    CHECK(
        answer(
            R"({"nodes":[{"id":"a","resources":{"CPU":8},"state":"draining"}],"request":{"strategy":"PACK","bundles":[{"CPU":1}]}})")
            ["verdict"] != "feasible now");
    CHECK(
        answer(
            R"({"nodes":[{"id":"a","resources":{"CPU":8},"state":"dead"}],"request":{"strategy":"PACK","bundles":[{"CPU":1}]}})")
            ["verdict"] == "infeasible");
    const json got = answer(
        R"x({"nodes":[{"id":"a","resources":{"CPU":8},"labels":{"rack":"r1"}},{"id":"b","resources":{"CPU":8},"labels":{"rack":"r2"}}],
        "request":{"strategy":"PACK","bundles":[{"CPU":1},{"CPU":1}],"bundle_label_selector":[{"rack":"in(r2,r3)"}]}})x");
    CHECK(got["placement"]["0"]["node"] == "b");
    CHECK(got["placement"]["1"]["node"] == "b");
}

TEST_CASE("a question that is none is answered all the same") {
    for (const char* wrong :
         {"", "not json", "[]", "{}", "{\"id\":7}", R"({"id":1,"id":2})",
          R"({"request":{"strategy":"PCK","bundles":[{"CPU":1}]}})", R"({"request":{"strategy":"PACK","bundles":[]}})",
          R"({"nodes":[{"id":"a","state":"asleep"}],"request":{"strategy":"PACK","bundles":[{"CPU":1}]}})",
          R"({"nodes":[{"id":"a"},{"id":"a"}],"request":{"strategy":"PACK","bundles":[{"CPU":1}]}})"}) {
        INFO(wrong);
        CHECK(answer(wrong)["verdict"] == "invalid");
    }
    CHECK(
        answer(R"({"request":{"strategy":"PCK","bundles":[{"CPU":1}]}})")["reasons"][0]["text"].get<std::string>().find(
            "did you mean PACK?") != std::string::npos);
    CHECK(answer(std::string(100'000, '['))["verdict"] == "invalid");
}
