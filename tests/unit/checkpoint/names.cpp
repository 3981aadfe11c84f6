// Names that programs give to checkpoints: kept while they are free, and never used twice in a run.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/checkpoint_name.hpp"
#include "base/json_text.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct NamedRun {  // a store with the run "r" in it
    std::string path;
    std::unique_ptr<Store> store;
    NamedRun() {
        std::string text = (fs::temp_directory_path() / "rtrain-names-XXXXXX").string();
        path = ::mkdtemp(text.data());
        store = std::move(open_file_store(path)).value();
        REQUIRE(*create_run(*store, {.name = "r", .cluster_id = "c0ffee", .run_id = "c0ffee-1", .job_json = "{}"}));
    }
    ~NamedRun() { fs::remove_all(path); }
    NamedRun(const NamedRun&) = delete;

    std::string start(std::uint32_t at_least = 1) {
        const auto answer =
            claim_attempt(*store, "r", {.number = at_least, .cluster_id = "c0ffee", .run_id = "c0ffee-1"}, "");
        if (!answer) FAIL(answer.error().message);
        return answer->from;
    }
    bool claim(const std::string& name, std::uint32_t attempt, std::uint64_t report) {
        const auto claimed = claim_directory(*store, "r", name, {.attempt = attempt, .report = report});
        if (!claimed) FAIL(claimed.error().message);
        return *claimed;
    }
    // Claims as the library does for a rank whose files are in the run's directory already.
    void claim_deeper(const std::string& path, std::uint32_t attempt, std::uint64_t report) const {
        write("names/" + path, json_text(json{{"schema_version", 1}, {"attempt", attempt}, {"report", report}}));
    }
    Status commit(const std::string& directory, std::uint32_t attempt, std::uint64_t report) {
        REQUIRE(store->put("r/" + directory + "/model.pt", "weights").ok());
        const std::string hash = *hash_file(store->local_path("r/" + directory + "/model.pt"));
        return write_manifest(
            *store, "r",
            {.directory = directory, .attempt = attempt, .report = report, .files = {{"model.pt", 7, hash, 0}}});
    }
    json header() const {
        std::ifstream in(path + "/r/run.json");
        return json::parse(in);
    }
    void write(const std::string& file, const std::string& text) const {
        fs::create_directories(fs::path(path + "/r/" + file).parent_path());
        std::ofstream(path + "/r/" + file) << text;
    }
    std::vector<std::string> listed() const {
        std::vector<std::string> names;
        const auto all = list_checkpoints(*store, "r");
        if (!all) FAIL(all.error().message);
        for (const auto& one : *all) names.push_back(one.manifest.directory + (one.live ? "" : " dead"));
        return names;
    }
};
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a name is its first report's, exactly, and nobody else's ever again") {
    NamedRun run;
    run.start();
    CHECK(run.claim("latest", 1, 3));
    CHECK(run.claim("latest", 1, 3));  // The same claim again, after a restart of the agent.
    CHECK_FALSE(run.claim("latest", 1, 4));
    REQUIRE(run.commit("latest", 1, 3).ok());
    CHECK(run.listed() == Names{"latest"});
    CHECK(run.start() == "latest");
    CHECK_FALSE(run.claim("latest", 2, 3));
    REQUIRE(delete_checkpoint(*run.store, "r", "latest").ok());
    CHECK(run.listed().empty());
    CHECK_FALSE(fs::exists(run.path + "/r/latest"));
    CHECK_FALSE(run.claim("latest", 2, 5));  // Also after the checkpoint was deleted.
    CHECK(parse_json(*run.store->get("r/names/latest")) == json{{"schema_version", 1}, {"attempt", 1}, {"report", 3}});
}

TEST_CASE("of attempts that race for a name exactly one has it") {
    NamedRun run;
    std::vector<std::thread> racing;
    std::vector<int> won(8);
    std::vector<std::string> failures(won.size());
    for (std::uint32_t i = 0; i < won.size(); ++i)
        racing.emplace_back([&, i] {
            const auto claimed = claim_directory(*run.store, "r", "best", {i + 1, 1});
            if (claimed)
                won[i] = *claimed ? 1 : 0;
            else
                failures[i] = claimed.error().message;
        });
    for (std::thread& attempt : racing) attempt.join();
    CHECK(failures == std::vector<std::string>(won.size()));
    CHECK(std::count(won.begin(), won.end(), 1) == 1);
    const auto owner = owner_of(*run.store, "r", "best");
    REQUIRE(owner);
    CHECK(won.at(owner->attempt - 1) == 1);
}

