// The templates that the next agent makes in advance.
#include "daemon/agent/warm/kept_specs.hpp"

#include <fstream>

#include "daemon/agent/disk/node_files.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

TemplateSpec made_spec(const std::string& token_user) {
    TemplateSpec spec{.token_user = token_user,
                      .user = {.uid = 1'000, .gid = 1'001, .name = "ana", .home = "/home/ana", .groups = {1'001, 27}},
                      .allow_setuid = true,
                      .python = "/usr/bin/python3",
                      .modules = {"torch", "wave"},
                      .environment = {{"COLOUR", "blue"}, {"PATH", "/usr/bin"}}};
    spec.key = key_of(spec);
    return spec;
}

}  // namespace

TEST_CASE("specs are read as they were kept, and nobody else can read them") {
    Folder folder;
    const std::string file = folder.path + "/templates.json";
    CHECK(kept_specs(file).empty());
    const TemplateSpec first = made_spec("ana"), second = made_spec("ben");
    REQUIRE(keep_specs(file, {&first, &second}));
    const auto kept = kept_specs(file);
    REQUIRE(kept.size() == 2);
    CHECK(kept[0].key == first.key);
    CHECK(kept[0].user == first.user);
    CHECK(kept[0].allow_setuid);
    CHECK(kept[0].modules == first.modules);
    CHECK(kept[0].environment == first.environment);
    CHECK(kept[1].token_user == "ben");
    CHECK(std::filesystem::status(file).permissions() == std::filesystem::perms(0600));
}

TEST_CASE("a spec that was changed, a part that is missing and a damaged file are no template") {
    Folder folder;
    const std::string file = folder.path + "/templates.json";
    const TemplateSpec first = made_spec("ana"), second = made_spec("ben");
    REQUIRE(keep_specs(file, {&first, &second}));
    std::string text = *read_whole(file);
    const auto change = [&](const std::string& from, const std::string& to) {
        std::string changed = text;
        changed.replace(changed.find(from), from.size(), to);
        std::ofstream(file) << changed;
        return kept_specs(file).size();
    };
    CHECK(change("\"wave\"", "\"evil\"") == 1);
    CHECK(change("\"uid\":1000", "\"uid\":0") == 1);
    CHECK(change("\"python\"", "\"snake\"") == 1);
    CHECK(change("[", "{") == 0);
}
