// The origin of a setting's value, and the file that holds tokens.
#include "cmd/line/settings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cmd/line/command.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::cmd;

namespace {

struct Folder {
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "rtrain-settings-XXXXXX").string();
        REQUIRE(mkdtemp(pattern.data()) != nullptr);
        path = pattern;
        for (const char* name : {"RTRAIN_ADDRESS", "RTRAIN_TOKEN", "RTRAIN_CA", "RTRAIN_CONTEXT"}) unsetenv(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string config() const { return path + "/config.yaml"; }
    std::string path;
};

Arguments with(const Folder& folder, std::map<std::string, std::vector<std::string>, std::less<>> flags = {}) {
    flags["config"] = {folder.config()};
    return {.flags = std::move(flags), .positional = {}};
}

}  // namespace

TEST_CASE("the configuration is written for its owner alone, and read back as it was") {
    const Folder folder;
    const Place place{.address = "10.0.0.5:7433",
                      .token = "rtu1.abc.secret",
                      .ca = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n",
                      .ca_fingerprint = ""};
    REQUIRE(change_config(folder.config(), {{"no", place}}, {}, "no"));  // A name that YAML 1.1 reads as false.
    struct stat facts{};
    REQUIRE(stat(folder.config().c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
    const Result<ConfigFile> read = read_config(folder.config());
    REQUIRE(read);
    CHECK(read->current == "no");
    CHECK(read->contexts.at("no") == place);
}

TEST_CASE("flag beats environment beats context, and each says so") {
    const Folder folder;
    REQUIRE(change_config(folder.config(),
                          {{"lab", {.address = "lab:1", .token = "t", .ca = "-----BEGIN x", .ca_fingerprint = ""}}}, {},
                          "lab"));
    const auto origin = [&](const Arguments& arguments) {
        const Result<Settings> settings = Settings::load(arguments);
        REQUIRE(settings);
        for (const Setting& setting : settings->all())
            if (setting.name == "address") return setting.value + " from " + setting.origin;
        return std::string();
    };
    CHECK(origin(with(folder)) == "lab:1 from " + folder.config());
    setenv("RTRAIN_ADDRESS", "env:2", 1);
    CHECK(origin(with(folder)) == "env:2 from environment RTRAIN_ADDRESS");
    CHECK(origin(with(folder, {{"address", {"flag:3"}}})) == "flag:3 from flag --address");
    unsetenv("RTRAIN_ADDRESS");
}

TEST_CASE("a context that is not there is named, with the nearest that is") {
    const Folder folder;
    REQUIRE(change_config(folder.config(), {{"production", {}}}, {}, "production"));
    const Result<Settings> settings = Settings::load(with(folder, {{"context", {"prodution"}}}));
    REQUIRE(!settings);
    CHECK(settings.error().code == ErrorCode::not_found);
    CHECK(settings.error().message.find("did you mean \"production\"?") != std::string::npos);
}

TEST_CASE("a wrong configuration is refused with its place") {
    const Folder folder;
    for (const char* text :
         {"contexts: {a: {addres: x}}\n", "curent: a\n", "contexts: [1]\n", "current: a\ncurrent: b\n"}) {
        INFO(text);
        std::ofstream(folder.config(), std::ios::trunc) << text;
        const Result<ConfigFile> read = read_config(folder.config());
        REQUIRE(!read);
        CHECK(read.error().code == ErrorCode::invalid);
        CHECK(read.error().message.find(folder.config()) != std::string::npos);
    }
}

TEST_CASE("addresses: names, IPv4, IPv6, with and without a port") {
    const auto text = [](const char* given) {
        const Result<HostPort> read = parse_host_port(given, 7433);
        return read ? host_port_text(read->host, read->port) : "wrong";
    };
    CHECK(text("head") == "head:7433");
    CHECK(text("10.0.0.5:99") == "10.0.0.5:99");
    CHECK(text("[fd00::5]:99") == "[fd00::5]:99");
    CHECK(text("fd00::5") == "[fd00::5]:7433");
    CHECK(text("https://head:1/") == "head:1");
    for (const char* wrong : {"", ":1", "head:", "head:x", "head:70000", "a b:1"}) CHECK(text(wrong) == "wrong");
}
