// Ranks of one node without an agent: reports and checkpoints continue, and the next agent receives all of them.
#include <fstream>

#include "tests/unit/agent/reports/reporting.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::test;
namespace fs = std::filesystem;

namespace {

struct Ranks {
    explicit Ranks(const std::string& path) : first(path, "0"), second(path, "1") {}
    // Both report `metrics` at once, each with the files of its directory unless that is empty. Returns the number of
    // failures.
    int report(const std::string& metrics, const std::string& directory = "", std::int32_t upload = 0,
               const std::string& second_directory = "", std::int32_t second_upload = 0) {
        int failures = 0;
        std::thread other([&] { failures += one(second, metrics, second_directory, second_upload) != RTW_OK; });
        const int code = one(first, metrics, directory, upload);
        other.join();
        return failures + (code != RTW_OK);
    }
    static int one(Reporter& rank, const std::string& metrics, const std::string& directory, std::int32_t upload) {
        rtw_report_args args{};
        args.metrics_json = metrics.c_str();
        args.checkpoint_path = directory.empty() ? nullptr : directory.c_str();
        args.upload = upload;
        return rtw_report(rank.handle, &args);
    }
    Reporter first, second;
};

// A report that runs on a separate thread.
struct Reporting {
    Reporting(Ranks& ranks, std::string metrics, std::string directory = "", std::int32_t upload = 0)
        : thread([this, &ranks, metrics = std::move(metrics), directory = std::move(directory), upload] {
              failures = ranks.report(metrics, directory, upload);
              done = true;
          }) {}
    bool passes_within(std::chrono::milliseconds limit) const {
        const auto until = std::chrono::steady_clock::now() + limit;
        while (!done && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        return done;
    }
    std::atomic<bool> done{false};
    int failures = 0;
    std::thread thread;
};

bool waits_until(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + long_enough;
    while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return holds();
}

// A rank with files requests two spare directories after its first report.
void have_spares(const ReportAgent& agent, Ranks& ranks) {
    REQUIRE(waits_until([&] { return agent.stages_made == 3; }));
    CHECK(ranks.report(metrics_of(2)) == 0);
}

std::string checkpoint_of(const Folder& folder, int number) {
    const std::string directory = folder.path + "/checkpoint-" + std::to_string(number);
    fs::create_directories(directory);
    std::ofstream(directory + "/weights") << number;
    return directory;
}

std::string weights_in(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("ranks of one node report on without their agent, and the next one hears every report") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    auto agent = std::make_unique<ReportAgent>(path);
    Ranks ranks(path);
    for (int i = 1; i <= 10; ++i) CHECK(ranks.report(metrics_of(i)) == 0);
    agent->end();
    auto heard = std::move(agent->reports);
    for (int i = 11; i <= 300; ++i) CHECK(ranks.report(metrics_of(i)) == 0);
    agent = std::make_unique<ReportAgent>(path);
    CHECK(ranks.report(metrics_of(301)) == 0);
    ranks.first.close();
    ranks.second.close();
    agent->end();
    CHECK(agent->passed == 301);
    int wrong = 0;
    for (int i = 1; i <= 301; ++i)
        for (const std::uint32_t rank : {0u, 1u}) {
            const auto index = static_cast<std::uint64_t>(i);
            const std::string& after = agent->reports[index][rank];
            wrong += (after.empty() ? heard[index][rank] : after) != metrics_of(i);
        }
    CHECK(wrong == 0);
}

TEST_CASE("ranks of several nodes wait for the next agent") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    auto agent = std::make_unique<ReportAgent>(path, worker::ReportMemoryOffer{});
    Ranks ranks(path);
    CHECK(ranks.report(metrics_of(1)) == 0);
    agent->end();
    Reporting reporting(ranks, metrics_of(2));
    CHECK_FALSE(reporting.passes_within(std::chrono::milliseconds(500)));
    agent = std::make_unique<ReportAgent>(path, worker::ReportMemoryOffer{});
    CHECK(reporting.passes_within(long_enough));
    reporting.thread.join();
    CHECK(reporting.failures == 0);
}

TEST_CASE("of the checkpoints that ranks report without an agent the next one gets the newest") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    auto agent = std::make_unique<ReportAgent>(path);
    Ranks ranks(path);
    CHECK(ranks.report(metrics_of(1), checkpoint_of(folder, 1)) == 0);
    have_spares(*agent, ranks);
    agent->end();
    for (int i = 3; i <= 20; ++i) CHECK(ranks.report(metrics_of(i), i % 3 == 0 ? checkpoint_of(folder, i) : "") == 0);
    agent = std::make_unique<ReportAgent>(path);
    CHECK(ranks.report(metrics_of(21)) == 0);
    ranks.first.close();
    ranks.second.close();
    agent->end();
    CHECK(agent->passed == 21);
    CHECK(agent->replaced == 5);  // the checkpoints of reports 3, 6, 9, 12, 15
    std::vector<std::uint64_t> with_files;
    for (const auto& [index, places] : agent->staged)
        if (index > 2) with_files.push_back(index);
    REQUIRE(with_files == std::vector<std::uint64_t>{18});
    CHECK(weights_in(agent->staged.at(18).at(0) + "/weights") == "18");
}

