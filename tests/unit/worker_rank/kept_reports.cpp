// Reports that no agent has received: how many are sent at once, and the checkpoints that wait for an agent.
#include "runtime/worker/rank/kept_reports.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;

namespace {

Report with_files(std::uint64_t index) {
    return {.index = index,
            .metrics_json = R"({"step":1})",
            .checkpoint = StagedFiles{.path = "/stage/" + std::to_string(index), .directory_name = ""}};
}

bool any(const std::string&) { return true; }

// Returns the messages that are sent to a new agent.
std::vector<Report> sent_anew(KeptReports& kept) {
    std::vector<Report> out;
    kept.connected();
    kept.send_due([&](const std::string& frame) {
        out.push_back(std::get<Report>(*decode_from_worker(std::string_view(frame).substr(4))));
    });
    return out;
}

}  // namespace

TEST_CASE("a window of reports is sent, and the next ones once these are heard") {
    KeptReports kept;
    for (std::uint64_t index = 1; index <= 100; ++index) kept.add({.index = index});
    CHECK(sent_anew(kept).size() == KeptReports::window);
    CHECK_FALSE(kept.all_sent());
    kept.heard_up_to(30);
    std::size_t more = 0;
    kept.send_due([&](const std::string&) { ++more; });
    CHECK(more == 30);
    kept.heard_up_to(60);
    kept.send_due([&](const std::string&) { ++more; });
    CHECK(more == 52);
    CHECK(kept.all_sent());
    CHECK(kept.first() == 61);
    CHECK(sent_anew(kept).size() == 40);
}

TEST_CASE("of the checkpoints that wait for an agent the newest stays") {
    KeptReports kept;
    kept.add(with_files(1));
    CHECK_FALSE(kept.passed_with_files(1, any));
    kept.add({.index = 2});
    kept.add(with_files(3));
    const auto replaced = kept.passed_with_files(3, any);
    REQUIRE(replaced);
    CHECK(replaced->index == 1);
    CHECK(replaced->directory == "/stage/1");
    const auto sent = sent_anew(kept);
    REQUIRE(sent.size() == 3);
    CHECK_FALSE(sent[0].checkpoint);
    CHECK(sent[0].error_reason == replaced_reason);
    CHECK(sent[0].metrics_json == R"({"step":1})");
    REQUIRE(sent[2].checkpoint);
    CHECK(sent[2].checkpoint->path == "/stage/3");
}

TEST_CASE("a checkpoint that an agent was sent is not touched again, also by a rank whose agent died since") {
    KeptReports kept;
    kept.add(with_files(1));
    CHECK(sent_anew(kept).size() == 1);
    CHECK_FALSE(kept.passed_with_files(1, any));
    kept.add(with_files(2));
    CHECK_FALSE(kept.passed_with_files(2, any));
    CHECK(sent_anew(kept).front().checkpoint);
    kept.add(with_files(3));
    CHECK_FALSE(kept.passed_with_files(3, any));  // the second report was sent meanwhile
}

TEST_CASE("a checkpoint whose directory may not go is sent beside the newer one") {
    KeptReports kept;
    kept.add(with_files(1));
    CHECK_FALSE(kept.passed_with_files(1, any));
    kept.add(with_files(2));
    CHECK_FALSE(kept.passed_with_files(2, [](const std::string&) { return false; }));
    const auto sent = sent_anew(kept);
    REQUIRE(sent.size() == 2);
    CHECK((sent[0].checkpoint && sent[1].checkpoint));
}

TEST_CASE("files that nobody is to store go at once") {
    KeptReports kept;
    kept.add(with_files(1));
    CHECK(kept.passed_unstored(1) == "/stage/1");
    CHECK(kept.passed_unstored(1).empty());
    const auto sent = sent_anew(kept);
    CHECK_FALSE(sent.front().checkpoint);
    CHECK(sent.front().checkpoint_error.empty());
}

TEST_CASE("a rank keeps a bounded number of bytes") {
    KeptReports kept;
    const std::string metrics = R"({"text":")" + std::string(std::size_t{1} << 20, 'x') + R"("})";
    std::uint64_t index = 0;
    while (!kept.full()) kept.add({.index = ++index, .metrics_json = metrics});
    CHECK(index == 16);
    kept.heard_up_to(1);
    CHECK_FALSE(kept.full());
    kept.heard_up_to(index);
    CHECK(kept.empty());
}
