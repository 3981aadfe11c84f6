// Runs the table of ignore rules against this packer. tests/python/packing/test_packing.py runs it against the Python
// driver's packer and against git. test_ignore_rules.py in that folder names another table, with random rules.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "storage/job_spec/job.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;

void lay_out(const nlohmann::json& test, const fs::path& folder) {
    for (const char* list : {"travels", "stays"})
        for (const std::string name : test.at(list)) {
            fs::create_directories((folder / name).parent_path());
            std::ofstream(folder / name, std::ios::binary) << test.at("ignore").value(name, "");
        }
}

std::vector<std::string> files(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), folder).string());
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

TEST_CASE("ignore files are read as the table says, which is what git does") {
    const char* other = std::getenv("RTRAIN_IGNORE_CASES");
    const std::string file = other != nullptr ? other : test::source_directory() + "/tests/ignore_cases.json";
    const auto table = nlohmann::json::parse(std::ifstream(file));
    REQUIRE(table.size() > 40);
    for (const auto& test : table) {
        INFO(test.at("case").get<std::string>());
        const Folder folder;
        lay_out(test, fs::path(folder.path) / "src");
        const auto packed =
            pack_directory((fs::path(folder.path) / "src").string(), (fs::path(folder.path) / "out").string());
        REQUIRE(packed.ok());
        REQUIRE(unpack_archive(packed->file, (fs::path(folder.path) / "code").string()).ok());
        auto travels = test.at("travels").get<std::vector<std::string>>();
        std::sort(travels.begin(), travels.end());
        CHECK(files(fs::path(folder.path) / "code") == travels);
    }
}

}  // namespace rtrain::spec
