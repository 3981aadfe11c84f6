// Messages between head and agents are decoded as they were encoded. Errors name the broken part.
#include "daemon/protocol/messages.hpp"

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/json_text.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::protocol;

namespace {

// Values for a property test. All are drawn from one seed, so that a failure can be repeated.
class Draw {
  public:
    explicit Draw(std::uint32_t seed) : engine_(seed) {}
    std::uint64_t number(std::uint64_t last) { return std::uniform_int_distribution<std::uint64_t>(0, last)(engine_); }
    std::int64_t wide() { return static_cast<std::int64_t>(number(~0ull)); }
    std::int64_t size() { return static_cast<std::int64_t>(number(~0ull >> 1)); }
    bool coin() { return number(1) == 1; }
    std::string text() {
        static const char* const pieces[] = {"", "a", "\"quoted\"", "line\nend", "ü€😀", "\\", "{}"};
        std::string out;
        for (auto n = number(4); n > 0; --n) out += pieces[number(6)];
        return out;
    }
    std::string bytes() {
        std::string out;
        for (auto n = number(40); n > 0; --n) out.push_back(static_cast<char>(number(255)));
        return out;
    }
    AttemptRef attempt() {
        return {number(~0ull), static_cast<std::uint32_t>(number(~0u)), static_cast<std::uint32_t>(number(9))};
    }
    std::vector<std::uint32_t> ranks() {
        std::vector<std::uint32_t> out;
        for (auto n = number(4); n > 0; --n) out.push_back(static_cast<std::uint32_t>(number(~0u)));
        return out;
    }
    std::map<std::uint32_t, std::string> by_rank() {
        std::map<std::uint32_t, std::string> out;
        for (const auto rank : ranks()) out[rank] = text();
        return out;
    }
    ExitCause cause() {
        ExitCause out{};
        out.out_of_memory = coin();
        out.stopped_by_us = coin();
        out.never_started = coin();
        out.address_in_use = coin();
        out.detail = text();
        if (coin())
            out.exit_code = static_cast<std::int32_t>(number(255));
        else
            out.signal = static_cast<std::int32_t>(number(64));
        return out;
    }

