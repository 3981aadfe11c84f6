// The encoding of records and events is exact and deterministic, and accepts data of newer minor versions.
#include "storage/state/journal.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/state_random.hpp"

using namespace rtrain;
using namespace rtrain::state;

namespace {

constexpr int rounds = 300;  // per alternative

template <class Variant, class Decode>
void check_round_trips(Decode decode, std::uint64_t seed) {
    Dice dice{.engine = std::mt19937_64(seed), .with_nan = seed % 2 == 1};
    for (std::size_t alternative = 0; alternative < std::variant_size_v<Variant>; ++alternative)
        for (int round = 0; round < rounds; ++round) {
            auto value = random_value<Variant>(dice, alternative);
            std::string text = encode(value);
            Result<Variant> back = decode(text);
            if (!back) FAIL(back.error().message << "\n" << text);
            if (encode(*back) != text || (!dice.with_nan && !(*back == value)))
                FAIL(text << "\nbecame\n" << encode(*back));
        }
    SUCCEED();
}

}  // namespace

TEST_CASE("every record comes back as it was, whatever bytes and numbers it holds") {
    for (std::uint64_t seed : {1, 2, 3, 4}) check_round_trips<Record>(decode_record, seed);
}

TEST_CASE("every event comes back as it was, whatever bytes and numbers it holds") {
    for (std::uint64_t seed : {1, 2, 3, 4}) check_round_trips<Event>(decode_event, seed);
}

TEST_CASE("a NaN keeps its bits and a zero its sign") {
    Checkpoint checkpoint;
    checkpoint.metrics = {{"nan", std::bit_cast<double>(0xfff8000000001234)}, {"zero", -0.0}};
    Record back = *decode_record(encode(Record{checkpoint}));
    const auto& metrics = std::get<Checkpoint>(back).metrics;
    CHECK(std::bit_cast<std::uint64_t>(metrics.at("nan")) == 0xfff8000000001234);
    CHECK(std::signbit(metrics.at("zero")));
}

TEST_CASE("a record is small readable JSON: defaults are left out") {
    Node node;
    node.id = {"n1"};
    node.address = "10.0.0.1";
    node.gpus = 2;
    CHECK(encode(Record{node}) == R"({"v":1,"type":"Node","id":"n1","address":"10.0.0.1","gpus":2})");
    CHECK(encode(Record{Meta{}}) == R"({"v":1,"type":"Meta"})");
    CHECK(encode(Event{TimePassed{}}) == R"({"v":1,"type":"TimePassed"})");
    CHECK(event_kind(Event{NodeLost{{"n1"}, "silent"}}) == "NodeLost");
}

TEST_CASE("fields of a newer minor version are passed over; a newer version and an unknown kind are named") {
    Result<Record> newer_minor = decode_record(R"({"v":1,"type":"Node","id":"n1","rack":"r7"})");
    REQUIRE(newer_minor.ok());
    CHECK(std::get<Node>(*newer_minor).id.value == "n1");
    CHECK(decode_record(R"({"v":2,"type":"Node"})").error().code == ErrorCode::conflict);
    CHECK(decode_record(R"({"v":1,"type":"Sweep"})").error().code == ErrorCode::conflict);
    const Error newer_reason = decode_record(R"({"v":1,"type":"Run","reason":{"kind":"moon_phase"}})").error();
    // Not reported as damage, since restoring a backup would lose data.
    CHECK(newer_reason.code == ErrorCode::conflict);
    CHECK(newer_reason.message.find("a reason of the kind \"moon_phase\"") != std::string::npos);
}

TEST_CASE("text that is not a record is damage, with the field's path") {
    for (const char* text :
         {"", "{", "[]", "null", R"({"v":1})", R"({"v":"1","type":"Node"})", R"({"v":1,"type":"Node","gpus":-1})",
          R"({"v":1,"type":"Node","gpus":4294967296})", R"({"v":1,"type":"Node","gpus":1.5})",
          R"({"v":1,"type":"Node","state":"GONE"})", R"({"v":1,"type":"Node","id":7})"}) {
        CAPTURE(text);
        CHECK(decode_record(text).error().code == ErrorCode::damaged);
    }
    Error wrong = decode_record(R"({"v":1,"type":"Run","spec":{"gang":{"bundles":[{"demand":{"CPU":"x"}}]}}})").error();
    CHECK(wrong.message.find("spec: gang: bundles: demand") != std::string::npos);
}

TEST_CASE("members that have another name in the code than on disk are read by the name on disk") {
    const auto attempt = std::get<Attempt>(
        *decode_record(R"({"v":1,"type":"Attempt","ask":{"reason":"preemption","room_for":16,"asked":5}})"));
    REQUIRE(attempt.request.has_value());
    CHECK(attempt.request->preemptor == RunId{16});
    CHECK(std::get<Run>(*decode_record(R"({"v":1,"type":"Run","gave_way":250})")).without_seats.ms == 250);
}
