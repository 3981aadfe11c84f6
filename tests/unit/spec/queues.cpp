// Reads the file of queues: its meaning, and the errors about its faults.
#include "storage/job_spec/fields/queues.hpp"

#include <fstream>
#include <sstream>

#include "tests/unit/catch.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::spec {
namespace {

Queues queues_of(const std::string& yaml) {
    QueuesAnswer answer = read_queues(yaml);
    for (const Problem& problem : answer.problems) UNSCOPED_INFO(problem.path + ": " + problem.message);
    REQUIRE(answer.queues);
    return *answer.queues;
}

std::vector<std::string> queue_problems(const std::string& yaml) {
    const QueuesAnswer answer = read_queues(yaml);
    CHECK_FALSE(answer.queues);
    std::vector<std::string> texts;
    for (const Problem& problem : answer.problems)
        texts.push_back(std::to_string(problem.line) + ": " + problem.path + ": " + problem.message +
                        (problem.suggestion.empty() ? "" : "; " + problem.suggestion));
    return texts;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the example of configs/ is read, and every field of it means something") {
    std::ifstream file(test::source_directory() + "/configs/queues.yaml");
    std::stringstream text;
    text << file.rdbuf();
    const Queues queues = queues_of(text.str());
    CHECK(queues.half_life == Duration{86'400'000});
    CHECK(queues.preemption_grace == Duration{60'000});
    CHECK(queues.rules.size() == 5);
    const QueueRules& nlp = queues.rules.at("nlp");
    CHECK((nlp.share == 2 && nlp.parent == "research" && nlp.borrow && nlp.preempt));
    CHECK(nlp.quota == Resources{{"GPU", units(32)}});
    CHECK_FALSE(queues.rules.at("vision").borrow);
    CHECK(queues.rules.at("vision").user_runs == 20);
    CHECK(queues.rules.at("vision").user_gpus == units(8));
    CHECK_FALSE(nlp.limits_users());
    const QueueRules& production = queues.rules.at("production");
    CHECK((production.gpu_hours == units(5'000) && production.user_gpu_hours == units(500)));
    CHECK(production.user_gpu_hours_of == std::map<std::string, Amount>{{"ana", units(800)}});
    CHECK((production.budget_window == Duration{30LL * 86'400'000} && !production.budget_preempts));
    CHECK(amount_of(queues.rules.at("production").quota, "memory").ticks == (2LL << 40) * Amount::per_unit);
}

TEST_CASE("a file without the queue \"default\" gets it, without limits") {
    CHECK(queues_of("queues: {a: {share: 3}}").rules.at("default") == QueueRules{});
}

TEST_CASE("amounts and numbers out of range are told with their lines, all at once") {
    CHECK(queue_problems("version: 2\n"
                         "half_life: 3\n"
                         "queues:\n"
                         "  a: {share: 0}\n"
                         "  b: {quota: {GPU: -1}}\n"
                         "  c: {quota: {CPU: 0.00001}}\n"
                         "  d: {quota: {CPU: 99999999999999999999}}\n"
                         "  e: {quota: {GPU: 1.5}}\n"
                         "  f: {user_runs: 0, user_gpus: 1.5}\n"
                         "  g: {user_runs: many, user_gpus: {GPU: 1}}\n") ==
          Lines{"1: version: wants 1, found 2", "2: half_life: wants a duration such as 90s, 5m or 1d, found 3",
                "4: queues.a.share: wants a whole number from 1 to 1000000, found 0",
                "5: queues.b.quota.GPU: \"-1\" is not an amount: it is negative; write a decimal such as 2 or 0.5, in "
                "steps of 0.0001",
                "6: queues.c.quota.CPU: \"0.00001\" is not an amount: it is finer than 0.0001; write a decimal such as "
                "2 or 0.5, in steps of 0.0001",
                "7: queues.d.quota.CPU: \"99999999999999999999\" is not an amount: it is beyond 64 bits; write a "
                "decimal such as 2 or 0.5, in steps of 0.0001",
                "8: queues.e.quota.GPU: GPU above 1 is counted in whole devices",
                "9: queues.f.user_runs: wants a whole number from 1 to 1000000, found 0",
                "9: queues.f.user_gpus: GPU above 1 is counted in whole devices",
                "10: queues.g.user_runs: wants a whole number from 1 to 1000000, found \"many\"",
                "10: queues.g.user_gpus: wants a number of GPUs, found a map"});
}

TEST_CASE("wrong budgets of GPU hours are reported with their lines") {
    CHECK(queue_problems("queues:\n"
                         "  a: {gpu_hours: -1}\n"
                         "  b: {user_gpu_hours: [1]}\n"
                         "  c: {user_gpu_hours_of: 7}\n"
                         "  d: {user_gpu_hours_of: {ana: many}}\n"
                         "  e: {gpu_hours: 1, budget_window: 10m}\n"
                         "  f: {gpu_hours: 1, budget_window: 400d}\n"
                         "  g: {gpu_hours: 100000001}\n")
              .size() == 7);
    CHECK(queues_of("queues: {a: {gpu_hours: 0.5, budget_window: 1h}}").rules.at("a").gpu_hours == Amount{5'000});
}

TEST_CASE("unknown fields and parents are told with what was probably meant") {
    CHECK(queue_problems("queues:\n  research: {quotas: {GPU: 1}}\n  nlp: {parent: resaerch}\n") ==
          Lines{"2: queues.research.quotas: unknown field; did you mean \"quota\"?",
                "3: queues.nlp.parent: there is no queue \"resaerch\" in this file; did you mean \"research\"?"});
}

TEST_CASE("borrowing in a circle is refused, and the circle is shown") {
    CHECK(queue_problems("queues:\n  a: {parent: c}\n  b: {parent: a}\n  c: {parent: b}\n  d: {parent: a}\n") ==
          Lines{"2: queues.a.parent: borrowing goes in a circle: a -> c -> b -> a; one of them must have no parent"});
    CHECK(queue_problems("queues:\n  a: {parent: a}\n").size() == 1);
}

TEST_CASE("queues are not promised more than their parent has") {
    CHECK(queue_problems("queues:\n  p: {quota: {GPU: 8}}\n  a: {parent: p, quota: {GPU: 6}}\n  b: {parent: p, quota: "
                         "{GPU: 4}}\n") == Lines{"2: queues.p.quota.GPU: the queues below it have 10 GPU in quotas, it "
                                                 "has 8; raise this quota or lower theirs"});
}

TEST_CASE("what is no file of queues at all is told so") {
    CHECK(queue_problems("").size() == 1);
    CHECK(queue_problems("- a\n").size() == 1);
    CHECK(queue_problems("queues: [a]\n").front() == "1: queues: wants a map of queues, found a list");
    CHECK(queue_problems("queues: {a: {share: 1, share: 2}}\n").size() == 1);
}

}  // namespace rtrain::spec
