// The head's authority: it is made once, and is damaged only if its files hold other data.
#include "daemon/head/access/identity.hpp"

#include <filesystem>
#include <fstream>

#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

namespace fs = std::filesystem;

ErrorCode reopened(const Folder& folder) {
    const auto opened = open_identity(folder.path);
    REQUIRE_FALSE(opened.ok());
    CAPTURE(opened.error().message);
    CHECK(opened.error().message.find("ca.key") != std::string::npos);
    return opened.error().code;
}

}  // namespace

TEST_CASE("the authority is made once, also after a kill between its key and its certificate") {
    const Folder folder;
    const auto first = open_identity(folder.path);
    REQUIRE(first.ok());
    CHECK(open_identity(folder.path)->ca_fingerprint == first->ca_fingerprint);
    fs::remove(folder.path + "/ca.crt");
    const auto anew = open_identity(folder.path);
    REQUIRE(anew.ok());
    CHECK(anew->ca_fingerprint != first->ca_fingerprint);
}

TEST_CASE("a key that is missing, that cannot be read, and that is none are three different things") {
    const Folder folder;
    REQUIRE(open_identity(folder.path).ok());
    const std::string key = folder.path + "/ca.key";
    std::ofstream(key) << "no key";
    CHECK(reopened(folder) == ErrorCode::damaged);
    std::ofstream(key, std::ios::trunc);
    CHECK(reopened(folder) == ErrorCode::damaged);
    fs::remove(key);
    CHECK(reopened(folder) == ErrorCode::not_found);
    fs::create_directory(key);  // every read of it fails
    CHECK(reopened(folder) == ErrorCode::io);
}
