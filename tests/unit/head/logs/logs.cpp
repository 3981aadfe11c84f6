// Logs on the head: every piece ends up where it belongs, once, whatever the connection did in between.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "daemon/head/base/data_files.hpp"
#include "daemon/head/logs/log_lines.hpp"
#include "daemon/head/logs/log_store.hpp"
#include "daemon/head/view/reports.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

LogName name(std::uint32_t rank, const std::string& stream = "out", std::uint32_t attempt = 1) {
    return {.run = RunId{7}, .attempt = attempt, .rank = rank, .stream = stream};
}
LogStore::Piece piece(const LogName& of, std::uint64_t offset, const std::string& bytes, std::int64_t wall_ms = 1'000) {
    return {.name = of, .offset = offset, .bytes = bytes, .last = false, .wall_ms = wall_ms};
}
std::string content(const LogStore& store) { return read_file(store.files(RunId{7}).front().path).value(); }

std::string lines(const LogStore& store, const LogQuestion& question, const std::string& scratch) {
    REQUIRE(write_lines(store.files(RunId{7}), question, scratch).ok());
    return read_file(scratch).value();
}

}  // namespace

TEST_CASE("a repeated piece is written once, an overlapping one only its new part, and a gap not at all") {
    const Folder folder;
    LogStore store(folder.path);
    CHECK(store.take(piece(name(0), 0, "hello ")).value() == 6);
    CHECK(store.take(piece(name(0), 0, "hello ")).value() == 6);
    CHECK(store.take(piece(name(0), 4, "o world")).value() == 11);
    CHECK(store.take(piece(name(0), 500, "from the future")).value() == 11);  // the answer says where to go on
    CHECK(content(store) == "hello world");
}

TEST_CASE("below the reserve no log is taken, until there is a quarter more than it; what is there is answered") {
    const Folder folder;
    std::uint64_t free = 1'000;
    LogStore store(folder.path, 1'000, [&](const std::string&) { return free; });
    CHECK(store.take(piece(name(0), 0, "hello ")).value() == 6);
    free = 999;
    const auto refused = store.take(piece(name(0), 6, "world"));
    CHECK(refused.error().code == ErrorCode::full);
    CHECK(store.take(piece(name(0), 0, "hello ")).value() == 6);
    free = 1'249;
    CHECK_FALSE(store.take(piece(name(0), 6, "world")).ok());
    free = 1'250;
    CHECK(store.take(piece(name(0), 6, "world")).value() == 11);
    CHECK(content(store) == "hello world");
}

TEST_CASE("a file is complete when its last piece came, also when that one was empty or came twice") {
    const Folder folder;
    LogStore store(folder.path);
    store.take(piece(name(0), 0, "done\n")).value();
    CHECK_FALSE(store.files(RunId{7}).front().complete);
    LogStore::Piece last = piece(name(0), 5, "");
    last.last = true;
    CHECK(store.take(last).value() == 5);
    CHECK(store.take(last).value() == 5);
    CHECK(store.files(RunId{7}).front().complete);
    CHECK(LogStore(folder.path).files(RunId{7}).front().complete);  // a restarted head knows it too
}

TEST_CASE("a stream with a name that is no stream is refused before it becomes a path") {
    const Folder folder;
    LogStore store(folder.path);
    CHECK(store.take(piece(name(0, "../../ca.key"), 0, "x")).error().code == ErrorCode::invalid);
    CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("lines of several ranks are merged by the time they came, and a last line without its end is shown") {
    const Folder folder;
    LogStore store(folder.path);
    store.take(piece(name(0), 0, "zero at 1\n", 1'000)).value();
    store.take(piece(name(1), 0, "one at 2\n", 2'000)).value();
    store.take(piece(name(0), 10, "zero at 3", 3'000)).value();
    const std::string all = lines(store, {}, folder.path + "/scratch");
    CHECK(all == R"({"attempt":1,"line":"zero at 1","rank":0,"stream":"out","time":"1970-01-01T00:00:01.000Z"})"
                 "\n"
                 R"({"attempt":1,"line":"one at 2","rank":1,"stream":"out","time":"1970-01-01T00:00:02.000Z"})"
                 "\n"
                 R"({"attempt":1,"line":"zero at 3","rank":0,"stream":"out","time":"1970-01-01T00:00:03.000Z"})"
                 "\n");
    LogQuestion question;
    question.ranks = number_list("0");
    question.tail = 1;
    CHECK(lines(store, question, folder.path + "/scratch").find("zero at 3") != std::string::npos);
    question.tail.reset();
    question.since_wall_ms = 2'500;
    CHECK(lines(store, question, folder.path + "/scratch").find("zero at 1") == std::string::npos);
}

TEST_CASE("bytes that are no text are shown with replacement characters, and nothing of the line is lost") {
    const Folder folder;
    LogStore store(folder.path);
    store.take(piece(name(0), 0, "bad \xff byte\n")).value();
    CHECK(lines(store, {}, folder.path + "/scratch").find("bad \xef\xbf\xbd byte") != std::string::npos);
}

TEST_CASE("ranges take their number of entries, however many numbers lie in them, and those that touch are one") {
    std::string text = "0-100000";
    for (int i = 0; i < 500; ++i) text += "," + std::to_string(i) + "-" + std::to_string(100'000 + i);
    const auto overlapping = number_list(text);
    REQUIRE(overlapping);
    CHECK(overlapping->ranges() == 1);
    CHECK(overlapping->highest() == 100'499);
    CHECK(number_list("4,0-1,2")->ranges() == 2);
    CHECK(number_list("7")->only() == 7);
    CHECK_FALSE(number_list("7,9")->only());
    CHECK(number_list("4294967295")->contains(4'294'967'295));
    CHECK_FALSE(number_list("4294967296"));
    std::string many = "0";
    for (int i = 2; i < 2'002; i += 2) many += "," + std::to_string(i);
    CHECK_FALSE(number_list(many));  // 1001 parts
    CHECK(number_list(many.substr(0, many.rfind(',')))->ranges() == 1'000);
    const Cluster cluster;
    const auto refused = log_question(cluster, RunId{7}, {.rank = many, .attempt = "all"}, 0);
    CHECK(refused.error().message.find("at most 1000 parts") != std::string::npos);
}

TEST_CASE("selectors are read as people write them, and what is not understood is named") {
    const Cluster cluster;
    const auto question_of = [&](const LogWords& words) { return log_question(cluster, RunId{7}, words, 10'000); };
    const auto some = question_of({.rank = "0,3-5", .attempt = "all"}).value().ranks;
    REQUIRE(some);
    CHECK(some->ranges() == 2);
    for (const std::uint32_t rank : {0u, 3u, 4u, 5u}) CHECK(some->contains(rank));
    for (const std::uint32_t rank : {1u, 2u, 6u}) CHECK_FALSE(some->contains(rank));
    CHECK_FALSE(question_of({.rank = "all", .attempt = "all"}).value().attempts.has_value());
    CHECK(question_of({.attempt = "2", .since_ms = "4000"}).value().since_wall_ms == 6'000);
    for (const char* broken : {"x", "3-", "-3", "5-3", "1,,2", "0-4294967295"})
        CHECK(question_of({.rank = broken}).error().message.find(broken) != std::string::npos);
    CHECK(question_of({.stream = "out,both"}).error().code == ErrorCode::usage);
}
