// Long job arrays: accepted as a whole, made in slices, answered once all runs are made.
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

Answer submit(const HeadUnderTest& head, const std::string& token, const std::string& name, const std::string& array) {
    return head.call_as(token, "POST", "/v1/runs", {{"job", job(name)}, {"array", array}, {"key", name}});
}

std::size_t waiting(const HeadUnderTest& head) {
    return head.call("GET", "/v1/status").body.at("runs").value("QUEUED", 0u);
}

std::uint64_t number_of(const json& member) {
    const std::string id = member.at("run_id");
    return std::stoull(id.substr(id.rfind('-') + 1));
}

}  // namespace

TEST_CASE("a long array is answered once all its runs are there") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Answer answer = submit(head, head.admin, "grid", "0-999");
    REQUIRE(answer.status == 201);
    const json members = answer.body.at("array_runs");
    REQUIRE(members.size() == 1'000);
    CHECK(members[999].at("name") == "grid-999");
    CHECK(number_of(members[999]) == number_of(members[0]) + 999);
    CHECK(waiting(head) == 1'000);
    const Answer again = submit(head, head.admin, "grid", "0-999");
    CHECK(again.status == 200);
    CHECK(again.body.at("array_runs") == members);
}

TEST_CASE("arrays submitted together stay within the user's live runs") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .user_live_runs = 2'500});
    const std::string ann = head.make_token("user", "ann");
    std::vector<std::future<int>> answers;
    for (int i = 0; i < 4; ++i)
        answers.push_back(std::async(std::launch::async,
                                     [&, i] { return submit(head, ann, "a" + std::to_string(i), "0-999").status; }));
    std::multiset<int> statuses;
    for (std::future<int>& answer : answers) statuses.insert(answer.get());
    CHECK(statuses == std::multiset<int>{201, 201, 507, 507});
    CHECK(waiting(head) == 2'000);
}

TEST_CASE("a directory of an earlier run keeps an array from its name") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    std::filesystem::create_directories(folder.path + "/storage/grid-7");
    std::ofstream(folder.path + "/storage/grid-7/run.json") << "{}";
    const Answer refused = submit(head, head.admin, "grid", "0-9");
    CHECK(refused.status == 409);
    CHECK(says(refused, "grid-7"));
    CHECK(submit(head, head.admin, "grid", "10-19").status == 201);
}

TEST_CASE("a head that ends amid an array makes the rest at its next start") {
    const TemporaryFolder folder;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        std::thread client([endpoint = head.endpoint(admin)] {  // the connection may be cut
            const json body{{"job", job("grid")}, {"array", "0-9999"}, {"key", "grid"}};
            (void)net::Client(endpoint).call({.method = "POST", .target = "/v1/runs", .body = json_text(body)});
        });
        REQUIRE(eventually([&] { return waiting(head) > 0; }));
        head.stop();
        client.join();
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    CHECK(eventually([&] { return waiting(head) == 10'000; }));
    CHECK(submit(head, admin, "grid", "0-9999").body.at("array_runs").size() == 10'000);
}
