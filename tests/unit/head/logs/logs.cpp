// Logs on the head: every piece ends up where it belongs, once, whatever the connection did in between.
#include <malloc.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/logs/log_answers.hpp"
#include "daemon/head/logs/log_merge.hpp"
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

// Returns the whole text of a merge.
std::string text_of_all(LogMerge merge) {
    std::string out;
    for (bool last = false; !last;) {
        const net::MadePiece piece = merge.next().value();
        out += piece.bytes;
        last = piece.last;
    }
    return out;
}
std::string lines(const LogStore& store, const LogQuestion& question) {
    return text_of_all(LogMerge(store.files(RunId{7}), question, Unfinished::take));
}
// Returns the `line` of each.
std::vector<std::string> texts(const std::string& all) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < all.size(); at = all.find('\n', at) + 1)
        out.push_back(parse_json(all.substr(at, all.find('\n', at) - at)).at("line"));
    return out;
}
LogQuestion tail_of(std::size_t count) {
    LogQuestion out;
    out.tail = count;
    return out;
}

}  // namespace

TEST_CASE("a repeated piece is written once, an overlapping one only its new part, and a gap not at all") {
    const Folder folder;
    LogStore store(folder.path);
    CHECK(store.take(piece(name(0), 0, "hello ")).value() == 6);
    CHECK(store.take(piece(name(0), 0, "hello ")).value() == 6);
    CHECK(store.take(piece(name(0), 4, "o world")).value() == 11);
    CHECK(store.take(piece(name(0), 500, "from the future")).value() == 11);  // the answer is where to continue
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
    CHECK(LogStore(folder.path).files(RunId{7}).front().complete);  // a restarted head has it too
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
    const std::string all = lines(store, {});
    CHECK(all == R"({"attempt":1,"line":"zero at 1","rank":0,"stream":"out","time":"1970-01-01T00:00:01.000Z"})"
                 "\n"
                 R"({"attempt":1,"line":"one at 2","rank":1,"stream":"out","time":"1970-01-01T00:00:02.000Z"})"
                 "\n"
                 R"({"attempt":1,"line":"zero at 3","rank":0,"stream":"out","time":"1970-01-01T00:00:03.000Z"})"
                 "\n");
    LogQuestion question;
    question.ranks = number_list("0");
    question.tail = 1;
    CHECK(lines(store, question).find("zero at 3") != std::string::npos);
    question.tail.reset();
    question.since_wall_ms = 2'500;
    CHECK(lines(store, question).find("zero at 1") == std::string::npos);
}