TEST_CASE("only the report that claimed a name commits in its directory") {
    NamedRun run;
    run.start();
    REQUIRE(run.claim("best", 1, 3));
    CHECK(run.commit("best", 2, 3).error().message == "\"best\" is not the directory of report 3 of attempt 2");
    CHECK(run.commit("best", 1, 4).error().code == ErrorCode::invalid);
    CHECK(run.commit("other", 1, 3).error().code == ErrorCode::invalid);  // No report has claimed the name.
    CHECK(run.commit("best-a002", 1, 3).error().code == ErrorCode::invalid);
    CHECK(run.commit("best", 1, 3).ok());
}

TEST_CASE("what a zombie commits under a name of its own lies on a dead branch, whatever it writes there") {
    NamedRun run;
    run.start();
    REQUIRE(run.claim("one", 1, 1));
    REQUIRE(run.commit("one", 1, 1).ok());
    CHECK(run.start() == "one");
    REQUIRE(run.claim("two", 1, 2));  // Attempt 1 claims it, although attempt 2 has begun.
    REQUIRE(run.commit("two", 1, 2).ok());
    CHECK(run.listed() == Names{"one", "two dead"});
    CHECK(newest_sound(*run.store, "r")->manifest->directory == "one");
    // A manifest of attempt 2 in a directory that attempt 1 has claimed is damage.
    REQUIRE(run.claim("three", 2, 1));
    REQUIRE(run.commit("three", 2, 1).ok());
    run.write("names/three", R"({"attempt": 1, "report": 9})");
    const auto all = list_checkpoints(*run.store, "r");
    REQUIRE(all->size() == 3);
    CHECK(all->back().manifest.directory == "three");
    CHECK(all->back().damage == "the manifest is that of three, attempt 2, report 1");
    CHECK_FALSE(all->back().live);
}

TEST_CASE(
    "a manifest that cannot be read counts for the attempt that claimed the name; a claim that cannot, for nothing") {
    NamedRun run;
    run.start();
    REQUIRE(run.claim("best", 1, 7));
    REQUIRE(run.commit("best", 1, 7).ok());
    run.write("names/best", "{}");
    CHECK(run.listed() == Names{"best"});
    CHECK_FALSE(run.claim("best", 1, 7));
    run.write("names/best", R"({"attempt": 1, "report": 7})");
    run.write("best/.manifest.json", "torn");
    const auto all = list_checkpoints(*run.store, "r");
    REQUIRE(all->size() == 1);
    CHECK(all->front().manifest.attempt == 1);
    CHECK(all->front().manifest.report == 7);
    CHECK_FALSE(all->front().damage.empty());
}

TEST_CASE("names that are not free: what others put into the run stays theirs, and is no checkpoint nor garbage") {
    NamedRun run;
    run.start();
    run.write("plots/loss.png", "png");
    run.write("plots/.manifest.json", "{}");
    run.write("notes", "text");
    CHECK_FALSE(run.claim("plots", 1, 1));
    CHECK_FALSE(run.claim("notes", 1, 1));
    CHECK(run.listed().empty());
    CHECK(plan_garbage(*run.store, "r")->items.empty());
    CHECK(delete_checkpoint(*run.store, "r", "plots").error().code == ErrorCode::invalid);
    CHECK(fs::exists(run.path + "/r/plots/loss.png"));
    for (const char* name : {"attempts", "code", "logs", "names"}) {
        run.write(std::string("names/") + name, R"({"attempt": 1, "report": 1})");  // A forged claim.
        CHECK_FALSE(run.claim(name, 1, 1));
        CHECK(delete_checkpoint(*run.store, "r", name).error().code == ErrorCode::invalid);
    }
    CHECK(plan_garbage(*run.store, "r")->items.empty());
}

