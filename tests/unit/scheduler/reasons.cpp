// Reasons: their kinds, their short form, and the part that other users may read.
#include "scheduler/model/records.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;

namespace {

template <std::size_t... Index>
std::string kinds(std::index_sequence<Index...>) {
    std::string all;
    ((all += std::string(std::variant_alternative_t<Index, Reason::Value>::kind) + " "), ...);
    return all;
}

Reason rank_failed(const std::string& detail, bool out_of_memory = false) {
    return reasons::RankFailed{
        .rank = {3}, .node = {"n1"}, .exit = {.signal = 9, .out_of_memory = out_of_memory, .detail = detail}};
}

std::string brief(const Reason& reason) { return to_text(in_brief(reason)); }
std::string hidden(const Reason& reason) { return to_text(reason, JobWords::hidden); }

}  // namespace

TEST_CASE("the kinds of reasons stand in databases and in the API: they are for ever", "[reasons]") {
    CHECK(kinds(std::make_index_sequence<std::variant_size_v<Reason::Value>>()) ==
          "none text no_room never_fits quota_full quota_reclaimed after_runs array_limit predecessor_ended "
          "stopped_by queue_time wall_time failures_spent fail_fast starts_failed rank_failed ranks_succeeded "
          "not_prepared end_unseen node_lost node_left node_smaller stop_metric given_up node_forgot requested_by "
          "preempted_by node_drains resize_requested room_to_grow drained_by silent quarantined "
          "user_limit queue_user_limit nodes_lost budget_used yielded_to owner_ended ");
    CHECK(kind_of(reasons::QueueTime{}) == std::string("queue_time"));
    CHECK(kind_of(Reason{}) == std::string("none"));
}

TEST_CASE("the short form has the first line of what others said, and the place in the job's files", "[reasons]") {
    const Reason failed =
        rank_failed("ValueError: x\n  at train.py:3 in loop\nTraceback (most recent call last):\n...");
    CHECK(brief(failed) == "rank 3 on n1: killed by signal 9 (ValueError: x at train.py:3 in loop)");
    CHECK(brief(reasons::FailuresSpent{.failures = 1, .max_failures = 0, .cause = {failed}}) ==
          "rank 3 on n1: killed by signal 9 (ValueError: x at train.py:3 in loop) (failure 1, failure.max_failures is "
          "0)");
    CHECK(brief(reasons::NotPrepared{{"n1"}, "setup ended with 1\npip: no such package"}) ==
          "n1 could not prepare: setup ended with 1");
    CHECK(brief(reasons::NodeDrains{{"n1"}, {reasons::DrainedBy{"ana", "new kernel\nsee the wiki"}}}) ==
          "node n1 drains, drained by ana: new kernel");
    CHECK(brief(reasons::NodeLost{{"n1"}, "no answer\nconnection reset", {failed}}) ==
          "node n1 was lost: no answer; then rank 3 on n1: killed by signal 9 (ValueError: x at train.py:3 in loop)");
    CHECK(brief(reasons::Silent{"away\nfor long"}) == "away");
}

TEST_CASE("a signal of the program's own error is named, with what it means", "[reasons]") {
    const auto sentence = [](int signal) {
        return to_text(Reason{reasons::RankFailed{.rank = {0}, .node = {"n1"}, .exit = {.signal = signal}}});
    };
    CHECK(sentence(11) == "rank 0 on n1: killed by signal 11 (SIGSEGV: an access to memory that is not the program's)");
    CHECK(sentence(6) == "rank 0 on n1: killed by signal 6 (SIGABRT: the program called abort())");
    CHECK(sentence(9) == "rank 0 on n1: killed by signal 9");
}

TEST_CASE("the sentence of an earlier version keeps its end in the short form", "[reasons]") {
    const std::string begin = "rank 0 on n1: exited with code 1 (ValueError: x\n  at train.py:3\nTraceback ...";
    CHECK(brief(reasons::Text{begin + ") (failure 1, failure.max_failures is 0)"}) ==
          "rank 0 on n1: exited with code 1 (ValueError: x at train.py:3) (failure 1, failure.max_failures is 0)");
    CHECK(brief(reasons::Text{begin + ")"}) == "rank 0 on n1: exited with code 1 (ValueError: x at train.py:3)");
    CHECK(brief(reasons::Text{"waits for room"}) == "waits for room");
}

TEST_CASE("other users read neither a job's last words nor what stands in a cause of a cause", "[reasons]") {
    CHECK(hidden(rank_failed("secret=1")) == "rank 3 on n1: killed by signal 9 (hidden)");
    CHECK(hidden(rank_failed("61 of 62 GiB", true)) == "rank 3 on n1: killed by signal 9 (out of memory: hidden)");
    CHECK(hidden(rank_failed("")) == "rank 3 on n1: killed by signal 9");
    CHECK(hidden(reasons::StoppedBy{"ana", {reasons::FailFast{{rank_failed("secret=1")}}}}) ==
          "stopped by ana, its attempt had ended: rank 3 on n1: killed by signal 9 (hidden) (failure.fail_fast)");
    CHECK(hidden(reasons::NotPrepared{{"n1"}, "setup ended with 1\ntoken=1"}) ==
          "n1 could not prepare: setup ended with 1 (hidden)");
    CHECK(hidden(reasons::Text{"rank 0: exited with code 1 (secret=1)"}) == "rank 0: exited with code 1 (hidden)");
}

TEST_CASE("why a node is out of use: a person's words stand, a job's are hidden", "[reasons]") {
    Node node{.id = {"n1"}, .state = NodeState::draining};
    // As version 4 stored it.
    node.state_reason = reasons::Text{"drained by ana: replace DIMM (slot 3), back on Monday"};
    CHECK(why_out_of_use(node, JobWords::hidden) == "drained by ana: replace DIMM (slot 3), back on Monday");
    node.state = NodeState::quarantined;
    node.state_reason = reasons::Text{"3 attempts of 3 runs failed here first: a attempt 1 (secret=1)"};
    CHECK(why_out_of_use(node, JobWords::hidden) == "3 attempts of 3 runs failed here first: a attempt 1 (hidden)");
    node.state = NodeState::lost;
    node.back_as = NodeState::quarantined;
    CHECK(why_out_of_use(node, JobWords::hidden).find("secret") == std::string::npos);
    CHECK(why_out_of_use(node, JobWords::shown).find("secret") != std::string::npos);
}
