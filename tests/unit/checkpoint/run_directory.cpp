// A run's directory: which process holds an attempt, which checkpoints count, and where the next attempt starts.

#include "storage/checkpoint/run_directory.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/crypto/digest.hpp"
#include "base/json_text.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/far_store.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

struct RunFolder {  // a store with the run "r" in it
    std::string path;
    std::unique_ptr<Store> store;
    RunFolder() {
        std::string text = (fs::temp_directory_path() / "rtrain-run-XXXXXX").string();
        path = ::mkdtemp(text.data());
        store = std::move(open_file_store(path + "/store")).value();
        REQUIRE(*create_run(*store, {.name = "r", .cluster_id = "c0ffee", .run_id = "c0ffee-1", .job_json = "{}"}));
    }
    ~RunFolder() { fs::remove_all(path); }
    RunFolder(const RunFolder&) = delete;

    ClaimAnswer claim(std::uint32_t at_least = 1, const std::string& restore_from = "",
                      const std::string& run_id = "c0ffee-1") {
        auto answer =
            claim_attempt(*store, "r", {.number = at_least, .cluster_id = "c0ffee", .run_id = run_id}, restore_from);
        if (!answer) FAIL(answer.error().message);
        return *answer;
    }
    std::string put(std::uint32_t attempt, std::uint64_t report, const std::string& bytes = "weights") {
        const std::string directory = checkpoint_directory_name("", report, attempt);
        REQUIRE(store->put("r/" + directory + "/model.pt", bytes).ok());
        return directory;
    }
    std::string commit(std::uint32_t attempt, std::uint64_t report, const std::string& bytes = "weights") {
        const std::string directory = put(attempt, report, bytes);
        const std::string file = store->local_path("r/" + directory + "/model.pt");
        const Manifest manifest{.directory = directory,
                                .attempt = attempt,
                                .report = report,
                                .world_size = 2,
                                .metrics_json = R"({"loss":0.5})",
                                .files = {{"model.pt", static_cast<std::int64_t>(bytes.size()), *hash_file(file), 0}}};
        const auto written = write_manifest(*store, "r", manifest);
        if (!written) FAIL(written.error().message);
        return directory;
    }
    void scribble(const std::string& directory, const std::string& bytes) {
        std::ofstream(store->local_path("r/" + directory + "/model.pt"), std::ios::binary) << bytes;
    }
    std::vector<std::string> live() {
        std::vector<std::string> names;
        const auto all = list_checkpoints(*store, "r");
        REQUIRE(all.ok());
        for (const auto& committed : *all)
            if (committed.live) names.push_back(committed.manifest.directory);
        return names;
    }
};
using Names = std::vector<std::string>;

// Returns the earlier checkpoints: "checkpoint_000001-a001" if it counts, "(checkpoint_000001-a001)" if it does not.
Names earlier(const ClaimAnswer& claimed) {
    Names names;
    for (const EarlierCheckpoint& one : claimed.earlier)
        names.push_back(one.counts ? one.manifest.directory : "(" + one.manifest.directory + ")");
    return names;
}

TEST_CASE("a claim tells what the earlier runs of its name committed on the branch that it goes on with") {
    RunFolder run;
    CHECK(earlier(run.claim()) == Names{});
    const std::string first = run.commit(1, 1), second = run.commit(1, 2);
    CHECK(earlier(run.claim()) == Names{});  // The run's own ones.
    CHECK(earlier(run.claim(1, "", "c0ffee-2")) == Names{first, second});
    const std::string third = run.commit(3, 1);
    CHECK(earlier(run.claim(1, "", "c0ffee-2")) == Names{first, second});
    CHECK(earlier(run.claim(1, "", "c0ffee-3")) == Names{first, second, third});
    CHECK(earlier(run.claim(1, first, "c0ffee-4")) == Names{first});  // The others are on a dead branch then.
}

