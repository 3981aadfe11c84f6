// Packs and unpacks a working directory: excluded files, the inputs of its hash, and malicious archives.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "storage/job_spec/archive/ignore.hpp"
#include "storage/job_spec/archive/tar.hpp"
#include "storage/job_spec/job.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;

struct CodeFolder : Folder {
    void write(const std::string& name, const std::string& bytes = "x") const {
        fs::create_directories(fs::path(path + "/" + name).parent_path());
        std::ofstream(path + "/" + name, std::ios::binary) << bytes;
    }
    std::vector<std::string> files(const std::string& below) const {
        std::vector<std::string> names;
        for (const auto& entry : fs::recursive_directory_iterator(path + "/" + below))
            if (!entry.is_directory() || entry.is_symlink())
                names.push_back(fs::relative(entry.path(), path + "/" + below).string());
        std::sort(names.begin(), names.end());
        return names;
    }
};

std::string archive_with(const CodeFolder& folder,
                         const std::vector<TarEntry>& entries) {  // an archive that rtrain would never write
    const std::string file = folder.path + "/evil.tar.zst";
    auto out = TarWriter::create(file);
    REQUIRE(out.ok());
    for (TarEntry entry : entries) {
        entry.bytes = entry.type == TarType::file ? 1 : 0;
        REQUIRE((*out)->begin(entry).ok());
        if (entry.bytes != 0) REQUIRE((*out)->write("x").ok());
    }
    REQUIRE((*out)->finish().ok());
    return file;
}
TarEntry entry(const std::string& path, TarType type = TarType::file, const std::string& target = "") {
    return {.path = path, .type = type, .target = target};
}

}  // namespace

