// Runs the table of links and special files against this packer. tests/python/packing/test_links.py runs it against the
// Python driver's packer.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "storage/job_spec/job.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path parent_made(const fs::path& place) {
    fs::create_directories(place.parent_path());
    return place;
}

std::string with_tree(std::string target, const fs::path& tree) {
    constexpr std::string_view mark = "{tree}";
    if (const auto at = target.find(mark); at != std::string::npos) target.replace(at, mark.size(), tree.string());
    return target;
}

void lay_out_tree(const json& test, const fs::path& tree) {
    fs::create_directories(tree / test.at("pack").get<std::string>());
    for (const std::string name : test.at("git")) fs::create_directories(tree / name / ".git");
    for (const auto& [name, content] : test.at("files").items())
        std::ofstream(parent_made(tree / name), std::ios::binary) << content.get<std::string>();
    for (const auto& [name, target] : test.at("links").items())
        fs::create_symlink(with_tree(target, tree), parent_made(tree / name));
    const json hard_links = test.value("hard_links", json::object());
    for (const auto& [name, other] : hard_links.items())
        fs::create_hard_link(tree / other.get<std::string>(), tree / name);
    const json fifos = test.value("fifos", json::array()), sockets = test.value("sockets", json::array());
    for (const std::string name : fifos) ::mkfifo((tree / name).c_str(), 0600);
    for (const std::string name : sockets) ::mknod((tree / name).c_str(), S_IFSOCK | 0600, 0);
}

json unpacked(const fs::path& folder) {
    json travels = json::object();
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const std::string name = fs::relative(entry.path().parent_path(), folder) / entry.path().filename();
        const std::string path = name.starts_with("./") ? name.substr(2) : name;
        std::ostringstream content;
        if (entry.is_symlink())
            content << "-> " << fs::read_symlink(entry.path()).string();
        else if (entry.is_directory())
            continue;
        else
            content << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        travels[path] = content.str();
    }
    return travels;
}

std::vector<std::string> named(const PackedCode& packed) {
    std::vector<std::string> names = packed.secrets;
    for (const std::string& line : packed.left_out) names.push_back(line.substr(0, line.find(' ')));
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

TEST_CASE("links and special files travel, or are named, as the table says") {
    const auto table = json::parse(std::ifstream(test::source_directory() + "/tests/link_cases.json"));
    REQUIRE(table.size() > 40);
    for (const auto& test : table) {
        INFO(test.at("case").get<std::string>());
        const Folder folder;
        const fs::path tree = fs::canonical(folder.path) / "tree";
        lay_out_tree(test, tree);
        const NamedBy named_by = test.value("unnamed", false) ? NamedBy::nobody : NamedBy::job;
        const auto pack = [&] {
            return pack_directory((tree / test.at("pack").get<std::string>()).string(), folder.path + "/out", named_by);
        };
        const auto packed = pack();
        REQUIRE(packed.ok());
        REQUIRE(unpack_archive(packed->file, folder.path + "/code").ok());
        CHECK(unpacked(folder.path + "/code") == test.at("travels"));
        CHECK(named(*packed) == test.at("left_out").get<std::vector<std::string>>());
        CHECK(pack()->sha256 == packed->sha256);
    }
}

TEST_CASE("an archive is the same wherever its project lies") {
    const Folder folder;
    std::vector<std::string> hashes;
    for (const char* place : {"/one", "/two/deeper"}) {
        const fs::path top = fs::path(folder.path + place);
        std::ofstream(parent_made(top / "d/a")) << "a";
        fs::create_symlink(top / "d/a", top / "l");
        hashes.push_back(pack_directory(top.string(), folder.path + "/out")->sha256);
    }
    CHECK(hashes[0] == hashes[1]);
}

}  // namespace rtrain::spec
