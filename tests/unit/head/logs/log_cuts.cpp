// Logs whose middle was removed: on their node, or on the head because their user exceeded the share.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/head/logs/log_lines.hpp"
#include "daemon/head/logs/log_merge.hpp"
#include "daemon/head/logs/log_store.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

using Texts = std::vector<std::string>;

LogStore::Piece piece_of(std::uint64_t run, std::uint64_t offset, const std::string& bytes,
                         const std::string& user = {}) {
    return {.name = {.run = RunId{run}, .attempt = 1, .rank = 0, .stream = "out"},
            .offset = offset,
            .bytes = bytes,
            .wall_ms = 1'000,
            .user = user};
}
LogStore::Piece lost_of(std::uint64_t offset, std::uint64_t bytes) {
    LogStore::Piece piece = piece_of(7, offset, "");
    piece.lost = bytes;
    return piece;
}

// Returns the lines of a merge; with `tail` only the last ones.
Texts shown(const LogStore& store, std::uint64_t run, std::optional<std::size_t> tail = {}) {
    LogQuestion question;
    question.tail = tail;
    LogMerge merge(store.files(RunId{run}), question, Unfinished::take);
    std::string all;
    for (bool last = false; !last;) {
        const net::MadePiece piece = merge.next().value();
        all += piece.bytes;
        last = piece.last;
    }
    Texts out;
    for (std::size_t at = 0; at < all.size(); at = all.find('\n', at) + 1)
        out.push_back(parse_json(all.substr(at, all.find('\n', at) - at)).at("line"));
    return out;
}
// Returns the lines of a follower that has read up to `offset`.
Texts followed(const LogStore& store, std::uint64_t offset) {
    Texts out;
    const std::string path = store.files(RunId{7}).front().path;
    for (std::vector<ReadLine> lines; !(lines = read_lines(path, offset, 1 << 16, Unfinished::take)).empty();)
        for (const ReadLine& line : lines) out.push_back(line.text);
    return out;
}
std::string note(std::uint64_t bytes) { return storage::cut_note({0, bytes}); }

std::uint64_t disk_bytes(const std::string& path) {
    struct stat facts{};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    return static_cast<std::uint64_t>(facts.st_blocks) * 512;
}

}  // namespace

TEST_CASE("what a node has lost of a log is a note for readers, and the rest keeps its offsets") {
    const Folder folder;
    LogStore store(folder.path);
    CHECK(store.take(piece_of(7, 0, "first\n")).value() == 6);
    CHECK(store.take(lost_of(500, 1'000)).value() == 6);  // after a gap: the answer is where to continue
    CHECK(store.take(lost_of(6, 1'000'000)).value() == 1'000'006);
    CHECK(store.take(lost_of(6, 1'000'000)).value() == 1'000'006);
    CHECK(store.take(lost_of(2, 4)).value() == 1'000'006);  // it is stored already
    CHECK(shown(store, 7) == Texts{"first", note(1'000'000)});
    CHECK(store.take(piece_of(7, 1'000'006, "after\nlast\n")).value() == 1'000'017);
    const LogFile file = store.files(RunId{7}).front();
    CHECK(file.bytes == 1'000'017);
    CHECK(disk_bytes(file.path) < 100'000);
    CHECK(shown(store, 7) == Texts{"first", note(1'000'000), "after", "last"});
    CHECK(followed(store, 0) == Texts{"first", note(1'000'000), "after", "last"});
    CHECK(followed(store, 400'006) == Texts{note(600'000), "after", "last"});  // a reader that has read some of it
    CHECK(followed(store, 1'000'012) == Texts{"last"});
    CHECK(store.take(lost_of(1'000'017, std::uint64_t{1} << 60)).error().code == ErrorCode::invalid);
}

TEST_CASE("the last lines of a log with many cuts are those of all its lines") {
    const Folder folder;
    LogStore store(folder.path);
    std::uint64_t at = 0;
    Texts all;
    for (std::size_t i = 0; i < 30; ++i) {
        for (std::size_t line = 0; line < i % 4; ++line) {
            const std::string text = line == 1 ? "" : std::string(1 + 700 * i, static_cast<char>('a' + i % 26));
            at = store.take(piece_of(7, at, text + "\n")).value();
            all.push_back(text);
        }
        if (i % 5 == 0) {  // a line that the cut breaks
            at = store.take(piece_of(7, at, "broken")).value();
            all.emplace_back("broken");
        }
        at = store.take(lost_of(at, 5'000 + i)).value();
        if (i % 4 == 0 && i % 5 != 0) {
            all.back() = note(5'000 + i - 1 + 5'000 + i);  // it is adjacent to the one before
        } else {
            all.push_back(note(5'000 + i));
        }
    }
    REQUIRE(shown(store, 7) == all);
    CHECK(followed(store, 0) == all);
    for (std::size_t count = 0; count <= all.size(); ++count)
        CHECK(shown(store, 7, count) == Texts(all.end() - static_cast<std::ptrdiff_t>(count), all.end()));
}

TEST_CASE("a user with more logs than the share loses the middle of the largest ones, and nobody else's are touched") {
    const Folder folder;
    constexpr std::uint64_t share = 400'000;
    const auto roomy = [](const std::string&) { return ~std::uint64_t{0}; };
    std::optional<LogStore> store;
    const auto start = [&] { store.emplace(folder.path, 0, roomy, [](const std::string&) { return share; }); };
    start();
    std::string ben;
    for (int i = 0; i < 500; ++i) ben += "ben's line " + std::to_string(i) + "\n";
    store->take(piece_of(9, 0, ben, "ben")).value();
    store->take(piece_of(8, 0, "short\n", "ana")).value();
    std::uint64_t at = 0;
    for (int i = 0; i < 20'000; ++i) {
        at = store->take(piece_of(7, at, "a line of ana's that is long enough, " + std::to_string(i) + "\n", "ana"))
                 .value();
        if (i == 10'000) start();  // the next head finds their owners
    }
    const LogFile flood = store->files(RunId{7}).front();
    CHECK(flood.bytes == at);
    CHECK(disk_bytes(flood.path) + std::filesystem::file_size(flood.path + ".times") < share + 100'000);
    const Texts kept = shown(*store, 7);
    CHECK(kept.front() == "a line of ana's that is long enough, 0");
    CHECK(kept.back() == "a line of ana's that is long enough, 19999");
    CHECK(std::count_if(kept.begin(), kept.end(),
                        [](const std::string& line) { return line.starts_with("rtrain: "); }) == 1);
    CHECK(std::all_of(kept.begin(), kept.end(), [](const std::string& line) {
        return line.starts_with("a line of") || line.starts_with("rtr");
    }));
    CHECK(LogTimes(flood.path).at(flood.cuts.front().end) == 1'000);
    CHECK(shown(*store, 8) == Texts{"short"});
    CHECK(shown(*store, 9).size() == 500);
    store->forget(RunId{7});
    CHECK(store->files(RunId{7}).empty());
}
