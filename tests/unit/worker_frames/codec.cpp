// The messages on the worker's socket. Decoding returns the encoded message, and errors name the faults of broken
// messages.
#include <string>
#include <vector>

#include "base/base64.hpp"
#include "base/json_depth.hpp"
#include "runtime/worker/frames/bounds.hpp"
#include "runtime/worker/frames/frames.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::worker;

namespace {

std::string body_of(const std::string& frame) {
    FrameReader reader;
    reader.add(frame);
    return reader.next().value().value();
}

std::string framed(const std::string& body) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(body.size() >> shift & 0xff));
    return out + body;
}

std::string why(const std::string& body) {
    const auto answer = decode_from_worker(body);
    return answer.ok() ? "understood" : answer.error().message;
}

}  // namespace

TEST_CASE("everything a worker says is heard by the agent as it was said") {
    const std::vector<FromWorker> messages = {
        Hello{.attempt = "ab12cd-7-a3", .rank = 5, .pid = 4711, .key = "k", .next_index = 9, .uncommitted = {6, 8}},
        Stage{},
        Report{.index = 1, .metrics_json = R"({"loss":0.5,"note":"ü"})"},
        Report{.index = 2,
               .checkpoint = StagedFiles{.path = "/runs/a/.staging/1", .directory_name = "best"},
               .upload = Upload::sync},
        Report{.index = 3, .checkpoint_error = "no space left on /runs"},
        Broadcast{.index = 3, .data = std::string("\0\xff bytes", 8)},
        Broadcast{.index = 4},
        Heartbeat{.silent_ms = 1'500, .cpu_ms = 42},
        Heartbeat{.silent_ms = 1,
                  .cpu_ms = 2,
                  .data_wait_ms = 3,
                  .barrier_wait_ms = 4,
                  .barrier_waits = 5,
                  .checkpoint_wait_ms = 6},
        Fail{"Traceback:\n  ValueError"},
        Hello{.attempt = "ab12cd-7-a3", .report_memory = true},
        ReportMemoryTaken{},
        Hello{.attempt = "ab12cd-7-a3", .place = Place::wanted},
        Hello{.attempt = "ab12cd-7-a3", .place = Place::not_wanted},
        Release{},
        ReportsPosted{}};
    for (const FromWorker& one : messages) CHECK(decode_from_worker(body_of(encode(one))).value() == one);
}

TEST_CASE("everything an agent says is heard by the worker as it was said") {
    const std::vector<FromAgent> messages = {
        Welcome{.context_json = R"({"world_size":2})",
                .checkpoint =
                    ResumeFrom{.path = "/c", .directory = "checkpoint_000002-a001", .metrics_json = R"({"epoch":2})"}},
        Welcome{.holder = 4711},
        Welcome{.holder = -1},
        Welcome{.next_index = 9, .next_broadcast = 4},
        Welcome{},
        Refuse{"wrong key"},
        Staged{"/runs/a/.staging/2"},
        Reported{.index = 7},
        Reported{.index = 8, .directory = "checkpoint_000003-a001"},
        Committed{.index = 8, .directory = "checkpoint_000003-a001", .path = "/c"},
        Committed{.index = 9, .error = "no space left on /runs"},
        Broadcast{.index = 2, .data = ""},
        Wanted{Wish::stop},
        Wanted{.what = Wish::checkpoint, .reason = "resize", .deadline_wall_ms = 17, .workers = 4},
        ReportMemoryOffer{3}};
    for (const FromAgent& one : messages) CHECK(decode_from_agent(body_of(encode(one))).value() == one);
}

TEST_CASE("frames that arrive byte by byte, or many at once, come out whole and in order") {
    const std::string stream = encode(FromWorker{Heartbeat{.silent_ms = 1, .cpu_ms = 1}}) + encode(FromWorker{Stage{}});
    FrameReader slow;
    std::vector<FromWorker> heard;
    for (const char byte : stream) {
        slow.add({&byte, 1});
        if (auto body = slow.next().value()) heard.push_back(decode_from_worker(*body).value());
    }
    CHECK(heard == std::vector<FromWorker>{Heartbeat{.silent_ms = 1, .cpu_ms = 1}, Stage{}});

    FrameReader quick;
    quick.add(stream);
    CHECK(quick.next().value().has_value());
    CHECK(quick.next().value().has_value());
    CHECK_FALSE(quick.next().value().has_value());
}

TEST_CASE("a length beyond the limit ends the stream at once, before a byte of it is kept") {
    FrameReader reader;
    reader.add(std::string("GET / HTTP/1.1\r\n"));
    CHECK(reader.next().error().code == ErrorCode::invalid);
}

TEST_CASE("what is broken is refused with the field's name") {
    CHECK(why("[1]").find("not a JSON object") != std::string::npos);
    CHECK(why("{\"type\":\"repo").find("not a JSON object") != std::string::npos);
    CHECK(why(R"({"type":"dance"})").find("unknown type 'dance'") != std::string::npos);
    CHECK(why(R"({"type":"pulse","silent_ms":-1,"cpu_ms":0})").find("'silent_ms'") != std::string::npos);
    CHECK(why(R"({"type":"report","index":0,"metrics":{},"upload":"none"})").find("'index'") != std::string::npos);
    CHECK(why(R"({"type":"report","index":1.5,"metrics":{},"upload":"none"})").find("'index'") != std::string::npos);
    CHECK(why(R"({"type":"report","index":1,"metrics":[],"upload":"none"})").find("'metrics'") != std::string::npos);
    CHECK(why(R"({"type":"report","index":1,"metrics":{},"upload":"later"})").find("'upload'") != std::string::npos);
    CHECK(why(R"({"type":"report","index":1,"metrics":{},"upload":"none","checkpoint":{"path":3}})").find("'path'") !=
          std::string::npos);
    CHECK(why(R"({"type":"broadcast","index":1,"data":"a=b="})").find("'data'") != std::string::npos);
    CHECK(decode_from_agent(R"({"type":"wanted","what":3})").error().message.find("'what'") != std::string::npos);
}

TEST_CASE("a field of a later version does not disturb this one") {
    const auto answer = decode_from_worker(R"({"type":"pulse","silent_ms":3,"cpu_ms":4,"gpu_ms":5})");
    CHECK(answer.value() == FromWorker{Heartbeat{.silent_ms = 3, .cpu_ms = 4}});
}

TEST_CASE("text that is not UTF-8 is shown with replacement characters, not lost with its frame") {
    const auto heard = decode_from_worker(body_of(encode(FromWorker{Fail{"bad \xff byte"}}))).value();
    CHECK(std::get<Fail>(heard).text == "bad \xef\xbf\xbd byte");
    FrameReader reader;
    reader.add(framed("{\"type\":\"fail\",\"text\":\"\xff\"}"));
    CHECK_FALSE(decode_from_worker(reader.next().value().value()).ok());
}

TEST_CASE("base64 gives every length of bytes back, and refuses what is not base64") {
    std::string bytes;
    for (int size = 0; size < 70; ++size) {
        CHECK(storage::base64_decode(storage::base64_encode(bytes)) == bytes);
        bytes.push_back(static_cast<char>(size * 37));
    }
    CHECK(storage::base64_encode("Man") == "TWFu");
    CHECK(storage::base64_encode("Ma") == "TWE=");
    for (const char* broken : {"abc", "ab!=", "====", "a===", "ab=c"})
        CHECK_FALSE(storage::base64_decode(broken).has_value());
}

TEST_CASE("the usual report and its answer are read as any other spelling of them is") {
    const std::string usual =
        R"({"type":"report","index":12,"checkpoint":null,"upload":"default","metrics":{"a":[1,{}]}})";
    const std::string spelled = R"({ "metrics": {"a":[1,{}]}, "index": 12, "type": "report", "upload": "default" })";
    CHECK(decode_from_worker(usual).value() == decode_from_worker(spelled).value());
    CHECK(std::get<Report>(decode_from_worker(usual).value()).metrics_json == R"({"a":[1,{}]})");
    CHECK(body_of(encode(FromAgent{Reported{.index = 12}})) == R"({"type":"reported","index":12,"directory":null})");
    CHECK(decode_from_agent(R"({"index":12,"type":"reported"})").value() == FromAgent{Reported{.index = 12}});

    const std::string head = R"({"type":"report","index":)",
                      middle = R"(,"checkpoint":null,"upload":"default","metrics":)";
    const auto metrics_of = [&](const std::string& rest) {
        return std::get<Report>(decode_from_worker(head + "3" + middle + rest).value()).metrics_json;
    };
    CHECK(metrics_of(R"({"a":1},"later":{}})") == R"({"a":1})");
    CHECK(why(head + "0" + middle + "{}}") == why(head + "0" + middle + "{} }"));
    for (const std::string wrong : {"03", "-1", "1.5", "99999999999999999999", ""}) {
        CAPTURE(wrong);
        CHECK_FALSE(decode_from_worker(head + wrong + middle + "{}}").ok());
    }
    const std::string no_text = std::string(R"({"a":")") + "\xff" + R"("}})";
    for (const std::string& wrong :
         {std::string("{}"), std::string("{]}}"), no_text, std::string("[]}"), std::string("{{}}")}) {
        CAPTURE(wrong);
        CHECK_FALSE(decode_from_worker(head + "3" + middle + wrong).ok());
    }
}

TEST_CASE("what an agent would hand on is bounded, so that no worker's words are too long for the head") {
    const std::string big(std::size_t{2} << 20, 'x');
    const auto report = [&](const Report& one) { return why(body_of(encode(FromWorker{one}))); };
    CHECK(report({.index = 1, .metrics_json = R"({"a":")" + big + "\"}"}).find("'metrics'") != std::string::npos);
    CHECK(report({.index = 1, .metrics_json = R"({"a":")" + big + "\"}", .upload = Upload::sync}).find("'metrics'") !=
          std::string::npos);
    CHECK(report({.index = 1, .checkpoint = StagedFiles{.path = big}}).find("'path'") != std::string::npos);
    CHECK(report({.index = 1, .checkpoint = StagedFiles{.directory_name = big}}).find("'directory_name'") !=
          std::string::npos);
    for (const std::uint64_t index : {index_max + 1, ~std::uint64_t{0}}) {
        CHECK(report({.index = index}).find("'index'") != std::string::npos);
        CHECK(report({.index = index, .upload = Upload::sync}).find("'index'") != std::string::npos);
        CHECK(why(body_of(encode(FromWorker{Hello{.next_index = index}}))).find("'next_index'") != std::string::npos);
    }
    CHECK(report({.index = index_max}) == "understood");
    const auto cause = decode_from_worker(body_of(encode(FromWorker{Fail{big}}))).value();
    CHECK(std::get<Fail>(cause).text.size() == std::size_t{256} << 10);
    const auto refused = decode_from_worker(body_of(encode(FromWorker{Report{.index = 1, .checkpoint_error = big}})));
    CHECK(std::get<Report>(refused.value()).checkpoint_error.size() == std::size_t{16} << 10);
}