TEST_CASE("a claimed directory that was never committed is garbage, and its name stays taken") {
    NamedRun run;
    run.start();
    REQUIRE(run.claim("half", 1, 1));
    run.write("half/model.pt", "wei");
    const auto plan = plan_garbage(*run.store, "r");
    REQUIRE(plan->items.size() == 1);
    CHECK(plan->items[0].path == "r/half");
    CHECK(plan->items[0].why == "never committed");
    REQUIRE(remove_garbage(*run.store, "r", plan->items[0]).ok());
    CHECK_FALSE(fs::exists(run.path + "/r/half"));
    CHECK(fs::exists(run.path + "/r/names/half"));
}

TEST_CASE("a run of before keeps names with their attempt; one of after is refused, with what to do") {
    NamedRun run;
    json header = run.header();
    CHECK(header["format"] == 3);
    CHECK_FALSE(header.contains("wall_ms"));  // Earlier versions need the field, so they refuse the run.
    CHECK(read_run(*run.store, "r")->format == 3);
    header["format"] = 2;  // A run from before deeper directories.
    run.write("run.json", json_text(header));
    CHECK(run.claim("earlier", 1, 1));
    header.erase("format");
    header["wall_ms"] = header["created_wall_ms"];
    header.erase("created_wall_ms");
    run.write("run.json", json_text(header));
    CHECK(read_run(*run.store, "r")->format == 1);
    CHECK_FALSE(run.claim("best", 1, 1));
    CHECK_FALSE(fs::exists(run.path + "/r/names/best"));
    header["format"] = 4;
    run.write("run.json", json_text(header));
    const auto later = read_run(*run.store, "r");
    REQUIRE_FALSE(later);
    CHECK(later.error().code == ErrorCode::invalid);
    CHECK(later.error().message == "r/run.json has format 4; this rtrain reads formats 1 to 3");
    CHECK(later.error().next == "use the rtrain that made the run, or a newer one");
    CHECK(list_checkpoints(*run.store, "r").error().message == later.error().message);
    CHECK(plan_garbage(*run.store, "r").error().message == later.error().message);
}

TEST_CASE("a directory that lies deeper in the run is a checkpoint by its claim, and by nothing else") {
    NamedRun run;
    run.start();
    run.claim_deeper("epochs/3", 1, 4);
    run.claim_deeper("epochs/4-a007/ckpt", 1, 5);                            // Only the claim holds the attempt.
    CHECK(run.commit("epochs/4", 1, 5).error().code == ErrorCode::invalid);  // No report has claimed it.
    CHECK(run.commit("epochs/3", 2, 4).error().message == "\"epochs/3\" is not the directory of report 4 of attempt 2");
    REQUIRE(run.commit("epochs/3", 1, 4).ok());
    REQUIRE(run.commit("epochs/4-a007/ckpt", 1, 5).ok());
    run.write("epochs/notes.txt", "mine");
    // A copy that no report has claimed.
    run.write("plots/deep/.manifest.json", *run.store->get("r/epochs/3/.manifest.json"));
    run.write("best-a001/deep/.manifest.json", "{}");
    CHECK(run.listed() == Names{"epochs/3", "epochs/4-a007/ckpt"});
    CHECK(run.start() == "epochs/4-a007/ckpt");
    run.write("epochs/4-a007/ckpt/model.pt", "WEIGHTS");  // Changed after its report.
    const auto sound = newest_sound(*run.store, "r");
    CHECK(sound->manifest->directory == "epochs/3");
    REQUIRE(sound->damaged.size() == 1);
    CHECK(sound->damaged[0].starts_with("epochs/4-a007/ckpt: model.pt: content has changed"));
    CHECK(run.start() == "epochs/3");
    CHECK(verify_checkpoint(*run.store, "r", "epochs/3")->empty());
    CHECK(*fetch_checkpoint(*run.store, "r", "epochs/3", "/nowhere", {}) == run.path + "/r/epochs/3");
    REQUIRE(delete_checkpoint(*run.store, "r", "epochs/3").ok());
    CHECK_FALSE(fs::exists(run.path + "/r/epochs/3"));
    CHECK((fs::exists(run.path + "/r/epochs/notes.txt") && fs::exists(run.path + "/r/names/epochs/3")));
    CHECK_FALSE(delete_checkpoint(*run.store, "r", "epochs").ok());
    CHECK(fs::exists(run.path + "/r/epochs/4-a007/ckpt/model.pt"));
}