TEST_CASE("checkpoints of a version before this one count if num_to_keep was set for them") {
    RunFolder run;
    const auto before = [&](const std::string& number, const std::string& job) {
        const std::string text =
            R"({"schema_version":1,"number":)" + number +
            R"(,"cluster_id":"c0ffee","run_id":"c0ffee-1","world_size":1,"nodes":[],"wall_ms":0,"job":)" + job + "}";
        REQUIRE(run.store->put("r/attempts/00000" + number + ".json", text).ok());
    };
    before("1", R"({"checkpoint":{"num_to_keep":null}})");
    before("2", R"({"checkpoint":{"num_to_keep":3}})");
    before("3", R"({"checkpoint":"what"})");
    REQUIRE(run.store->put("r/attempts/000002/from.json", R"({"from":"checkpoint_000001-a001","attempt":1,"report":1})")
                .ok());
    REQUIRE(run.store->put("r/attempts/000003/from.json", R"({"from":"checkpoint_000001-a002","attempt":2,"report":1})")
                .ok());
    for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) run.commit(attempt, 1);
    CHECK(earlier(run.claim(1, "", "c0ffee-2")) ==
          Names{"(checkpoint_000001-a001)", "checkpoint_000001-a002", "(checkpoint_000001-a003)"});
}

TEST_CASE("a claim says which one of its job array the run is, and the newest that can be read is in force") {
    RunFolder run;
    CHECK_FALSE(newest_claim(*run.store, "r"));
    for (const char* job : {"{\"name\":\"a\"}", "{\"name\":\"b\"}"}) {
        Claim claim{.number = 1, .cluster_id = "c0ffee", .run_id = "c0ffee-1", .job_json = job};
        claim.array = "grid";
        claim.array_index = 3;
        REQUIRE(claim_attempt(*run.store, "r", claim, "").ok());
    }
    run.claim();
    REQUIRE(run.store->put("r/attempts/000003.json", "{\"torn").ok());
    const auto newest = newest_claim(*run.store, "r");
    REQUIRE(newest);
    CHECK((newest->number == 2 && newest->array == "grid" && newest->array_index == 3));
    CHECK(newest->job_json == "{\"name\":\"b\"}");
}

}  // namespace

TEST_CASE("a run's name is claimed once, and its header is read back") {
    RunFolder run;
    CHECK_FALSE(*create_run(*run.store, {.name = "r", .cluster_id = "other"}));
    CHECK(read_run(*run.store, "r")->cluster_id == "c0ffee");
    CHECK(read_run(*run.store, "absent").error().code == ErrorCode::not_found);
    CHECK(*list_runs(*run.store) == Names{"r"});
}

TEST_CASE("a claim says which code it runs, and one of before does not") {
    RunFolder run;
    for (const std::optional<std::string>& code :
         {std::optional<std::string>{"abc"}, std::optional<std::string>{""}, {}})
        REQUIRE(claim_attempt(*run.store, "r",
                              {.number = 1, .cluster_id = "c0ffee", .run_id = "c0ffee-1", .code_sha256 = code}, ""));
    const auto claims = read_claims(*run.store, "r");
    REQUIRE(claims->size() == 3);
    CHECK((*claims)[0].code_sha256 == "abc");
    CHECK((*claims)[1].code_sha256 == "");
    CHECK_FALSE((*claims)[2].code_sha256);
}

TEST_CASE("many who claim at once all hold different numbers") {
    RunFolder run;
    std::vector<std::uint32_t> numbers(12);
    std::vector<std::thread> threads;
    for (auto& number : numbers)
        threads.emplace_back([&run, &number] {
            auto answer =
                claim_attempt(*run.store, "r", {.number = 1, .cluster_id = "c0ffee", .run_id = "c0ffee-1"}, "");
            number = answer ? answer->number : 0;
        });
    for (auto& thread : threads) thread.join();
    CHECK(std::set<std::uint32_t>(numbers.begin(), numbers.end()).size() == 12);
    CHECK(*std::min_element(numbers.begin(), numbers.end()) == 1);
    CHECK(read_claims(*run.store, "r")->size() == 12);
}

