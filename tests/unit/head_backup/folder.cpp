// The directory of incremental backups: the order of its backups, damaged pieces, and files of killed backups.
#include "daemon/head/backup/folder.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>

#include "daemon/head/backup/archive.hpp"
#include "daemon/head/backup/pieces.hpp"
#include "daemon/head/backup/scratch.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace fs = std::filesystem;

namespace {

const std::string folder_secret = "correct horse battery";
constexpr std::int64_t in_2026 = 1'796'000'000'000, in_2031 = 1'930'000'000'000;

std::vector<fs::path> pieces_of(const std::string& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder + "/pieces"))
        if (entry.is_regular_file()) files.push_back(entry.path());
    return files;
}

// Writes a backup of one small file under the name.
std::string add_backup(const Folder& folder, const MasterKey& master, const std::string& name) {
    std::string path = folder.path + "/" + name;
    auto writer =
        SealedWriter::begin(storage::Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600)), path, master);
    REQUIRE(writer.ok());
    ArchiveWriter archive(std::move(*writer), std::make_unique<Pieces>(folder.path, master));
    REQUIRE(archive.begin({}).ok());
    write_to_file(folder.path + "/content", "content of " + name);
    REQUIRE(archive.add("a", storage::Descriptor(::open((folder.path + "/content").c_str(), O_RDONLY))).ok());
    fs::remove(folder.path + "/content");
    REQUIRE(archive.end().ok());
    return path;
}

}  // namespace

TEST_CASE("a damaged piece is written again by the next backup of its bytes") {
    const Folder folder;
    const auto opened = open_backup_folder(folder.path, folder_secret);
    REQUIRE(opened.ok());
    Pieces pieces(folder.path, opened->master);
    const std::string bytes(5'000, 'x');
    const auto id = pieces.put(bytes);
    REQUIRE(id.ok());
    const auto files = pieces_of(folder.path);
    REQUIRE(files.size() == 1);
    const std::string sound = bytes_of_file(files[0]);
    std::string changed = sound;
    changed[changed.size() / 2] ^= 1;
    for (const std::string& damaged : {changed, sound.substr(0, sound.size() - 1), std::string()}) {
        write_to_file(files[0], damaged);
        CHECK_FALSE(pieces.get(*id).ok());
        CHECK(pieces.put(bytes).ok());
        const auto read = pieces.get(*id);
        CHECK((read.ok() && *read == bytes));
    }
    CHECK(pieces_of(folder.path).size() == 1);
}

TEST_CASE("a sound piece is not written again") {
    const Folder folder;
    const auto opened = open_backup_folder(folder.path, folder_secret);
    REQUIRE(opened.ok());
    Pieces pieces(folder.path, opened->master);
    REQUIRE(pieces.put("bytes").ok());
    const std::string before = bytes_of_file(pieces_of(folder.path).at(0));
    REQUIRE(pieces.put("bytes").ok());
    CHECK(bytes_of_file(pieces_of(folder.path).at(0)) == before);  // a new one would have another nonce
}

TEST_CASE("the newest backup is the last written one after a clock ran ahead") {
    const Folder folder;
    const auto opened = open_backup_folder(folder.path, folder_secret);
    REQUIRE(opened.ok());
    const std::string old = add_backup(folder, opened->master, "20300101T000000.000Z.rtbackup");
    CHECK(backup_names(folder.path)->next_number == 1);
    const std::string ahead = add_backup(folder, opened->master, backup_name(in_2031, 1));
    const std::string last = add_backup(folder, opened->master, backup_name(in_2026, 2));
    const auto names = backup_names(folder.path);
    REQUIRE(names.ok());
    CHECK(names->ours == std::vector{old, ahead, last});
    CHECK(names->next_number == 3);
}

TEST_CASE("keep removes the oldest written backups and no foreign file") {
    const Folder folder;
    const auto opened = open_backup_folder(folder.path, folder_secret);
    REQUIRE(opened.ok());
    add_backup(folder, opened->master, "20300101T000000.000Z.rtbackup");
    add_backup(folder, opened->master, backup_name(in_2031, 1));
    const std::string renamed = add_backup(folder, opened->master, "before-the-move.rtbackup");
    const std::string made = add_backup(folder, opened->master, backup_name(in_2026, 2));
    REQUIRE(keep_newest_backups(folder.path, 1, folder_secret, opened->master).ok());
    const auto names = backup_names(folder.path);
    REQUIRE(names.ok());
    CHECK(names->ours == std::vector{made});
    CHECK(names->foreign == std::vector{renamed});
    for (const std::string& backup : {made, renamed}) {
        std::optional<MasterKey> master = opened->master;
        CHECK(read_archive(backup, folder_secret, master, {.bytes = [](std::string_view) { return Status(Done{}); }})
                  .ok());
    }
    CHECK(pieces_of(folder.path).size() == 2);
}

TEST_CASE("files of killed backups go and files of living ones stay") {
    const Folder folder;
    const auto opened = open_backup_folder(folder.path, folder_secret);
    REQUIRE(opened.ok());
    const std::string sealed = bytes_of_file(folder.path + "/key"), random = "0123456789abcdef";
    const auto living = Scratch::make(folder.path + "/b.rtbackup.partial-");
    const auto copying = ScratchDirectory::make(folder.path);
    REQUIRE((living.ok() && copying.ok()));
    write_to_file(folder.path + "/b.rtbackup.partial-" + random, sealed);
    write_to_file(folder.path + "/.key-" + random, "");
    write_to_file(folder.path + "/notes.partial-" + random, "a file of somebody else");
    fs::create_directory(folder.path + "/backup-" + random);
    write_to_file(folder.path + "/backup-" + random + "/state.db.partial", "pages");
    Pieces pieces(folder.path, opened->master);
    REQUIRE(pieces.put("bytes").ok());
    const std::string cut_off = pieces_of(folder.path).at(0).string() + ".new";
    write_to_file(cut_off, "half");
    remove_dead_scratch(folder.path);
    pieces.remove_unfinished();
    CHECK_FALSE(fs::exists(folder.path + "/b.rtbackup.partial-" + random));
    CHECK_FALSE(fs::exists(folder.path + "/.key-" + random));
    CHECK_FALSE(fs::exists(folder.path + "/backup-" + random));
    CHECK_FALSE(fs::exists(cut_off));
    CHECK(fs::exists(folder.path + "/notes.partial-" + random));
    CHECK(fs::exists(living->path()));
    CHECK(fs::exists(copying->path()));
    CHECK(pieces.get(*pieces.put("bytes")).ok());
}