TEST_CASE("bytes that are no text are shown with replacement characters, and nothing of the line is lost") {
    const Folder folder;
    LogStore store(folder.path);
    store.take(piece(name(0), 0, "bad \xff byte\n")).value();
    CHECK(lines(store, {}).find("bad \xef\xbf\xbd byte") != std::string::npos);
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

TEST_CASE("the last lines are those of all files together, however long they are and wherever blocks of reading end") {
    const Folder folder;
    LogStore store(folder.path);
    std::string zero, one;
    std::vector<std::string> in_order;
    for (int i = 0; i < 3'000; ++i) {  // more than a block
        in_order.push_back(std::string(static_cast<std::size_t>(i % 300), 'a') + std::to_string(i));
        const std::uint32_t rank = i % 3 == 0 ? 1 : 0;
        std::string& file = rank == 1 ? one : zero;
        store.take(piece(name(rank), file.size(), in_order.back() + "\n", i)).value();
        file += in_order.back() + "\n";
    }
    CHECK(texts(lines(store, {})) == in_order);
    for (const std::size_t count : {0u, 1u, 2u, 999u, 2'999u, 3'000u, 5'000u}) {
        const std::size_t kept = std::min<std::size_t>(count, in_order.size());
        const std::vector<std::string> last(in_order.end() - static_cast<std::ptrdiff_t>(kept), in_order.end());
        CHECK(texts(lines(store, tail_of(count))) == last);
    }
    LogQuestion recent = tail_of(500);
    recent.since_wall_ms = 2'900;
    CHECK(texts(lines(store, recent)).size() == 100);
}

TEST_CASE("empty lines are lines, and a line that is too long is cut into several, which count as such") {
    const Folder folder;
    LogStore store(folder.path);
    const std::size_t most = 64 << 10;
    store.take(piece(name(0), 0, "\n\n" + std::string(2 * most + 5, 'x') + "\n" + std::string(most, 'y') + "\nz"))
        .value();
    const std::vector<std::string> all = {
        "", "", std::string(most, 'x'), std::string(most, 'x'), "xxxxx", std::string(most, 'y'), "z"};
    CHECK(texts(lines(store, {})) == all);
    for (std::size_t count = 0; count <= all.size(); ++count)
        CHECK(texts(lines(store, tail_of(count))) ==
              std::vector<std::string>(all.end() - static_cast<std::ptrdiff_t>(count), all.end()));
}

TEST_CASE("a log with many thousand pieces tells when each of its bytes came, in any order of asking") {
    const Folder folder;
    LogStore store(folder.path);
    constexpr std::uint64_t pieces = 2'000;
    for (std::uint64_t i = 0; i < pieces; ++i)
        store.take(piece(name(0), i * 4, "abc\n", static_cast<std::int64_t>(i))).value();
    LogTimes times(store.files(RunId{7}).front().path);
    for (std::uint64_t i = 0; i < pieces; ++i) REQUIRE(times.at(i * 4 + 3) == static_cast<std::int64_t>(i));
    for (std::uint64_t i = 0; i < pieces; ++i)
        REQUIRE(times.at(i * 7'919 % pieces * 4) == static_cast<std::int64_t>(i * 7'919 % pieces));
    CHECK(times.at(1'000'000) == static_cast<std::int64_t>(pieces) - 1);
}

TEST_CASE("a merge ends where it began to read, and tells where: a line that has no end yet comes later, whole") {
    const Folder folder;
    LogStore store(folder.path);
    store.take(piece(name(0), 0, "one\ntw")).value();
    store.take(piece(name(1), 0, "no end")).value();
    LogStore::Piece whole = piece(name(2), 0, "the end");
    whole.last = true;
    store.take(whole).value();
    LogMerge merge(store.files(RunId{7}), {}, Unfinished::wait);
    store.take(piece(name(0), 6, "o\nthree\n")).value();
    const LogPosition end = merge.end();
    CHECK(end == LogPosition{{name(0), 4}, {name(1), 0}, {name(2), 7}});
    CHECK(texts(text_of_all(std::move(merge))) == std::vector<std::string>{"one", "the end"});
}

TEST_CASE("a merge of many files with long lines needs little memory, which it tells before it begins") {
    const Folder folder;
    LogStore store(folder.path);
    constexpr std::uint32_t ranks = 600;
    const std::string line(30'000, 'x');
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        for (std::uint64_t at = 0; at < 2; ++at)
            store.take(piece(name(rank), at * (line.size() + 1), line + "\n", static_cast<std::int64_t>(at))).value();
    LogMerge merge(store.files(RunId{7}), {}, Unfinished::take);
    CHECK(merge.memory() < 8u << 20);  // 600 lines are 18 MB
    const std::size_t before = mallinfo2().uordblks;
    std::size_t peak = 0, bytes = 0;
    for (bool last = false; !last;) {
        const auto made = merge.next();
        REQUIRE(made);
        peak = std::max(peak, mallinfo2().uordblks - std::min(before, mallinfo2().uordblks));
        bytes += made->bytes.size();
        last = made->last;
    }
    CHECK(peak < merge.memory());
    CHECK(bytes > 2 * ranks * line.size());
}

TEST_CASE("a file that was removed has no more lines; one that cannot be read, or its index, breaks the answer off") {
    const Folder folder;
    LogStore store(folder.path);
    for (const std::uint32_t rank : {0u, 1u}) store.take(piece(name(rank), 0, "a line\n")).value();
    const auto files = store.files(RunId{7});
    const auto merge_after = [&](const std::string& removed, std::optional<std::size_t> tail, bool unreadable) {
        LogQuestion question;
        question.tail = tail;
        LogMerge merge(files, question, Unfinished::take);
        std::filesystem::rename(removed, folder.path + "/aside");
        if (unreadable) std::filesystem::create_symlink(removed, removed);  // ELOOP
        std::string out;
        while (true) {
            const auto made = merge.next();
            if (made) out += made->bytes;
            if (!made) out = "broken off";
            if (!made || made->last) break;
        }
        std::filesystem::remove(removed);
        std::filesystem::rename(folder.path + "/aside", removed);
        return out;
    };
    const std::string path = files.front().path;
    for (const auto tail : {std::optional<std::size_t>(), std::optional<std::size_t>(1)}) {
        CHECK(texts(merge_after(path, tail, false)) == std::vector<std::string>{"a line"});
        CHECK(merge_after(path, tail, true) == "broken off");
        CHECK(merge_after(path + ".times", tail, true) == "broken off");
    }
    std::filesystem::rename(path, folder.path + "/aside");
    std::filesystem::create_symlink(path, path);
    CHECK_FALSE(LogMerge(files, {}, Unfinished::wait).next().has_value());  // the end of its last line is unknown
}

TEST_CASE("an index that is cut while it is read tells no time, and does no harm") {
    const Folder folder;
    LogStore store(folder.path);
    store.take(piece(name(0), 0, "a line\n")).value();
    const std::string path = store.files(RunId{7}).front().path;
    LogTimes times(path);
    CHECK(times.at(0) == 1'000);
    std::filesystem::resize_file(path + ".times", 0);
    LogTimes cut(path);
    CHECK(cut.at(0) == 0);
    CHECK_FALSE(cut.failed());
    std::filesystem::remove(path + ".times");
    CHECK(LogTimes(path).at(0) == 0);
    std::filesystem::create_directory(path + ".times");  // it has a size, but cannot be read
    LogTimes unreadable(path);
    CHECK(unreadable.at(0) == 0);
    CHECK(unreadable.failed());
}

TEST_CASE("a position is a text and back; what is none, or another run's, is not read") {
    const LogPosition position = {{name(0, "out", 1), 5},   {name(0, "err", 2), 1ull << 40},    {name(3, "out", 2), 7},
                                  {name(3, "setup", 2), 1}, {name(4'000'000'000, "out", 2), 9}, {name(1, "out", 9), 2}};
    const std::string text = position_text(RunId{7}, position);
    CHECK(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
          std::string::npos);
    CHECK(position_of(text, RunId{7}) == position);
    CHECK(position_of(text, RunId{8}) == std::nullopt);
    CHECK(position_of(position_text(RunId{7}, {}), RunId{7}) == LogPosition{});
    for (const std::string& broken :
         {std::string(), std::string("!"), std::string("____________"), std::string("AQ=="), std::string(1'000, '_')})
        CHECK(position_of(broken, RunId{7}) == std::nullopt);
    std::size_t read = 0;  // a cut text is invalid, or that of fewer files
    for (std::size_t size = 1; size < text.size(); ++size)
        if (const auto part = position_of(text.substr(0, size), RunId{7})) {
            ++read;
            CHECK(part->size() < position.size());
        }
    CHECK(read >= position.size() - 1);
    LogPosition many;
    for (std::uint32_t rank = 0; rank < 20'000; ++rank) many[name(rank)] = 1u << 30;
    CHECK(position_text(RunId{7}, many).empty());
}

TEST_CASE("so many answers with logs are under way for a user, and in all; each end makes room for another") {
    LogAnswers answers;
    using Who = LogAnswers::Who;
    std::vector<LogAnswers::Place> places;
    for (std::size_t i = 0; i < LogAnswers::of_user_most; ++i) places.push_back(answers.enter("ana", Who::user));
    CHECK(std::count(places.begin(), places.end(), nullptr) == 0);
    CHECK(answers.enter("ana", Who::user) == nullptr);
    CHECK(answers.enter("ana", Who::admin) == nullptr);
    for (std::size_t i = 0; places.size() < LogAnswers::all_most - LogAnswers::for_admins; ++i)
        places.push_back(answers.enter("user " + std::to_string(i), Who::user));
    CHECK(std::count(places.begin(), places.end(), nullptr) == 0);
    CHECK(answers.enter("zoe", Who::user) == nullptr);
    CHECK(answers.enter("root", Who::admin) != nullptr);  // its place is free again at once
    places.erase(places.begin());
    CHECK(answers.enter("zoe", Who::user) != nullptr);
    CHECK(answers.enter("ana", Who::user) == nullptr);  // a user with another answer
}

TEST_CASE("some users whose readers are slow keep neither other users out nor admins") {
    LogAnswers answers;
    using Who = LogAnswers::Who;
    std::vector<LogAnswers::Place> places;
    for (const std::string user : {"ana", "bob", "cat", "dan", "eve"})
        for (std::size_t i = 0; i < LogAnswers::of_user_most; ++i)
            if (auto place = answers.enter(user, Who::user)) places.push_back(std::move(place));
    for (const std::string user : {"fay", "gus"}) {
        places.push_back(answers.enter(user, Who::user));
        CHECK(places.back() != nullptr);
    }
    for (std::size_t i = 0; i < LogAnswers::for_admins; ++i) {
        places.push_back(answers.enter("root", Who::admin));
        CHECK(places.back() != nullptr);
    }
}

TEST_CASE("answers together need so much memory at most, which is kept for some as places are") {
    LogAnswers answers;
    using Who = LogAnswers::Who;
    constexpr std::size_t mib = 1u << 20;
    const auto ana = answers.enter("ana", Who::user), ana_too = answers.enter("ana", Who::user);
    CHECK_FALSE(ana->hold(LogAnswers::memory_of_user_most + 1));
    CHECK(ana->hold(LogAnswers::memory_of_user_most - mib));
    CHECK_FALSE(ana_too->hold(2 * mib));
    CHECK(ana_too->hold(mib));
    const auto bob = answers.enter("bob", Who::user), bob_too = answers.enter("bob", Who::user);
    CHECK(bob->hold(60 * mib));
    CHECK_FALSE(bob_too->hold(5 * mib));  // 160 MiB are for users with another answer
    auto zoe = answers.enter("zoe", Who::user);
    CHECK_FALSE(zoe->hold(69 * mib));
    CHECK(zoe->hold(68 * mib));
    CHECK_FALSE(answers.enter("zac", Who::user)->hold(mib));
    CHECK(answers.enter("root", Who::admin)->hold(32 * mib));
    zoe.reset();
    CHECK(answers.enter("zac", Who::user)->hold(68 * mib));
}