TEST_CASE("the next attempt starts from the newest commit; what was not committed does not exist") {
    RunFolder run;
    CHECK(run.claim().from.empty());
    run.commit(1, 1);
    const std::string newest = run.commit(1, 2);
    run.put(1, 3);  // Files without a manifest.

    const ClaimAnswer second = run.claim(1);

    CHECK(second.number == 2);
    CHECK(second.from == newest);
    CHECK(list_checkpoints(*run.store, "r")->size() == 2);
    CHECK(read_claims(*run.store, "r")->back().from == newest);
}

TEST_CASE("what a zombie commits after its successor began lies on a dead branch for ever") {
    RunFolder run;
    run.claim();
    const std::string first = run.commit(1, 1);
    CHECK(run.claim().from == first);
    const std::string zombie = run.commit(1, 2);
    const std::string second = run.commit(2, 2);

    CHECK(run.live() == Names{first, second});
    CHECK(list_checkpoints(*run.store, "r")->size() == 3);
    CHECK(run.claim().from == second);
    run.commit(1, 9);
    CHECK(run.claim().from == second);
    CHECK(run.live() == Names{first, second});
    CHECK(zombie == "checkpoint_000002-a001");
}

TEST_CASE("a number that was claimed but never began is skipped, also when its owner wakes up later") {
    RunFolder run;
    run.claim();
    const std::string first = run.commit(1, 1);
    REQUIRE(*run.store->create("r/attempts/000002.json", "{}"));  // The claimant died before it wrote `from`.

    const ClaimAnswer third = run.claim(2);
    CHECK(third.number == 3);
    CHECK(third.from == first);
    REQUIRE(*run.store->create("r/attempts/000002/from.json",
                               R"({"from":"checkpoint_000001-a001","attempt":1,"report":1})"));
    run.commit(2, 5);
    CHECK(run.live() == Names{first});
}

TEST_CASE("the walk passes attempts without commits and checkpoints that were deleted") {
    RunFolder run;
    run.claim();
    const std::string a = run.commit(1, 1), b = run.commit(1, 2);
    run.claim();
    run.claim();
    const std::string c = run.commit(3, 3);
    run.claim();
    CHECK(run.live() == Names{a, b, c});
    REQUIRE(delete_checkpoint(*run.store, "r", c).ok());
    REQUIRE(delete_checkpoint(*run.store, "r", b).ok());
    CHECK(run.live() == Names{a});
    CHECK_FALSE(fs::exists(run.store->local_path("r/" + b)));
    CHECK(delete_checkpoint(*run.store, "r", "../r-a1").error().code == ErrorCode::invalid);
}

TEST_CASE("a damaged checkpoint is named, and the one before it is used") {
    RunFolder run;
    run.claim();
    const std::string good = run.commit(1, 1), changed = run.commit(1, 2), shorter = run.commit(1, 3),
                      gone = run.commit(1, 4), torn = run.commit(1, 5);
    run.scribble(changed, "weightz");
    run.scribble(shorter, "wei");
    fs::remove(run.store->local_path("r/" + gone + "/model.pt"));
    fs::resize_file(run.store->local_path("r/" + torn + "/.manifest.json"), 40);

    const ClaimAnswer second = run.claim();

    CHECK(second.from == good);
    REQUIRE(second.damaged.size() == 4);
    CHECK(second.damaged[0].starts_with(torn + ": .manifest.json: the manifest is damaged"));
    CHECK(second.damaged[1] == gone + ": model.pt: missing");
    CHECK(second.damaged[2] == shorter + ": model.pt: 3 bytes, committed were 7");
    CHECK(second.damaged[3].starts_with(changed + ": model.pt: content has changed"));
    CHECK(newest_sound(*run.store, "r")->manifest->directory == good);
    CHECK(fetch_checkpoint(*run.store, "r", changed, run.path + "/x", {}).error().message.find("model.pt") !=
          std::string::npos);
}

