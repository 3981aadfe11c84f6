// Tests of leases: the nodes that are lost.
#include "daemon/head/events/leases.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::head;

namespace {

struct Story {
    Leases leases{LeaseRules{}};
    std::int64_t now = 100'000;

    explicit Story(int nodes) {
        for (int i = 1; i <= nodes; ++i) {
            const std::string name = "n" + std::to_string(i);
            const LeaseSteps steps = leases.registered(name, now, true);
            REQUIRE(steps.dial.size() == 1);
            leases.dialled(steps.dial[0].id, dialled_by_head, true);
        }
    }
    // All nodes but `silent` send a message twice a second. Returns the steps meanwhile.
    LeaseSteps pass(std::int64_t ms, const std::string& silent, int nodes) {
        LeaseSteps all;
        for (const std::int64_t end = now + ms; now < end;) {
            now += 100;
            for (int i = 1; i <= nodes; ++i)
                if (const std::string name = "n" + std::to_string(i); name != silent && now % 500 == 0)
                    leases.heard(name, now);
            const LeaseSteps steps = leases.check(now);
            all.dial.insert(all.dial.end(), steps.dial.begin(), steps.dial.end());
            all.lost.insert(all.lost.end(), steps.lost.begin(), steps.lost.end());
        }
        return all;
    }
    void answer(const LeaseSteps& steps, bool head, bool neighbours) {
        for (const LeaseDial& dial : steps.dial)
            leases.dialled(dial.id, dial.by, dial.by == dialled_by_head ? head : neighbours);
    }
};

}  // namespace

TEST_CASE("a machine that answers nobody is lost three seconds after its last word") {
    Story story(4);
    CHECK(story.pass(1'400, "n2", 4).dial.empty());
    const LeaseSteps doubt = story.pass(100, "n2", 4);
    REQUIRE(doubt.dial.size() == 3);
    CHECK(doubt.dial[0].by == dialled_by_head);
    CHECK(doubt.dial[1].by == "n3");
    CHECK(doubt.dial[2].by == "n4");
    CHECK(story.pass(1'400, "n2", 4).lost.empty());  // no answer has arrived
    story.answer(doubt, false, false);
    const LeaseSteps verdict = story.pass(100, "n2", 4);
    REQUIRE(verdict.lost.size() == 1);
    CHECK(verdict.lost[0].node == "n2");
    CHECK(verdict.lost[0].silent_ms == 3'000);
    CHECK(story.pass(20'000, "n2", 4).lost.empty());  // once
}

TEST_CASE("a node that is cut off from the head alone is lost after node_timeout") {
    Story story(3);
    std::int64_t lost_after = 0;
    for (int i = 0; i < 120 && lost_after == 0; ++i) {
        const LeaseSteps steps = story.pass(100, "n1", 3);
        story.answer(steps, false, true);
        if (!steps.lost.empty()) lost_after = steps.lost[0].silent_ms;
    }
    CHECK(lost_after == 10'000);
}

TEST_CASE("a killed agent's machine refuses the connection: node_timeout decides") {
    Story story(3);
    std::int64_t lost_after = 0;
    for (int i = 0; i < 120 && lost_after == 0; ++i) {
        const LeaseSteps steps = story.pass(100, "n1", 3);
        story.answer(steps, true, true);
        if (!steps.lost.empty()) lost_after = steps.lost[0].silent_ms;
    }
    CHECK(lost_after == 10'000);
}

TEST_CASE("with fewer than two other nodes nobody is asked") {
    Story story(2);
    CHECK(story.pass(9'900, "n1", 2).dial.empty());
    CHECK(story.pass(100, "n1", 2).lost.size() == 1);
}

TEST_CASE("an answer that does not come decides nothing, and others are asked") {
    Story story(3);
    const LeaseSteps first = story.pass(1'500, "n1", 3);
    REQUIRE(first.dial.size() == 3);
    story.leases.dialled(first.dial[0].id, dialled_by_head, false);
    story.leases.dialled(first.dial[0].id, "n2", false);  // n3's answer is missing
    const LeaseSteps again = story.pass(2'100, "n1", 3);
    CHECK(again.lost.empty());
    REQUIRE(again.dial.size() == 3);
    story.answer(first, false, false);  // too late
    CHECK(story.pass(500, "n1", 3).lost.empty());
    story.answer(again, false, false);
    CHECK(story.pass(100, "n1", 3).lost.size() == 1);
}

TEST_CASE("a word of the node ends the doubt") {
    Story story(3);
    const LeaseSteps doubt = story.pass(1'500, "n1", 3);
    story.leases.heard("n1", story.now);
    story.answer(doubt, false, false);
    CHECK(story.pass(1'400, "n1", 3).lost.empty());
}

TEST_CASE("a port that never answered the head says nothing about its machine") {
    Story story(4);
    const LeaseSteps moved = story.leases.registered("n1", story.now, true);
    story.leases.dialled(moved.dial[0].id, dialled_by_head, false);  // a firewall
    CHECK(story.pass(9'900, "n1", 4).dial.empty());
    CHECK(story.pass(100, "n1", 4).lost.size() == 1);
}

TEST_CASE("a node that cannot dial is no neighbour, and time in which the head stood still is no silence") {
    Story story(2);
    CHECK(story.leases.registered("n3", story.now, false).dial.empty());
    CHECK(story.pass(3'000, "n1", 3).dial.empty());
    story.leases.held_up(3'000);
    CHECK(story.pass(9'900, "n1", 3).lost.empty());
    CHECK(story.pass(100, "n1", 3).lost.size() == 1);
}
