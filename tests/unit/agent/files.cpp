// The files that an agent keeps on disk, and the logs that it sends.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_text.hpp"
#include "daemon/agent/disk/start_state.hpp"
#include "daemon/agent/peers/identity.hpp"
#include "tests/unit/agent/disk/log_story.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

protocol::News emptied(std::uint64_t seq) { return {.seq = seq, .what = protocol::Emptied{{17, 1, 1}}}; }

}  // namespace

TEST_CASE("however a renewal breaks off, the certificate that is kept is that of the key beside it") {
    const auto identity = [](const std::string& which) {
        return Identity{.node = "n1",
                        .cluster_id = "c0ffee",
                        .head_host = "head",
                        .certificate = "certificate " + which,
                        .private_key = "key " + which,
                        .ca = "authority"};
    };
    for (const char* name : {"key.pem", "certificate.pem", "ca.pem", "node.json"}) {
        const Folder folder;
        REQUIRE(save_identity(folder.path, identity("1")));
        REQUIRE(make_directory(folder.path + "/identity/" + name + ".new", 0700));  // this file cannot be written
        const Status saved = save_identity(folder.path, identity("2"));
        const auto kept = load_identity(folder.path);
        REQUIRE(kept);
        const std::string which = saved ? "2" : "1";
        CHECK(kept->certificate == "certificate " + which);
        CHECK(kept->private_key == "key " + which);
        CHECK(kept->ca == "authority");
    }
}

TEST_CASE("an identity that an older agent wrote in four files is read, and becomes one file when it is saved") {
    const Folder folder;
    const std::string at = folder.path + "/identity";
    REQUIRE(make_directory(at, 0700));
    const std::pair<const char*, const char*> files[] = {{"/key.pem", "the key"},
                                                         {"/certificate.pem", "the certificate"},
                                                         {"/ca.pem", "the authority"},
                                                         {"/node.json", R"({"node":"n1","cluster_id":"c0ffee"})"}};
    for (const auto& [name, text] : files) REQUIRE(write_whole(at + name, text, 0600, Durable::no));
    for (int time = 1; time <= 2; ++time) {
        const auto identity = load_identity(folder.path);
        REQUIRE(identity);
        CHECK(identity->node == "n1");
        CHECK(identity->certificate == "the certificate");
        CHECK(identity->private_key == "the key");
        CHECK(identity->ca == "the authority");
        REQUIRE(save_identity(folder.path, *identity));
    }
    const auto left = std::filesystem::directory_iterator(at);
    CHECK(std::distance(begin(left), end(left)) == 1);
    ::unlink((at + "/node.json").c_str());
    CHECK(load_identity(folder.path).error().code == ErrorCode::not_found);
}

TEST_CASE("what the workers of an attempt begin with outlives the agent that fetched it") {
    const Folder folder;
    CHECK(read_start_state(folder.path).error().code == ErrorCode::not_found);
    const StartState start_state{.checkpoint_path = "/runs/digits/checkpoint_000003-a001",
                                 .checkpoint_metrics = R"({"loss":"NaN"})",
                                 .reports_before = 7};
    REQUIRE(keep(start_state, folder.path));
    CHECK(*read_start_state(folder.path) == start_state);
    REQUIRE(write_whole(folder.path + "/begin.json", "{", 0600, Durable::no));
    CHECK(read_start_state(folder.path).error().code == ErrorCode::damaged);
}

namespace {

// Files of this process grow to so many bytes, as if the disk were full then.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(std::uintmax_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
        const rlimit now{.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, signal_);
    }

  private:
    void (*signal_)(int);
    rlimit before_{};
};

}  // namespace