  private:
    std::mt19937 engine_;
};

std::uint32_t small(Draw& d) { return static_cast<std::uint32_t>(d.number(~0u)); }
Traffic traffic(Draw& d) { return {d.wide(), d.wide(), d.wide(), d.wide()}; }
std::uint16_t port(Draw& d) { return static_cast<std::uint16_t>(d.number(65535)); }

std::vector<FromAgent> agent_words(Draw& d) {
    return {Hello{.node = d.text(), .program_version = d.text(), .boot_id = d.text()},
            Register{.address = d.text(),
                     .port = port(d),
                     .labels = {{d.text(), d.text()}},
                     .total = {{"CPU", units(8)}, {"memory", {d.wide()}}},
                     .gpus = small(d),
                     .gpu_model = d.text(),
                     .held = {d.attempt(), d.attempt()},
                     .next_news = d.number(~0ull),
                     .facts = {{d.text(), d.text()}}},
            Heartbeat{.memory_used = d.wide(),
                      .memory_total = d.wide(),
                      .workers = {{d.attempt(), small(d), d.wide(), d.wide(), d.wide(), d.wide(), d.wide(), d.wide(),
                                   d.number(~0ull), d.wide(), d.wide(), traffic(d)}},
                      .gpus = {{d.text(),
                                d.wide(),
                                d.wide(),
                                d.wide(),
                                d.wide(),
                                d.wide(),
                                {{13, d.number(9)}},
                                d.wide(),
                                d.wide(),
                                d.wide(),
                                d.wide()}},
                      .traffic = traffic(d),
                      .disks = {{d.text(), d.wide(), d.wide()}},
                      .cpu_ms = d.wide()},
            LogChunk{.attempt = d.attempt(),
                     .rank = small(d),
                     .stream = "out",
                     .offset = d.number(~0ull),
                     .bytes = d.bytes(),
                     .last = d.coin(),
                     .wall_ms = d.wide()},
            Cleared{d.number(~0ull), d.coin(), d.text()}};
}

std::vector<News> news(Draw& d) {
    return {{d.number(~0ull), Prepared{d.attempt(), d.coin(), d.text(), d.text(), port(d)}},
            {1, PrepareFailed{d.attempt(), d.text(), d.coin()}},
            {2, Started{d.attempt(), small(d), d.wide(), d.text(), d.wide()}},
            {3, Exited{d.attempt(), small(d), d.cause(), d.wide()}},
            {4, Emptied{d.attempt()}},
            {5, Reported{d.attempt(), d.number(~0ull), d.wide(), d.by_rank()}},
            {6, Committed{d.attempt(), d.text(), d.text(), d.number(99), small(d), d.wide(), d.wide(), d.wide(),
                          d.wide(), d.coin() ? std::optional(d.wide()) : std::nullopt}},
            {7, Deleted{d.number(~0ull), d.text()}},
            {8, Notice{d.attempt(), d.text(), d.text()}}};
}

std::vector<FromHead> head_words(Draw& d) {
    return {Welcome{.cluster_id = d.text(), .heartbeat_ms = d.wide(), .news_seen = d.number(~0ull)},
            Refuse{d.text(), d.text(), d.coin()},
            NewsAck{d.number(~0ull)},
            LogAck{d.attempt(), small(d), d.text(), d.number(~0ull), d.coin()},
            Prepare{.attempt = d.attempt(),
                    .cluster_id = d.text(),
                    .run_id = d.text(),
                    .job_json = d.text(),
                    .claim = d.coin(),
                    .resume = d.coin(),
                    .restore_from = d.text(),
                    .world_size = small(d),
                    .nodes = {{d.text(), d.text(), port(d), d.ranks()}},
                    .code_sha256 = d.text(),
                    .attempts_before = small(d),
                    .any_user = d.coin()},
            Launch{.attempt = d.attempt(),
                   .from = d.text(),
                   .master_address = d.text(),
                   .master_port = port(d),
                   .node_rank = small(d),
                   .workers = {{small(d), small(d), d.ranks(), {d.wide()}, d.wide()}},
                   .secrets = {{d.text(), d.text()}},
                   .token = d.text(),
                   .checkpoint_counter = d.number(~0ull)},
            Stop{d.attempt(), d.wide(), d.text()},
            Delete{d.number(~0ull), d.text(), d.text(), d.text(), small(d), d.text()},
            Result_{d.number(~0ull), d.text(), d.text(), d.text(), d.text()},
            Forget{d.attempt()},
            PeerMoved{d.text(), d.text(), port(d)},
            Revoked{{d.text(), d.text()}},
            TakeStacks{d.attempt(), d.ranks(), d.text()},
            Clear{d.number(~0ull), d.text(), {d.text(), d.text()}, d.text(), d.text(), d.text()},
            RunEnded{d.number(~0ull)}};
}

std::vector<GroupMessage> group_words(Draw& d) {
    const std::vector<StagedFile> files = {{small(d), "f" + d.text(), d.size(), d.text()}};
    return {GroupJoin{d.attempt(), d.text(), d.ranks()},
            GroupReport{d.number(~0ull), d.by_rank(), d.coin(), d.text(), files, d.text(), d.text(), d.coin(), d.coin(),
                        d.coin()},
            GroupArrived{d.number(~0ull), d.ranks(), d.ranks(), d.ranks(), d.number(~0ull), d.ranks(), d.text()},
            GroupUploaded{d.number(~0ull), files, d.text()},
            GroupReleased{d.number(~0ull), d.text()},
            GroupCommitted{d.number(~0ull), d.text(), d.text()},
            GroupStacks{d.ranks(), d.text()}};
}

std::string complaint(const std::string& text) {
    const auto answer = decode_from_agent(text);
    return answer.ok() ? "understood" : answer.error().message;
}

}  // namespace

TEST_CASE("every message arrives as it was sent, whatever its fields hold") {
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        Draw d(seed);
        INFO("seed " << seed);
        for (const FromAgent& one : agent_words(d)) REQUIRE(decode_from_agent(encode(one)).value() == one);
        for (const News& one : news(d)) {
            REQUIRE(decode_from_agent(encode(FromAgent{one})).value() == FromAgent{one});
            REQUIRE(decode_news(encode_news(one)).value() == one);
        }
        const NewsBatch batch{news(d)};
        REQUIRE(decode_from_agent(encode(FromAgent{batch})).value() == FromAgent{batch});
        CHECK_FALSE(decode_from_agent(R"({"type":"news_batch","items":[{"kind":"emptied","seq":"x"}]})").ok());
        for (const FromHead& one : head_words(d)) REQUIRE(decode_from_head(encode(one)).value() == one);
        for (const GroupMessage& one : group_words(d)) REQUIRE(decode_group(encode(one)).value() == one);
    }
}

TEST_CASE("text that is no UTF-8 arrives with replacement characters, control characters arrive as they are") {
    const News news{1, Notice{.text = "a\xff"
                                      "b\x01\"\\\n\x7f",
                              .reason = "ü"}};
    const auto heard = decode_news(encode_news(news));
    REQUIRE(heard);
    CHECK(std::get<Notice>(heard->what) == Notice{.text = "a\xef\xbf\xbd"
                                                          "b\x01\"\\\n\x7f",
                                                  .reason = "ü"});
}

TEST_CASE("fields of a later version are ignored, and those an earlier one does not send keep their defaults") {
    const auto heard = decode_from_head(R"({"type":"stop","why":"enough","moon_phase":{"full":true}})");
    CHECK(heard.value() == FromHead{Stop{.attempt = {}, .grace_ms = 0, .why = "enough"}});
}

TEST_CASE("a message about arrivals of an agent that knows no ended ranks is read as one without them") {
    const auto arrived = decode_group(R"({"type":"arrived","index":7,"ranks":[3]})");
    REQUIRE(arrived.ok());
    CHECK(*arrived == GroupMessage(GroupArrived{.index = 7, .ranks = {3}}));
}