TEST_CASE("a checkpoint that must be committed first waits for the next agent") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    auto agent = std::make_unique<ReportAgent>(path);
    Ranks ranks(path);
    CHECK(ranks.report(metrics_of(1), checkpoint_of(folder, 1)) == 0);
    have_spares(*agent, ranks);
    agent->end();
    CHECK(ranks.report(metrics_of(3)) == 0);
    Reporting reporting(ranks, metrics_of(4), checkpoint_of(folder, 4), RTW_UPLOAD_SYNC);
    CHECK_FALSE(reporting.passes_within(std::chrono::milliseconds(500)));
    agent = std::make_unique<ReportAgent>(path);
    CHECK(reporting.passes_within(long_enough));
    reporting.thread.join();
    CHECK(reporting.failures == 0);
}

TEST_CASE("no report passes behind the one that has reached the job's stop") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    const worker::ReportMemoryOffer terms{.alone = true, .stop = {{"a", 5}}};
    auto agent = std::make_unique<ReportAgent>(path, terms);
    Ranks ranks(path);
    for (int i = 1; i <= 3; ++i) CHECK(ranks.report(metrics_of(i)) == 0);
    agent->end();
    CHECK(ranks.report(metrics_of(4)) == 0);
    CHECK(ranks.report(metrics_of(5)) == 0);
    Reporting reporting(ranks, metrics_of(6));
    CHECK_FALSE(reporting.passes_within(std::chrono::milliseconds(500)));
    agent = std::make_unique<ReportAgent>(path, terms);  // this one has no `stop`
    CHECK(reporting.passes_within(long_enough));
    reporting.thread.join();
}

TEST_CASE("an agent that stands still keeps its ranks waiting for a moment, and hears all when it goes on") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    ReportAgent agent(path);
    Ranks ranks(path);
    for (int i = 1; i <= 3; ++i) CHECK(ranks.report(metrics_of(i)) == 0);
    std::atomic<bool> stands{true};
    agent.loop.post([&] {
        while (stands) std::this_thread::yield();
    });
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 4; i <= 200; ++i) CHECK(ranks.report(metrics_of(i)) == 0);
    CHECK(std::chrono::steady_clock::now() - begun < long_enough);
    stands = false;
    CHECK(ranks.report(metrics_of(201)) == 0);
    ranks.first.close();
    ranks.second.close();
    agent.end();
    CHECK(agent.passed == 201);
    int wrong = 0;
    for (int i = 1; i <= 201; ++i)
        for (const std::uint32_t rank : {0u, 1u})
            wrong += agent.reports[static_cast<std::uint64_t>(i)][rank] != metrics_of(i);
    CHECK(wrong == 0);
}

