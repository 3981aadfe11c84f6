// A checkpoint is copied completely: files with sizes around the piece of a thread, their permissions, and errors.
#include "runtime/worker/copying.hpp"

#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/worker/staging.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain::worker;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t piece = std::size_t{4} << 20;

// Two empty directories, `from` and `to`. The destructor removes them.
struct Folder {
    fs::path below;
    Folder() {
        std::string pattern = (fs::temp_directory_path() / "rtrain-copying-XXXXXX").string();
        below = ::mkdtemp(pattern.data());
        fs::create_directory(from());
        fs::create_directory(to());
    }
    ~Folder() { fs::remove_all(below); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path from() const { return below / "from"; }
    fs::path to() const { return below / "to"; }
};

// Bytes that differ from place to place, so that a piece in the wrong place is seen.
std::string bytes(std::size_t size, unsigned seed) {
    std::string out(size, '\0');
    std::uint64_t state = seed + 1;
    for (char& one : out) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        one = static_cast<char>(state >> 56);
    }
    return out;
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("files of every size arrive whole, with their modes, in their folders") {
    const Folder folder;
    fs::create_directories(folder.from() / "deep" / "deeper");
    const std::vector<std::size_t> sizes{0, 1, 4096, piece - 1, piece, piece + 1, 3 * piece, 3 * piece + 12345};
    for (std::size_t number = 0; number < sizes.size(); ++number) {
        const fs::path file =
            folder.from() / (number % 2 ? "deep/deeper" : "") / ("part-" + std::to_string(sizes[number]));
        write(file, bytes(sizes[number], static_cast<unsigned>(number)));
    }
    fs::permissions(folder.from() / ("part-" + std::to_string(3 * piece)), fs::perms(0444));
    const StagingFault fault = copy_tree(folder.from(), folder.to());
    REQUIRE(fault.message == "");
    for (const auto& entry : fs::recursive_directory_iterator(folder.from())) {
        if (!entry.is_regular_file()) continue;
        INFO(entry.path());
        const fs::path copy = folder.to() / fs::relative(entry.path(), folder.from());
        CHECK(read(copy) == read(entry.path()));
        CHECK(fs::status(copy).permissions() == (entry.status().permissions() | fs::perms::owner_write));
    }
    CHECK(fs::file_size(folder.to() / ("part-" + std::to_string(3 * piece))) == 3 * piece);
}

TEST_CASE("a file whose size nobody knows beforehand is read to its end") {
    const Folder folder;
    CHECK(copy_files({{.from = "/proc/self/status", .to = folder.to() / "status", .mode = 0444, .bytes = 0}}).error ==
          0);
    CHECK(read(folder.to() / "status").find("Name:") == 0);
}

TEST_CASE("what is appended while a file is copied is left out; what is taken away is a fault that names it") {
    const Folder folder;
    for (const std::size_t size : {std::size_t{1000}, 2 * piece}) {
        const fs::path file = folder.from() / std::to_string(size);
        write(file, bytes(size, 1));
        const auto length = static_cast<std::int64_t>(size);
        const fs::path less = folder.to() / ("less-" + std::to_string(size));
        CHECK(copy_files({{.from = file, .to = less, .mode = 0644, .bytes = length - 10}}).error == 0);
        CHECK(read(less) == read(file).substr(0, size - 10));
        const fs::path more = folder.to() / ("more-" + std::to_string(size));
        const StagingFault fault = copy_files({{.from = file, .to = more, .mode = 0644, .bytes = length + 10}});
        CHECK(fault.error == ESTALE);
        CHECK(fault.message == file.string() + " became shorter while it was copied; write it before it is reported");
    }
}

TEST_CASE("a fault of one file ends the copy, and nothing is left") {
    const Folder folder;
    for (const char* name : {"a", "b", "c", "d"}) write(folder.from() / name, bytes(2 * piece, 7));
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{piece, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
    const StagingFault fault = copy_tree(folder.from(), folder.to());
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(fault.error == EFBIG);
    CHECK(fault.message.find("cannot copy " + folder.from().string() + "/") == 0);
    CHECK(fs::is_empty(folder.to()));
}

TEST_CASE("a directory given away is copied where the stage's own directory is the agent's alone") {
    if (::geteuid() != 0) {
        WARN("skipped: becoming another user needs root");
        return;
    }
    const passwd* person = ::getpwnam("nobody");
    REQUIRE(person != nullptr);
    char made[] = "/tmp/rtrain-staging-XXXXXX";
    const std::string top = ::mkdtemp(made), stage = top + "/rank-00000-1", given = top + "/own/given";
    REQUIRE(::chmod(top.c_str(), 0711) == 0);
    for (const std::string& directory : {stage, top + "/own", given}) {
        REQUIRE(::mkdir(directory.c_str(), 0755) == 0);
        REQUIRE(::chown(directory.c_str(), person->pw_uid, person->pw_gid) == 0);
    }
    std::ofstream(given + "/model.bin") << "weights";
    const pid_t child = ::fork();
    if (child == 0) {
        const bool other = ::setgid(person->pw_gid) == 0 && ::setuid(person->pw_uid) == 0;
        ::_exit(other ? move_tree(given, stage).error : 255);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(std::filesystem::exists(stage + "/model.bin"));
    CHECK_FALSE(std::filesystem::exists(given));
    std::filesystem::remove_all(top);
}
