// Amounts are exact, and label selectors match as documented.
#include "scheduler/model/resources.hpp"

#include "scheduler/model/records.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;

TEST_CASE("an amount is decimal text in steps of 0.0001, exactly") {
    CHECK(parse_amount("0.0003").value() == Amount{3});
    CHECK(parse_amount("2").value() == units(2));
    CHECK(parse_amount("0.5").value() == Amount{5'000});
    CHECK(parse_amount(".25").value() == Amount{2'500});
    CHECK(parse_amount("1.50000").value() == Amount{15'000});
    CHECK(parse_amount("922337203685477.5807").value() == Amount{INT64_MAX});
}

TEST_CASE("what is not an amount says why") {
    const auto why = [](const char* text) { return parse_amount(text).error().message; };
    CHECK(why("0.00003") == "\"0.00003\" is not an amount: it is finer than 0.0001");
    CHECK(why("-1") == "\"-1\" is not an amount: it is negative");
    CHECK(why("922337203685477.5808") == "\"922337203685477.5808\" is not an amount: it is beyond 64 bits");
    CHECK(why("99999999999999999999") == "\"99999999999999999999\" is not an amount: it is beyond 64 bits");
    for (const char* text : {"", "two", "1e3", "1.", ".", "1 ", "+1", "0x10", "nan"})
        CHECK_FALSE(parse_amount(text).ok());
}

TEST_CASE("an amount's text is the shortest decimal and reads back") {
    for (const char* text : {"0", "2", "0.5", "0.0003", "12.34", "922337203685477.5807"})
        CHECK(to_text(parse_amount(text).value()) == text);
    CHECK(to_text(Amount{-5'000}) == "-0.5");
}

TEST_CASE("sums keep no zeros, and a name that is absent counts as zero") {
    Resources sum{{"CPU", units(2)}};
    add(sum, {{"GPU", units(1)}, {"memory", Amount{0}}});
    CHECK(sum == Resources{{"CPU", units(2)}, {"GPU", units(1)}});
    subtract(sum, {{"GPU", units(1)}});
    CHECK(sum == Resources{{"CPU", units(2)}});
    CHECK(amount_of(sum, "GPU") == Amount{});
}

TEST_CASE("sums of many amounts are exact beyond 64 bits, and a record of them holds what it can") {
    Sums sums;
    for (int i = 0; i < 3; ++i) add(sums, Resources{{"memory", Amount{INT64_MAX}}});
    CHECK(to_text(amount_of(sums, "memory")) == "2767011611056432.7421");
    CHECK(saturated(sums) == Resources{{"memory", Amount{INT64_MAX}}});
    CHECK(recorded_as(saturated(sums), sums));
    for (int i = 0; i < 2; ++i) subtract(sums, Resources{{"memory", Amount{INT64_MAX}}});
    CHECK(amount_of(sums, "memory") == Amount{INT64_MAX});
    subtract(sums, Resources{{"memory", Amount{INT64_MAX}}});
    CHECK(sums.empty());
    CHECK(recorded_as({}, sums));
}

TEST_CASE("what one node or one worker has of a thing has a bound, so that two add up") {
    CHECK_FALSE(out_of_bounds({{"memory", amount_at_most}}));
    CHECK(out_of_bounds({{"x", Amount{amount_at_most.ticks + 1}}}) ==
          "400000000000000.0001 x, an amount is from 0 to 400000000000000");
    CHECK(out_of_bounds({{"x", Amount{-1}}}) == "-0.0001 x, an amount is from 0 to 400000000000000");
}

TEST_CASE("label conditions: v, !v, in(a,b), !in(a,b); a missing key satisfies the negated forms") {
    const auto holds = [](const char* expression, const Labels& labels) {
        return matches({parse_label_condition("zone", expression).value()}, labels);
    };
    CHECK(holds("us", {{"zone", "us"}}));
    CHECK_FALSE(holds("us", {{"zone", "eu"}}));
    CHECK_FALSE(holds("us", {}));
    CHECK(holds("!us", {}));
    CHECK(holds("in(us, eu)", {{"zone", "eu"}}));
    CHECK_FALSE(holds("!in(us,eu)", {{"zone", "eu"}}));
    CHECK(holds("!in(us,eu)", {{"zone", "asia"}}));
    for (const char* wrong : {"", "!", "in(", "in()", "in(a,)", "in(a", "a,b", "!!a"})
        CHECK_FALSE(parse_label_condition("zone", wrong).ok());
    CHECK(to_text(parse_label_condition("zone", "!in(us,eu)").value()) == "zone = !in(us,eu)");
}

TEST_CASE("every word of the records reads back") {
    for (int i = 0; i < 9; ++i) CHECK(run_state(to_text(RunState(i))) == RunState(i));
    for (int i = 0; i < 8; ++i) CHECK(attempt_state(to_text(AttemptState(i))) == AttemptState(i));
    for (int i = 0; i < 4; ++i) CHECK(node_state(to_text(NodeState(i))) == NodeState(i));
    for (int i = 0; i < 4; ++i) CHECK(strategy(to_text(Strategy(i))) == Strategy(i));
    for (int i = 0; i < 3; ++i) CHECK(worker_state(to_text(WorkerState(i))) == WorkerState(i));
    CHECK_FALSE(run_state("running"));
}