TEST_CASE("a manifest or a claim that is too large to be read whole is damage, and holds up nobody") {
    RunFolder run;
    run.claim();
    const std::string good = run.commit(1, 1), swollen = run.commit(1, 2);
    fs::resize_file(run.store->local_path("r/" + swollen + "/.manifest.json"), whole_most + 1);
    const ClaimAnswer second = run.claim();
    fs::resize_file(run.store->local_path("r/attempts/000002.json"), whole_most + 1);

    const ClaimAnswer third = run.claim();

    CHECK(third.number == 3);
    CHECK(third.from == good);
    CHECK(second.from == good);
    REQUIRE(second.damaged.size() == 1);
    CHECK(second.damaged[0].find(swollen) != std::string::npos);
    CHECK(second.damaged[0].find("more than 64 MiB") != std::string::npos);
}

TEST_CASE("a manifest that could not be read again is not written") {
    RunFolder run;
    run.claim();
    const Manifest manifest{.directory = checkpoint_directory_name("", 1, 1),
                            .attempt = 1,
                            .report = 1,
                            .world_size = 1,
                            .metrics_json = '"' + std::string(whole_most, 'x') + '"'};
    const Status written = write_manifest(*run.store, "r", manifest);
    REQUIRE_FALSE(written);
    CHECK(written.error().message.find("more than 64 MiB") != std::string::npos);
    CHECK(run.store->get("r/" + manifest.directory + "/.manifest.json").error().code == ErrorCode::not_found);
}

TEST_CASE("verify names missing, changed and extra files") {
    RunFolder run;
    run.claim();
    const std::string directory = run.commit(1, 1);
    CHECK(verify_checkpoint(*run.store, "r", directory)->empty());
    REQUIRE(run.store->put("r/" + directory + "/notes.txt", "x").ok());
    CHECK(*verify_checkpoint(*run.store, "r", directory) == Names{"notes.txt: not in the manifest"});
    CHECK(run.claim().from == directory);  // An additional file does not make it unusable.
    run.scribble(directory, "wEights");
    CHECK(verify_checkpoint(*run.store, "r", directory)->size() == 2);
    CHECK(verify_checkpoint(*run.store, "r", "checkpoint_000009-a001").error().code == ErrorCode::not_found);
}

TEST_CASE("one flipped bit anywhere in a manifest is noticed") {
    const std::string text = encode({.directory = "checkpoint_000001-a001",
                                     .attempt = 1,
                                     .report = 1,
                                     .world_size = 2,
                                     .wall_ms = 5,
                                     .metrics_json = R"({"loss":0.25})",
                                     .files = {{"m.pt", 7, std::string(64, 'a'), 1}}});
    const auto back = decode_manifest(text);
    REQUIRE(back.ok());
    CHECK(encode(*back) == text);
    CHECK(back->bytes() == 7);
    for (std::size_t i = 0; i < text.size(); ++i) {
        std::string flipped = text;
        flipped[i] = static_cast<char>(flipped[i] ^ 1);
        const auto seen = decode_manifest(flipped);
        CAPTURE(i, flipped);
        CHECK((!seen.ok() || encode(*seen) == text));  // A changed space must not change the meaning.
    }
}

TEST_CASE("a manifest cannot name files outside of its checkpoint") {
    const std::string text = encode({.directory = "x-a001", .attempt = 1, .files = {{"../../etc/passwd", 1, "", 0}}});
    CHECK(decode_manifest(text).error().message.find("would leave the checkpoint") != std::string::npos);
}

TEST_CASE("a manifest with a file of less than no bytes is damaged") {
    const std::string text = encode({.directory = "x-a001", .attempt = 1, .files = {{"model.pt", -1, "", 0}}});
    CHECK(decode_manifest(text).error().message.find("impossible size") != std::string::npos);
}