TEST_CASE("a directory comes back with its files, modes, links and empty directories") {
    CodeFolder folder;
    folder.write("src/train.py", "print()");
    folder.write("src/pkg/a b\xC3\xA4.txt", std::string(300'000, 'z'));
    folder.write("src/" + std::string(120, 'd') + "/" + std::string(120, 'f'), "long");
    folder.write("src/run.sh", "#!/bin/sh");
    ::chmod((folder.path + "/src/run.sh").c_str(), 0700);
    fs::create_directory(folder.path + "/src/empty");
    fs::create_symlink("../train.py", folder.path + "/src/pkg/link");

    const auto packed = pack_directory(folder.path + "/src", folder.path + "/out");

    REQUIRE(packed.ok());
    CHECK(packed->files == 4);
    CHECK(fs::file_size(packed->file) == static_cast<std::uintmax_t>(packed->bytes));
    CHECK(packed->bytes < 10'000);
    CHECK(fs::path(packed->file).filename() == packed->sha256 + ".tar.zst");
    const Status unpacked = unpack_archive(packed->file, folder.path + "/cache/code");
    if (!unpacked) FAIL(unpacked.error().message);
    CHECK(folder.files("cache/code") == folder.files("src"));
    CHECK(fs::is_directory(folder.path + "/cache/code/empty"));
    CHECK(fs::read_symlink(folder.path + "/cache/code/pkg/link") == "../train.py");
    CHECK(::access((folder.path + "/cache/code/run.sh").c_str(), X_OK) == 0);
    CHECK(std::distance(fs::directory_iterator(folder.path + "/cache"), {}) == 1);
    CHECK(unpack_archive(packed->file, folder.path + "/cache/code").ok());  // a second agent unpacks the same content
}

TEST_CASE("what belongs to unpacking is done before anybody finds the directory; where it fails nothing is there") {
    CodeFolder folder;
    folder.write("src/train.py", "print()");
    const auto packed = pack_directory(folder.path + "/src", folder.path + "/out");
    REQUIRE(packed.ok());
    const std::string code = folder.path + "/cache/code";
    const auto fails = [](const std::string&) { return Status(Error{ErrorCode::io, "killed", ""}); };
    CHECK(unpack_archive(packed->file, code, fails).error().message == "killed");
    CHECK(fs::is_empty(folder.path + "/cache"));
    const auto seals = [&](const std::string& directory) {
        CHECK_FALSE(fs::exists(code));
        fs::permissions(directory + "/train.py", fs::perms(0444));
        return Status(Done{});
    };
    CHECK(unpack_archive(packed->file, code, seals).ok());
    CHECK((fs::status(code + "/train.py").permissions() & fs::perms(0777)) == fs::perms(0444));
}

TEST_CASE("the same content has the same name, whatever its times, owners and order of creation") {
    CodeFolder folder;
    folder.write("a/x", "1");
    folder.write("a/y", "2");
    folder.write("b/y", "2");
    folder.write("b/x", "1");
    fs::last_write_time(folder.path + "/b/x", fs::file_time_type::clock::now() - std::chrono::hours(999));
    ::chmod((folder.path + "/b/y").c_str(), 0600);
    const auto a = pack_directory(folder.path + "/a", folder.path + "/out"),
               b = pack_directory(folder.path + "/b", folder.path + "/out");
    CHECK(a->sha256 == b->sha256);
    folder.write("b/x", "3");
    CHECK(pack_directory(folder.path + "/b", folder.path + "/out")->sha256 != a->sha256);
}

TEST_CASE("ignore files leave things out; .rtrainignore has the last word") {
    CodeFolder folder;
    for (const std::string name :
         {"train.py", ".git/config", ".venv/bin/python", "pkg/__pycache__/a.pyc", "data/big.bin", "data/keep.txt",
          "logs/a.log", "logs/deep/b.log", "out.log", "sub/tmp/x", "sub/tmp.txt", "sub/model.pt", "model.pt"})
        folder.write("src/" + name);
    folder.write("src/.gitignore", "*.log\n!out.log\n/data/*\n!/data/keep.txt\ntmp/\n");
    folder.write("src/.rtrainignore", "# local\nout.log\n!/logs/a.log\n");
    folder.write("src/sub/.gitignore", "/model.pt\n");
    const auto packed = pack_directory(folder.path + "/src", folder.path + "/out");
    REQUIRE(packed.ok());
    REQUIRE(unpack_archive(packed->file, folder.path + "/code").ok());
    CHECK(folder.files("code") == std::vector<std::string>{".gitignore", ".rtrainignore", "data/keep.txt", "logs/a.log",
                                                           "model.pt", "sub/.gitignore", "sub/tmp.txt", "train.py"});
}

TEST_CASE("an archive without the file that it needs is refused; a linked directory brings it") {
    CodeFolder folder;
    folder.write("src/real/train.py", "print()");
    folder.write("src/other.py", "print()");
    folder.write("src/.gitignore", "other.py\n");
    fs::create_symlink("real", folder.path + "/src/linked");
    const auto pack = [&](const std::string& needed) {
        return pack_directory(folder.path + "/src", folder.path + "/out", NamedBy::nobody, needed);
    };
    CHECK(pack("real/train.py").ok());
    CHECK(pack("linked/train.py").ok());
    const auto refused = pack("other.py");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("other.py, which does not travel along") != std::string::npos);
}

TEST_CASE("patterns of ignore files") {
    const auto ignored = [](const std::string& rules, const std::string& path, FileKind kind = FileKind::file) {
        IgnoreRules list;
        list.add_git("", rules);
        return list.ignored(path, kind);
    };
    CHECK(ignored("a/**/b", "a/b"));
    CHECK(ignored("a/**/b", "a/x/y/b"));
    CHECK_FALSE(ignored("a/**/b", "x/a/b"));
    CHECK(ignored("**/foo", "x/y/foo"));
    CHECK(ignored("foo/**", "foo/x/y"));
    CHECK_FALSE(ignored("foo/**", "foo", FileKind::directory));
    CHECK(ignored("foo", "x/foo"));
    CHECK_FALSE(ignored("/foo", "x/foo"));
    CHECK_FALSE(ignored("x/*.c", "x/y/a.c"));
    CHECK(ignored("[a-c]?[!x].txt", "b1y.txt"));
    CHECK_FALSE(ignored("[a-c]?[!x].txt", "b1x.txt"));
    CHECK(ignored("\\#x", "#x"));
    CHECK_FALSE(ignored("#x", "#x"));
    CHECK(ignored("a \r\n", "a"));
    CHECK_FALSE(ignored("d/", "d"));
    CHECK(ignored("d/", "d", FileKind::directory));
    CHECK_FALSE(ignored(std::string(50, '*') + "b", std::string(2000, 'a')));  // quickly
}

TEST_CASE("what cannot be shipped is named, with the way out") {
    CodeFolder folder;
    folder.write("src/a");
    CHECK(pack_directory(folder.path + "/none", folder.path + "/out").error().code == ErrorCode::not_found);
    CHECK(pack_directory(folder.path + "/src/a", folder.path + "/out").error().code == ErrorCode::invalid);
}

TEST_CASE("an archive that reaches out of its directory is refused, and leaves nothing") {
    CodeFolder folder;
    const std::vector<std::vector<TarEntry>> archives = {
        {entry("../evil")},
        {entry("a/../../evil")},
        {entry("/tmp/rtrain-evil")},
        {entry(std::string(200, 'x') + "/../../../evil")},
        {entry("link", TarType::link, "/etc"), entry("link/x")},
        {entry("link", TarType::link, "../..")},
        {entry("a", TarType::link, "."), entry("b", TarType::link, "a/../../..")},
        {entry("d/a", TarType::link, ".."), entry("b", TarType::link, "d/a/..")},  // each entry alone looks harmless
        {entry("d/a", TarType::link, ".."), entry("b", TarType::link, "d/a/.."),
         entry("b/planted", TarType::link, "x")},
        {entry("d/a", TarType::link, ".."), entry("b", TarType::link, "d/a/.."), entry("b/new/x", TarType::link, "x")},
        {entry("hard", TarType::hard_link, "/etc/passwd")},
        {entry("device", TarType::character_device)},
        {entry("fifo", TarType::fifo)},
        {entry("twice"), entry("twice")},
    };
    for (std::size_t i = 0; i < archives.size(); ++i) {
        CAPTURE(i);
        const Status status = unpack_archive(archive_with(folder, archives[i]), folder.path + "/cache/code");
        REQUIRE_FALSE(status.ok());
        CHECK(status.error().code == ErrorCode::damaged);
        CHECK(fs::is_empty(folder.path + "/cache"));
    }
    CHECK_FALSE(fs::exists(folder.path + "/evil"));
}

TEST_CASE("a cut archive, and one that is none, are told") {
    CodeFolder folder;
    folder.write("src/a", std::string(100'000, 'q') + std::string(100'000, 'r'));
    const auto packed = pack_directory(folder.path + "/src", folder.path + "/out");
    fs::resize_file(packed->file, fs::file_size(packed->file) / 2);
    CHECK(unpack_archive(packed->file, folder.path + "/code").error().code == ErrorCode::damaged);
    folder.write("text", "not an archive");
    CHECK(unpack_archive(folder.path + "/text", folder.path + "/code").error().code == ErrorCode::damaged);
    CHECK(unpack_archive(folder.path + "/none", folder.path + "/code").error().code == ErrorCode::not_found);
    CHECK_FALSE(fs::exists(folder.path + "/code"));
}

}  // namespace rtrain::spec