TEST_CASE("a name that holds deeper claims is nobody's checkpoint, and a checkpoint's name holds none") {
    NamedRun run;
    run.start();
    run.claim_deeper("epochs/3", 1, 1);
    CHECK_FALSE(run.claim("epochs", 1, 2));
    CHECK_FALSE(run.claim("epochs/3", 1, 1));  // Only the rank itself claims it.
    CHECK(owner_of(*run.store, "r", "epochs/3")->report == 1);
    CHECK_FALSE(fs::is_regular_file(run.path + "/r/names/epochs"));
    run.claim_deeper("best", 1, 3);
    CHECK_FALSE(run.store->create("r/names/best/2", "{}"));  // A file is in the way: no checkpoint lies in another one.
}

TEST_CASE("deeper directories that were never committed are garbage, without what lies beside them") {
    NamedRun run;
    run.start();
    run.claim_deeper("epochs/1", 1, 1);
    REQUIRE(run.commit("epochs/1", 1, 1).ok());
    run.claim_deeper("epochs/2/ckpt", 1, 2);
    run.write("epochs/2/ckpt/part/model.pt", "half");
    run.write("epochs/2/log", "text");
    const auto plan = plan_garbage(*run.store, "r");
    REQUIRE(plan->items.size() == 1);
    CHECK(plan->items[0].path == "r/epochs/2/ckpt");
    CHECK(plan->items[0].bytes == 4);
    REQUIRE(remove_garbage(*run.store, "r", plan->items[0]).ok());
    CHECK_FALSE(fs::exists(run.path + "/r/epochs/2/ckpt"));
    CHECK((fs::exists(run.path + "/r/epochs/2/log") && run.listed() == Names{"epochs/1"}));
}

TEST_CASE("which paths a directory of the loop's own may have in the run") {
    const NamedRun run;
    const std::string eight = "a/b/c/d/e/f/g/h";
    for (const std::string& fine :
         {std::string("best"), std::string("epochs/3"), std::string("epochs/3.json/x.pkl"), std::string("a/logs"),
          std::string("a/b-a001"), std::string("a/b c"), eight, "a/" + std::string(198, 'x')})
        CHECK(checkpoint_path_fault(fine) == "");
    for (const std::string& wrong : {std::string(""),
                                     std::string("/"),
                                     std::string("a/"),
                                     std::string("/a"),
                                     std::string("a//b"),
                                     std::string("a/."),
                                     std::string("a/.."),
                                     std::string("../a"),
                                     std::string("a/../b"),
                                     std::string("./a"),
                                     std::string("a/.hidden/b"),
                                     std::string(".staging/a"),
                                     std::string("attempts/a"),
                                     std::string("code/a"),
                                     std::string("logs/a"),
                                     std::string("names/a"),
                                     std::string("run.json/a"),
                                     std::string("x.pkl/a"),
                                     std::string("x-a001/a"),
                                     std::string("a\\b/c"),
                                     std::string("a/b\\c"),
                                     std::string("a/b\nc"),
                                     std::string("a/b\0c", 5),
                                     eight + "/i",
                                     "a/" + std::string(199, 'x')}) {
        INFO(wrong);
        CHECK(checkpoint_path_fault(wrong) != "");
        CHECK(owner_of(*run.store, "r", wrong).error().code == ErrorCode::not_found);
    }
    CHECK(checkpoint_path_fault("names/a") == "begins with 'names', which is that of a directory which every run has");
    CHECK(checkpoint_path_fault(eight + "/i") == "has 9 parts; the most is 8");
}

TEST_CASE("which names a program may give") {
    for (const char* fine :
         {"best", "epoch-3", "latest-2", "x-a1", "x-a01", "-a001", "checkpoint_000007", "a.pt", "12", "café"})
        CHECK(checkpoint_name_fault(fine) == "");
    for (const char* wrong : {"", ".best", "a/b", "a\\b", "a\nb", "attempts", "code", "logs", "names", "run.json",
                              "driver.pkl", "x-a001", "x-a12345", "x-a99999999999"})
        CHECK(checkpoint_name_fault(wrong) != "");
    CHECK(checkpoint_name_fault(std::string(200, 'x')) == "");
    CHECK(checkpoint_name_fault(std::string(201, 'x')) == "has 201 bytes; the most is 200");
}

}  // namespace rtrain::storage