TEST_CASE("a number in a file of the run directory that is no integer, or beyond its field's range, is damage") {
    nlohmann::json manifest = parse_json(
        encode({.directory = "x-a001", .attempt = 1, .metrics_json = "", .files = {{"model.pt", 1, "", 0}}}));
    manifest.erase("manifest_sha256");
    nlohmann::json end = parse_json(encode(AttemptEnd{.number = 1, .first_failure = 0, .ranks = {}}));
    for (const char* number : {"9.3e18", "-1e300", "0.5", "-1", "4294967296", "true", "[]"}) {
        CAPTURE(number);
        nlohmann::json changed = manifest;
        changed["attempt"] = parse_json(number);
        changed["manifest_sha256"] = crypto::sha256_hex(json_text(changed));
        CHECK(decode_manifest(json_text(changed)).error().code == ErrorCode::damaged);
        for (const char* field : {"attempt", "first_failure_rank"}) {
            changed = end;
            changed[field] = parse_json(number);
            CHECK(decode_end(json_text(changed), "end.json").error().code == ErrorCode::damaged);
        }
    }
    CHECK(decode_end(json_text(end), "end.json").ok());
}

TEST_CASE("a manifest whose fields are of other types, or nested without end, is damaged, and ends nobody") {
    const std::string deep = std::string(2'000'000, '[') + std::string(2'000'000, ']');
    for (const std::string& text : {std::string(R"({"schema_version":"x"})"), std::string(R"({"schema_version":null})"),
                                    std::string(R"({"schema_version":{}})"), std::string(R"({"manifest_sha256":7})"),
                                    "{\"metrics\":" + deep + "}"}) {
        CAPTURE(text.substr(0, 60));
        CHECK(decode_manifest(text).error().code == ErrorCode::damaged);
    }
    CHECK(decode_manifest(R"({"schema_version":2})").error().code == ErrorCode::invalid);

    RunFolder run;
    run.claim();
    const std::string directory = run.commit(1, 1);
    run.claim();
    std::ofstream(run.path + "/store/r/" + directory + "/.manifest.json") << R"({"schema_version":"x"})";
    const ClaimAnswer next = run.claim();  // The next claim passes it over.
    CHECK(next.from.empty());
    CHECK(next.damaged.size() == 1);
}

TEST_CASE("a commit may be repeated, but one name is never committed with other files") {
    RunFolder run;
    run.claim();
    const std::string directory = run.commit(1, 1);
    const auto there = list_checkpoints(*run.store, "r");
    Manifest again = there->front().manifest;
    again.wall_ms += 5;
    CHECK(write_manifest(*run.store, "r", again).ok());
    again.files[0].sha256 = std::string(64, '0');
    CHECK(write_manifest(*run.store, "r", again).error().code == ErrorCode::conflict);
    again.attempt = 2;
    CHECK(write_manifest(*run.store, "r", again).error().code == ErrorCode::invalid);
}

TEST_CASE("a restore from a named checkpoint holds for the first attempt; retries go on from its commits") {
    RunFolder run;
    run.claim();
    const std::string old = run.commit(1, 1);
    run.commit(1, 2);

    CHECK(run.claim(1, old, "beef00-1").from == old);
    CHECK(run.live() == Names{old});
    const std::string newer = run.commit(2, 2);
    CHECK(run.claim(1, old, "beef00-1").from == newer);
    CHECK(claim_attempt(*run.store, "r", {.number = 1, .run_id = "x-1"}, "checkpoint_000099-a001").error().code ==
          ErrorCode::not_found);
}

TEST_CASE("an attempt knows how many reports the live branch had before it") {
    RunFolder run;
    CHECK(run.claim().reports_before == 0);
    run.commit(1, 3);
    CHECK(run.claim(2).reports_before == 3);
    run.commit(2, 4);
    CHECK(run.claim(3).reports_before == 7);
    CHECK(run.claim(4).reports_before == 7);  // Attempt 3 committed nothing.
}

TEST_CASE("a sound checkpoint is given where it lies") {
    RunFolder run;
    run.claim();
    const std::string directory = run.commit(1, 1);
    CHECK(*fetch_checkpoint(*run.store, "r", directory, run.path + "/x", {}) ==
          run.store->local_path("r/" + directory));
    CHECK(fetch_checkpoint(*run.store, "r", "checkpoint_000009-a001", run.path + "/x", {}).error().code ==
          ErrorCode::not_found);
}