TEST_CASE("a field of a wrong type is named with its message and its place") {
    CHECK(complaint(R"({"type":"heartbeat","memory_used":"much"})") ==
          "message 'heartbeat': field 'memory_used' is not an integer");
    CHECK(complaint(R"({"type":"register","port":70000})") == "message 'register': field 'port' is out of range");
    CHECK(complaint(R"({"type":"register","port":-1})") == "message 'register': field 'port' is out of range");
    CHECK(complaint(R"({"type":"register","gpus":1.5})") == "message 'register': field 'gpus' is not an integer");
    CHECK(complaint(R"({"type":"register","held":[{"run":1},{"run":"x"}]})") ==
          "message 'register': field 'held[1].run' is not an integer");
    CHECK(complaint(R"({"type":"news","seq":1,"kind":"exited","cause":{"signal":"KILL"}})") ==
          "message 'news': message 'exited': field 'cause.signal' is not an integer");
    CHECK(complaint(R"({"type":"news","seq":1,"kind":"reported","metrics_json":{"zero":"{}"}})") ==
          "message 'news': message 'reported': field 'metrics_json.zero' is not an integer");
    CHECK(complaint(R"({"type":"log","bytes":"a=b="})") == "message 'log': field 'bytes' is not base64");
}

TEST_CASE("what is no message says so") {
    CHECK(complaint("") == "message is not a JSON object (0 bytes)");
    CHECK(complaint("[1]") == "message is not a JSON object (3 bytes)");
    CHECK(complaint(R"({"type":"dance"})") == "unknown message type 'dance'");
    CHECK(complaint(R"({"type":7})") == "message without \"type\"");
    CHECK(complaint(R"({"type":"news","seq":1})") == "message 'news': message without \"kind\"");
    CHECK(decode_news(R"({"type":"hello"})").error().code == ErrorCode::invalid);
    CHECK(complaint(std::string(100'000, '[')).find("not a JSON object") != std::string::npos);
}

TEST_CASE("another node's agent names a checkpoint's directory, and no path") {
    for (const char* type : {"released", "committed"}) {
        const auto decoded = [&](const std::string& name) {
            nlohmann::json message = parse_json(encode(GroupMessage{GroupReleased{.index = 1, .directory = "x"}}));
            if (type == std::string("committed"))
                message = parse_json(encode(GroupMessage{GroupCommitted{.index = 1, .directory = "x"}}));
            message["directory"] = name;
            return decode_group(json_text(message));
        };
        CHECK(decoded("checkpoint_000001-a001").ok());
        CHECK(decoded("").ok());
        CHECK(decoded("epochs/3/ckpt").ok());  // A directory deeper in the run.
        using namespace std::string_literals;
        for (const std::string& name : {"../x"s, "/etc/x"s, "."s, ".."s, "x\0y"s, std::string(300, 'x'), "a/.."s,
                                        "a/../b"s, "a//b"s, "a/"s, "a/b\0c"s, "names/a"s, "attempts/a"s, "x-a001/a"s,
                                        "a/.b"s, "a/b/c/d/e/f/g/h/i"s, "a/" + std::string(199, 'x')})
            CHECK(decoded(name).error().message.find("'directory'") != std::string::npos);
    }
}

TEST_CASE("another node's agent names files of a checkpoint that lie in it, and have a size that files can have") {
    for (const bool uploaded : {false, true}) {
        const auto complaint_about = [&](const StagedFile& file) {
            const GroupMessage message = uploaded ? GroupMessage{GroupUploaded{.index = 1, .files = {file}}}
                                                  : GroupMessage{GroupReport{.index = 1, .files = {file}}};
            const auto decoded = decode_group(encode(message));
            return decoded ? "" : decoded.error().message;
        };
        CHECK(complaint_about({.rank = 1, .path = "tokenizer/vocab.txt", .bytes = 0}) == "");
        using namespace std::string_literals;
        for (const std::string& path : {"../x"s, "a/../../x"s, "/etc/x"s, "a//b"s, "."s, ""s, "x\0y"s})
            CHECK(complaint_about({.rank = 1, .path = path, .bytes = 1}).find("'files'") != std::string::npos);
        CHECK(complaint_about({.rank = 1, .path = "a.pt", .bytes = -1}).find("'files'") != std::string::npos);
    }
}

TEST_CASE("a message that nests without bound is refused before it is parsed, whoever sends it") {
    const std::string deep = std::string(400'000, '[') + std::string(400'000, ']');
    const std::string text = R"({"type":"hello","node":)" + deep + "}";
    CHECK(decode_from_agent(text).error().message.find("more than 200 levels") != std::string::npos);
    CHECK(decode_from_head(text).error().message.find("more than 200 levels") != std::string::npos);
    CHECK(decode_group(text).error().message.find("more than 200 levels") != std::string::npos);
}