TEST_CASE("news on disk outlive the agent, without those acknowledged and a line cut short") {
    Folder folder;
    const std::string path = folder.path + "/outbox.jsonl";
    {
        auto outbox = Outbox::open(path);
        REQUIRE(outbox);
        for (std::uint64_t seq = 1; seq <= 3; ++seq) REQUIRE(outbox->keep(emptied(seq)));
    }
    std::ofstream(path, std::ios::app) << R"({"type":"news","seq":4,"ki)";
    auto again = Outbox::open(path);
    REQUIRE(again);
    CHECK(again->kept().size() == 3);
    CHECK(again->next() == 4);
    for (std::uint64_t seq = 4; seq <= 2'000; ++seq) REQUIRE(again->keep(emptied(seq)));
    REQUIRE(again->drop(1'999));
    auto last = Outbox::open(path);
    REQUIRE(last);
    CHECK(last->kept().size() == 1);
    CHECK(last->next() == 2'001);
    CHECK(std::filesystem::file_size(path) < 1'000);
}

TEST_CASE("news that came while the disk was full are on disk with the next that finds room, in whole lines") {
    Folder folder;
    const std::string path = folder.path + "/outbox.jsonl";
    auto outbox = Outbox::open(path);
    REQUIRE(outbox);
    REQUIRE(outbox->keep(emptied(1)));
    {
        const FileSizeLimit full(std::filesystem::file_size(path) + 10);
        CHECK_FALSE(outbox->keep(emptied(2)));
        CHECK_FALSE(outbox->keep(emptied(3)));
    }
    CHECK(Outbox::open(path)->kept().size() == 1);
    REQUIRE(outbox->keep(emptied(4)));
    auto again = Outbox::open(path);
    REQUIRE(again);
    CHECK(again->kept().size() == 4);
}

TEST_CASE("news that came while the disk was full are on disk once it has room, though no others come") {
    Folder folder;
    const std::string path = folder.path + "/outbox.jsonl";
    const bool acknowledged = GENERATE(false, true);
    auto outbox = Outbox::open(path);
    REQUIRE(outbox);
    REQUIRE(outbox->keep(emptied(1)));
    {
        const FileSizeLimit full(std::filesystem::file_size(path) + 10);
        CHECK_FALSE(outbox->keep(emptied(2)));
        CHECK_FALSE(outbox->mend());
    }
    CHECK(Outbox::open(path)->kept().size() == 1);
    CHECK((acknowledged ? outbox->drop(1) : outbox->mend()).ok());
    const auto again = Outbox::open(path);
    REQUIRE(again);
    CHECK(again->kept().contains(2));
    CHECK(again->kept().contains(1) != acknowledged);
    const auto written = std::filesystem::last_write_time(path);
    CHECK(outbox->mend());
    CHECK(std::filesystem::last_write_time(path) == written);
}

TEST_CASE("a saved attempt is read back as it was") {
    SavedAttempt saved;
    saved.prepare = prepare_order({});
    saved.number = 4;
    saved.from = "checkpoint_000001-a003";
    saved.master_address = "10.0.0.1";
    saved.master_port = 20'001;
    saved.upload = UploadMode::sync;
    saved.local_run_path = "/runs/digits";
    saved.policy.hang_timeout_ms = 600'000;
    saved.policy.isolation_timeout_ms = 60'000;
    saved.policy.stop_at["epoch"] = 20;
    saved.policy.memory_bytes = 300 << 20;
    saved.launch = launch_order({});
    saved.passed = 7;
    saved.named = 2;
    saved.names = {{"latest", 2}};
    saved.enough = true;
    saved.committed = 6;
    saved.committed_as = "latest-a004";
    saved.uploading = SavedUpload{
        .released = {.index = 7, .directory = "checkpoint_000002-a004", .skip = {"shared.pt"}, .sync = true},
        .staged = {{0, "/stage/0"}, {1, "/stage/1"}},
        .metrics_json = "{\"loss\":1}",
        .wall_ms = 5,
        .blocked_ms = 6,
        .skips = {{"n2", {"shared.pt"}}}};
    auto again = decode_saved_attempt(encode(saved));
    REQUIRE(again);
    CHECK(*again == saved);
    const auto written = parse_json(encode(saved));  // the names must not change, since other agents read them
    std::string names;
    for (const auto& [name, value] : written.items()) names += name + " ";
    CHECK(names ==
          "asked asked_after committed committed_as enough from hang_timeout_ms isolation_timeout_ms launch "
          "local_run_path master_address master_port memory_bytes named names number passed prepare report_timeout_ms "
          "stop_at upload "
          "uploading version ");
    CHECK(written["upload"] == static_cast<int>(UploadMode::sync));
    CHECK(written["uploading"]["staged"] == nlohmann::json{{"0", "/stage/0"}, {"1", "/stage/1"}});
    CHECK(written["uploading"]["metrics"] == "{\"loss\":1}");
    CHECK(decode_saved_attempt(R"({"prepare":)" + json_text(written["prepare"]) + "}")->passed ==
          0);  // written by an older agent
    CHECK_FALSE(decode_saved_attempt("{\"version\":1").ok());
    CHECK_FALSE(decode_saved_attempt("{\"prepare\":\"{}\"}").ok());
}

TEST_CASE("what a worker writes is sent with its offset, as it comes") {
    LogStory story;
    story.shipper.resend();
    story.shipper.follow({17, 1, 1}, {0}, {});
    story.write("one\n");
    REQUIRE(story.until([&] { return story.received() == "one\n"; }));
    story.write("two\n");
    REQUIRE(story.until([&] { return story.received() == "one\ntwo\n"; }));
    CHECK(story.sent.back().offset == 4);
}

TEST_CASE("a piece that found no room on the connection is sent once there is, though nothing is acknowledged") {
    LogStory story;
    story.write("one\n");
    story.connected = false;  // the shipper was not told about the broken connection
    story.shipper.resend();
    story.shipper.follow({17, 1, 1}, {0}, {});
    int looks = 0;
    REQUIRE(story.until([&] {
        if (++looks == 50) story.connected = true;
        return story.received() == "one\n";
    }));
}

TEST_CASE("a piece is sent with the time at which it was written, not with that at which it could be told") {
    LogStory story;
    story.write("early\n");
    const timeval then[2] = {{1'600'000'000, 0}, {1'600'000'000, 0}};
    REQUIRE(::utimes(story.files.log(attempt_1, 0, "out").c_str(), then) == 0);
    story.shipper.follow({17, 1, 1}, {0}, {});
    story.shipper.resend();
    REQUIRE(story.until([&] { return story.received() == "early\n"; }));
    story.write("late\n");
    REQUIRE(story.until([&] { return story.received() == "early\nlate\n"; }));
    REQUIRE(story.sent.size() == 2);
    CHECK(story.sent[0].wall_ms == 1'600'000'000'000);
    CHECK(story.sent[1].wall_ms > story.sent[0].wall_ms);
}

TEST_CASE("a new connection gets the logs from the last acknowledged offset on, also from a new agent") {
    LogStory story;
    story.shipper.resend();
    story.shipper.follow({17, 1, 1}, {0}, {});
    story.write("one\ntwo\n");
    REQUIRE(story.until([&] { return story.received() == "one\ntwo\n"; }));
    story.shipper.acknowledged({.attempt = {17, 1, 1}, .rank = 0, .stream = "out", .offset = 4});
    story.sent.clear();
    story.shipper.disconnected();
    story.shipper.resend();
    REQUIRE(story.until([&] { return story.received() == "two\n"; }));

    std::vector<protocol::LogChunk> sent;
    LogShipper fresh(
        story.loop, story.files,
        [&](const protocol::LogChunk& chunk) {
            sent.push_back(chunk);
            return true;
        },
        [](std::uint64_t) { return std::uint64_t{1} << 30; });
    fresh.resend();
    fresh.follow({17, 1, 1}, {0}, {});
    REQUIRE(story.until([&] { return !sent.empty(); }));
    CHECK(sent[0].offset == 4);
}

TEST_CASE("logs that the head has no room for stay here, hold up no attempt's end, and go once it asks for them") {
    LogStory story;
    story.shipper.resend();
    story.write("one\ntwo\n");
    story.shipper.follow({17, 1, 1}, {0}, {});
    REQUIRE(story.until([&] { return story.received() == "one\ntwo\n"; }));
    protocol::LogAck ack{.attempt = {17, 1, 1}, .rank = 0, .stream = "out", .offset = 4};
    story.shipper.acknowledged(ack);
    story.sent.clear();
    ack.offset = 0;
    ack.later = true;
    story.shipper.acknowledged(ack);
    ack.stream = "err";
    story.shipper.acknowledged(ack);
    story.write("three\n");
    bool done = false;
    story.shipper.finish(attempt_1, [&] { done = true; });
    REQUIRE(story.until([&] { return done; }));
    CHECK(story.received().empty());
    CHECK_FALSE(story.shipper.complete(attempt_1));

    ack.later = false;
    story.shipper.acknowledged(ack);
    ack.stream = "out";
    story.shipper.acknowledged(ack);
    REQUIRE(story.until([&] { return story.received() == "two\nthree\n"; }));
    ack.offset = 14;
    story.shipper.acknowledged(ack);
    CHECK(story.shipper.complete(attempt_1));
}

TEST_CASE("no more than a window is under way, and the end is told once all is sent") {
    LogStory story;
    story.shipper.resend();
    story.write(std::string(3 * LogShipper::window, 'x'));
    story.shipper.follow({17, 1, 1}, {0}, {});
    bool done = false;
    story.shipper.finish(attempt_1, [&] { done = true; });
    REQUIRE(story.until([&] { return story.received().size() >= LogShipper::window; }));
    CHECK(story.received().size() <= LogShipper::window + LogShipper::piece);
    CHECK_FALSE(done);
    for (int round = 0; round < 4; ++round)
        story.shipper.acknowledged(
            {.attempt = {17, 1, 1}, .rank = 0, .stream = "out", .offset = story.received().size()});
    CHECK(story.received().size() == 3 * LogShipper::window);
    CHECK(done);
    CHECK(story.sent.back().last);
}

TEST_CASE("what is acknowledged after its file was followed anew is not waited for, nor sent again") {
    LogStory story;
    std::ofstream(story.files.log(attempt_1, 0, "setup")) << "installed\n";
    const protocol::AttemptRef attempt{.run = 17, .incarnation = 1, .number = 1};
    const auto setup_pieces = [&] {
        return std::count_if(story.sent.begin(), story.sent.end(),
                             [](const auto& chunk) { return chunk.stream == "setup" && !chunk.bytes.empty(); });
    };
    story.shipper.resend();
    story.shipper.follow_setup(attempt, 0, {});
    CHECK(story.until([&] { return setup_pieces() == 1; }));
    story.shipper.follow(attempt, {0}, {});  // its workers start before the head has answered
    story.shipper.acknowledged({.attempt = attempt, .rank = 0, .stream = "setup", .offset = 10});
    bool ended = false;
    story.shipper.finish(attempt_1, [&] { ended = true; });
    CHECK(story.until([&] { return ended; }));
    CHECK(setup_pieces() == 1);
}

TEST_CASE("without a connection the end of the logs does not wait for one, and they follow later") {
    LogStory story;
    story.connected = false;
    story.write("last words\n");
    story.shipper.follow({17, 1, 1}, {0}, {});
    bool done = false;
    story.shipper.finish(attempt_1, [&] { done = true; });
    CHECK(done);
    story.connected = true;
    story.shipper.resend();
    REQUIRE(story.until([&] { return story.received() == "last words\n"; }));
}

TEST_CASE(
    "a tree is removed without what a link in it leads to, also when directory and link change places meanwhile") {
    const Folder folder;
    namespace fs = std::filesystem;
    const std::string precious = folder.path + "/precious", tree = folder.path + "/tree";
    const auto fill = [](const std::string& directory) {
        fs::create_directories(directory);
        for (int number = 0; number < 50; ++number) std::ofstream(directory + "/" + std::to_string(number)) << "text";
    };
    fill(precious);
    for (int round = 0; round < 200; ++round) {
        fill(tree + "/inner");
        fs::create_directory_symlink(precious, tree + "/link");
        std::atomic<bool> over = false;
        std::thread exchanges([&] {
            while (!over)
                ::renameat2(AT_FDCWD, (tree + "/link").c_str(), AT_FDCWD, (tree + "/inner").c_str(), RENAME_EXCHANGE);
        });
        remove_tree(tree);
        over = true;
        exchanges.join();
        remove_tree(tree);  // the exchange may have kept it from being empty
    }
    CHECK_FALSE(fs::exists(tree));
    CHECK(std::distance(fs::directory_iterator(precious), fs::directory_iterator()) == 50);
}