TEST_CASE("from a store that is not local, files are fetched once, checked, and named when damaged") {
    RunFolder run;
    FarStore far(*run.store);
    run.claim();
    const std::string good = run.commit(1, 1), bad = run.commit(1, 2);
    run.scribble(bad, "weightz");

    const auto claim = claim_attempt(far, "r", {.number = 1, .run_id = "c0ffee-1"}, "");
    CHECK(claim->from == good);
    CHECK(claim->damaged.size() == 1);
    far.fetched = 0;
    const std::string place = run.path + "/node/ckpt";
    CHECK(*fetch_checkpoint(far, "r", good, place, {}) == place);
    CHECK(*fetch_checkpoint(far, "r", good, place, {}) == place);  // The next worker of the node reads it.
    CHECK(far.fetched == 1);
    CHECK(*hash_file(place + "/model.pt") == list_checkpoints(far, "r")->front().manifest.files[0].sha256);
    CHECK(fetch_checkpoint(far, "r", bad, place + "2", {}).error().code == ErrorCode::damaged);
    CHECK_FALSE(fs::exists(place + "2/model.pt"));
    CHECK(verify_checkpoint(far, "r", bad)->size() == 1);
    CHECK(plan_garbage(far, "r")->items.size() == 1);  // Its successor left it behind.
}

TEST_CASE("what a claim downloads to check it is not downloaded again by the workers who start from it") {
    RunFolder run;
    FarStore far(*run.store);
    run.claim();
    const std::string good = run.commit(1, 1), bad = run.commit(1, 2);
    const bool damaged = GENERATE(false, true);
    if (damaged) run.scribble(bad, "weightz");
    const std::string place = run.path + "/node/restore";

    const auto claim = claim_attempt(far, "r", {.number = 1, .run_id = "c0ffee-1"}, "", place);

    CHECK(claim->from == (damaged ? good : bad));
    CHECK(far.fetched == (damaged ? 2 : 1));
    CHECK(*fetch_checkpoint(far, "r", claim->from, place, {}) == place);
    CHECK(far.fetched == (damaged ? 2 : 1));
    CHECK(std::distance(fs::directory_iterator(place), fs::directory_iterator()) == 1);
}

TEST_CASE("a copy nearer than the store is read in its place if it is what was committed, else the store is") {
    RunFolder run;
    FarStore far(*run.store);
    run.claim();
    const std::string directory = run.commit(1, 1), place = run.path + "/node/restore";
    const bool right = GENERATE(true, false), by_claim = GENERATE(true, false);
    Names refused;
    const NearerCopies nearer{.put =
                                  [&](const ManifestFile&, const std::string& target) {
                                      std::ofstream(target) << (right ? "weights" : "weightz");
                                      return true;
                                  },
                              .refused = [&](const ManifestFile& file) { refused.push_back(file.path); }};

    if (by_claim)
        CHECK(claim_attempt(far, "r", {.number = 1, .run_id = "c0ffee-1"}, "", place, nearer)->from == directory);
    CHECK(*fetch_checkpoint(far, "r", directory, place, {}, nearer) == place);

    CHECK(far.fetched == (right ? 0 : 1));
    CHECK(refused == (right ? Names{} : Names{"model.pt"}));
    CHECK(*hash_file(place + "/model.pt") == list_checkpoints(far, "r")->front().manifest.files[0].sha256);
}

TEST_CASE("a download that finds no room begins anew once what is nearer has made some") {
    RunFolder run;
    FarStore far(*run.store);
    run.claim();
    const std::string directory = run.commit(1, 1), place = run.path + "/node/restore";
    far.no_room = true;
    CHECK(fetch_checkpoint(far, "r", directory, place, {}).error().code == ErrorCode::full);
    int made = 0;
    const NearerCopies nearer{.make_room = [&] {
        ++made;
        far.no_room = false;
    }};
    CHECK(*fetch_checkpoint(far, "r", directory, place, {}, nearer) == place);
    CHECK(made == 1);
}