TEST_CASE("the worker reads metrics as deep as a manifest may hold them") {
    const std::size_t levels = storage::json_levels_most - 1;  // one level is the object of all metrics
    const std::string metrics = R"({"a":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
    const Welcome welcome{.checkpoint = ResumeFrom{.path = "/c", .directory = "d", .metrics_json = metrics}};
    const auto read = decode_from_agent(body_of(encode(FromAgent{welcome})));
    REQUIRE(read);
    CHECK(std::get<Welcome>(*read) == welcome);
}

TEST_CASE("a frame that nests without bound, or is made of very many values, is refused before it is parsed") {
    const auto report = [](const std::string& metrics) {
        return R"({"type":"report","index":1,"metrics":{"a":)" + metrics + R"(},"upload":"none"})";
    };
    const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
    CHECK(why(report(nested(metrics_levels_max))) == "understood");
    CHECK(why(report(nested(frame_levels_max))).find("more than 128 levels") != std::string::npos);
    CHECK(why(report(nested(400'000))).find("more than 128 levels") != std::string::npos);
    CHECK(why(report(std::string(400'000, '['))).find("more than 128 levels") != std::string::npos);
    CHECK(why(R"({"type":"hello","x":)" + nested(400'000) + "}").find("more than 128 levels") != std::string::npos);
    const std::string usual = R"({"type":"report","index":1,"checkpoint":null,"upload":"default","metrics":{"a":)";
    CHECK(why(usual + nested(400'000) + "}}").find("more than 128 levels") != std::string::npos);
    std::string many = "[0";
    for (std::size_t i = 0; i < frame_values_max; ++i) many += ",0";
    CHECK(why(report(many + "]")).find("262144 values") != std::string::npos);
    // Brackets inside a text are no structure.
    CHECK(why(report("\"" + std::string(400'000, '[') + "\\\",,,\"")) == "understood");
}