TEST_CASE("a rank that waits for another one waits for longer than for an agent") {
    ::setenv("RTRAIN_AGENT_WAIT_MS", "300", 1);
    const Folder folder;
    const std::string path = folder.path + "/sock";
    auto agent = std::make_unique<ReportAgent>(path);
    Ranks ranks(path);
    CHECK(ranks.report(metrics_of(1)) == 0);
    agent->end();
    std::atomic<int> code{-1};
    std::thread waiting([&] { code = ranks.first.report(metrics_of(2)); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(900);
    while (code == -1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(code == -1);
    CHECK(ranks.second.report(metrics_of(2)) == RTW_OK);
    waiting.join();
    CHECK(code == RTW_OK);
    ::unsetenv("RTRAIN_AGENT_WAIT_MS");
    agent = std::make_unique<ReportAgent>(path);
    ranks.first.close();
    ranks.second.close();
    CHECK(agent->passed == 2);
}

TEST_CASE("an agent that comes and goes takes back neither how far ranks are nor the report that ends the run") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    const worker::ReportMemoryOffer terms{.alone = true, .stop = {{"a", 5}}};
    auto agent = std::make_unique<ReportAgent>(path, terms);
    Ranks ranks(path);
    CHECK(ranks.report(metrics_of(1)) == 0);
    agent->end();
    for (int i = 2; i <= 3; ++i) CHECK(ranks.report(metrics_of(i)) == 0);
    std::atomic<int> code{-1};
    std::thread waiting([&] { code = ranks.first.report(metrics_of(4)); });
    agent = std::make_unique<ReportAgent>(path, terms);
    CHECK(waits_until([&] { return agent->passed == 3 && agent->joins == 2; }));
    agent->end();
    CHECK(ranks.second.report(metrics_of(4)) == RTW_OK);  // the first one was sent before that agent's end
    waiting.join();
    CHECK(code == RTW_OK);
    CHECK(ranks.report(metrics_of(5)) == 0);
    agent = std::make_unique<ReportAgent>(path, terms);
    CHECK(waits_until([&] { return agent->passed == 5; }));
    agent->end();
    Reporting reporting(ranks, metrics_of(6));
    CHECK_FALSE(reporting.passes_within(std::chrono::milliseconds(500)));
    agent = std::make_unique<ReportAgent>(path, terms);
    CHECK(reporting.passes_within(long_enough));
    reporting.thread.join();
}

TEST_CASE("a checkpoint that is not whole replaces none that waits for an agent") {
    const Folder folder;
    const std::string path = folder.path + "/sock";
    auto agent = std::make_unique<ReportAgent>(path);
    Ranks ranks(path);
    const auto both = [&](int number, std::int32_t second_upload) {
        const std::string directory = checkpoint_of(folder, number);
        return ranks.report(metrics_of(number), directory, 0, directory, second_upload);
    };
    CHECK(both(1, 0) == 0);
    CHECK(waits_until([&] { return agent->stages_made == 6; }));
    CHECK(ranks.report(metrics_of(2)) == 0);
    agent->end();
    CHECK(both(3, 0) == 0);
    for (int i = 4; i <= 8; ++i) CHECK(both(i, RTW_UPLOAD_NONE) == 0);
    agent = std::make_unique<ReportAgent>(path);
    CHECK(ranks.report(metrics_of(9)) == 0);
    ranks.first.close();
    ranks.second.close();
    agent->end();
    CHECK(agent->replaced == 0);
    for (const std::uint32_t rank : {0u, 1u}) CHECK(weights_in(agent->staged[3][rank] + "/weights") == "3");
    for (std::uint64_t index = 4; index <= 9; ++index) CHECK(agent->staged[index].empty());
}