TEST_CASE("what is gone from the store is no checkpoint, however many copies are near") {
    RunFolder run;
    FarStore far(*run.store);
    run.claim();
    const std::string directory = run.commit(1, 1);
    REQUIRE(run.store->remove("r/" + directory + "/model.pt").ok());
    const NearerCopies nearer{.put = [](const ManifestFile&, const std::string& target) {
        std::ofstream(target) << "weights";
        return true;
    }};
    const auto claim =
        claim_attempt(far, "r", {.number = 1, .run_id = "c0ffee-1"}, "", run.path + "/node/restore", nearer);
    CHECK(claim->from.empty());
    CHECK(claim->damaged == Names{directory + ": model.pt: missing"});
}

TEST_CASE("the end of an attempt is read back as it was written") {
    RunFolder run;
    const AttemptEnd end{.number = 3,
                         .state = "FAILED",
                         .cause = "rank 1 on n2: exited with code 3",
                         .first_failure = 1,
                         .started_wall_ms = 5,
                         .ended_wall_ms = 9,
                         .ranks = {{0, {.signal = 15}}, {1, {.exit_code = 3, .detail = "ValueError"}}}};
    REQUIRE(write_end(*run.store, "r", end).ok());
    CHECK(*read_end(*run.store, "r", 3) == end);
    CHECK(read_end(*run.store, "r", 4).error().code == ErrorCode::not_found);
    REQUIRE(run.store->put("r/attempts/000005/end.json", "{}").ok());
    CHECK(read_end(*run.store, "r", 5).error().code == ErrorCode::damaged);
}

TEST_CASE("garbage: uncommitted and dead checkpoints of a finished run, with their bytes") {
    RunFolder run;
    run.claim();
    const std::string first = run.commit(1, 1);
    run.claim();
    const std::string zombie = run.commit(1, 2, "0123456789"), half = run.put(1, 3, "abc"), live = run.commit(2, 2);
    std::ofstream(run.store->local_path("r/" + live + "/.rtrain-tmp-dead-1")) << "tmp";
    CHECK_FALSE(plan_garbage(*run.store, "r")->terminal);
    REQUIRE(write_end(*run.store, "r", {.number = 2, .state = "SUCCEEDED"}).ok());
    REQUIRE(write_result(*run.store, "r", {.name = "r", .state = "SUCCEEDED", .attempts = 2}).ok());

    const auto plan = plan_garbage(*run.store, "r");

    REQUIRE(plan.ok());
    CHECK(plan->terminal);
    REQUIRE(plan->items.size() == 3);
    CHECK(plan->items[0].path == "r/" + zombie);
    CHECK(plan->items[0].bytes > 10);
    CHECK(plan->items[0].why == "committed on a dead branch, by attempt 1");
    CHECK(plan->items[1].path == "r/" + half);
    CHECK(plan->items[1].bytes == 3);
    CHECK(plan->items[2].why == "left behind by a write that was cut off");
    for (const auto& item : plan->items) REQUIRE(remove_garbage(*run.store, "r", item).ok());
    CHECK(plan_garbage(*run.store, "r")->items.empty());
    CHECK(run.live() == Names{first, live});
    run.claim();  // The run is restored and runs again.
    CHECK_FALSE(plan_garbage(*run.store, "r")->terminal);
    REQUIRE(run.store->put("r/result.json", R"({"attempt": 3, "attempts": 1})")
                .ok());  // It has ended according to the head.
    CHECK(plan_garbage(*run.store, "r")->terminal);
    REQUIRE(run.store->put("r/result.json", R"({"attempt": 2, "attempts": 2})").ok());
    CHECK_FALSE(plan_garbage(*run.store, "r")->terminal);
}

TEST_CASE("names of checkpoint directories") {
    CHECK(checkpoint_directory_name("", 7, 2) == "checkpoint_000007-a002");
    CHECK(checkpoint_directory_name("epoch-3", 7, 12) == "epoch-3-a012");
    CHECK(checkpoint_directory_name("../x", 7, 1) == "_._x-a001");
}

}  // namespace rtrain::storage
