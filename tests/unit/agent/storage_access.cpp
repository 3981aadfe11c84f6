// A run's own credentials for an object store: when they are used, and where they are stored.

#include "daemon/agent/preparation/storage_access.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "daemon/agent/disk/node_files.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

const std::string path = "s3://runs/ana";

protocol::StorageAccess own_access(std::map<std::string, std::string> more = {}) {
    more.insert({{"AWS_ACCESS_KEY_ID", "hers"}, {"AWS_SECRET_ACCESS_KEY", "her-secret"}});
    return {.user = "ana", .queue = "default", .own = true, .secrets = std::move(more)};
}

}  // namespace

TEST_CASE("a run's own credentials are used whole, or not at all") {
    CHECK(open_bucket(own_access(), path).ok());
    protocol::StorageAccess forgotten = own_access();
    forgotten.secrets.clear();
    CHECK(open_bucket(forgotten, path).error().message.find("AWS_ACCESS_KEY_ID is not there") != std::string::npos);
    protocol::StorageAccess half = own_access();
    half.secrets["AWS_SECRET_ACCESS_KEY"] = "";
    CHECK(open_bucket(half, path).error().message.find("AWS_SECRET_ACCESS_KEY is not there") != std::string::npos);
    for (const char* text : {"her\r\nx-amz-acl: public", "her key", "her\tkey", "her\x7f"}) {
        const auto refused = open_bucket(own_access({{"AWS_SESSION_TOKEN", text}}), path);
        CHECK(refused.error().message == "the job's AWS_SESSION_TOKEN has a space or a control character");
    }
    const auto region = open_bucket(own_access({{"AWS_REGION", "x@169.254.169.254/"}}), path);
    CHECK(region.error().message == "s3://runs/ana: AWS_REGION is 'x@169.254.169.254/'");
}

TEST_CASE("the server that a run's own credentials are sent to is one that the operator names") {
    Folder folder;
    const std::string rules = folder.path + "/rules.yaml";
    REQUIRE(write_whole(rules, "rules: []\nendpoints: [\"http://minio:9000\"]\n", 0600, Durable::no));
    CHECK(may_use_storage(rules, own_access(), path, {}));
    CHECK(may_use_storage(rules, own_access({{"AWS_ENDPOINT_URL", "http://minio:9000/"}}), path, {}));
    for (const char* name : {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}) {
        const auto access = own_access({{name, "http://169.254.169.254"}});
        for (const std::string& file : {rules, std::string()})
            CHECK(may_use_storage(file, access, path, {}).error().message ==
                  "the job's AWS_ENDPOINT_URL names http://169.254.169.254, which is not the S3 server of this node's "
                  "agent");
    }
    // The credentials are for a bucket, so a directory is still subject to the rules.
    REQUIRE(write_whole(rules, "rules: [{users: [ben], allow: [/mnt/ben]}]\n", 0600, Durable::no));
    CHECK_FALSE(may_use_storage(rules, own_access(), "/mnt/ben", {}));
}

TEST_CASE("a run's own Google credentials are used whole, and hide the agent's") {
    const std::string bucket = "gs://runs/ana";
    const auto access = [](std::map<std::string, std::string> secrets) {
        secrets.emplace("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1");
        return protocol::StorageAccess{.user = "ana", .queue = "default", .own = true, .secrets = std::move(secrets)};
    };
    CHECK(open_bucket(access({{"GS_ACCESS_KEY_ID", "hers"}, {"GS_SECRET_ACCESS_KEY", "s"}}), bucket).ok());
    CHECK(open_bucket(access({}), bucket).error().message.find("GOOGLE_SERVICE_ACCOUNT_KEY is not there") !=
          std::string::npos);
    CHECK(open_bucket(access({{"GS_ACCESS_KEY_ID", "hers"}}), bucket)
              .error()
              .message.find("GS_SECRET_ACCESS_KEY is not there") != std::string::npos);
    const auto header = open_bucket(access({{"GOOGLE_OAUTH_ACCESS_TOKEN", "t\r\nx-goog-acl: public"}}), bucket);
    CHECK(header.error().message == "the job's GOOGLE_OAUTH_ACCESS_TOKEN has a space or a control character");
    // A key of JSON has line ends. A broken one is an error, and the agent's own account does not take its place.
    const auto broken = open_bucket(access({{"GOOGLE_SERVICE_ACCOUNT_KEY", "{\n}"}}), bucket);
    CHECK(broken.error().message.find("GOOGLE_SERVICE_ACCOUNT_KEY in the environment cannot be used") !=
          std::string::npos);
}

TEST_CASE("a job's Google key does not choose the server that an agent takes tokens from") {
    Folder folder;
    const std::string rules = folder.path + "/rules.yaml", bucket = "gs://runs/ana";
    REQUIRE(write_whole(rules, "rules: []\nendpoints: [\"http://tokens:9000\"]\n", 0600, Durable::no));
    const auto access = [](const std::string& tokens) {
        const std::string key =
            R"({"type": "service_account", "client_email": "a@b", "private_key": "p", "token_uri": ")" + tokens + "\"}";
        return protocol::StorageAccess{
            .user = "ana", .queue = "q", .own = true, .secrets = {{"GOOGLE_SERVICE_ACCOUNT_KEY", key}}};
    };
    CHECK(may_use_storage(rules, access("https://oauth2.googleapis.com/token"), bucket, {}));
    CHECK(may_use_storage(rules, access("http://tokens:9000/token"), bucket, {}));
    CHECK(may_use_storage(rules, access("http://169.254.169.254/token"), bucket, {}).error().message ==
          "the job's GOOGLE_SERVICE_ACCOUNT_KEY takes its tokens at http://169.254.169.254, which is not Google's");
    protocol::StorageAccess endpoint = access("https://oauth2.googleapis.com/token");
    endpoint.secrets["STORAGE_EMULATOR_HOST"] = "169.254.169.254";
    CHECK(
        may_use_storage(rules, endpoint, bucket, {}).error().message ==
        "the job's STORAGE_EMULATOR_HOST names http://169.254.169.254, which is not the Google Cloud Storage server of "
        "this node's agent");
}

TEST_CASE("a run's own credentials are kept for the agent's user alone, and only where a run has them") {
    Folder folder;
    REQUIRE(keep_credentials({.user = "ana", .queue = "default"}, folder.path));
    CHECK_FALSE(read_whole(folder.path + "/s3-credentials"));
    REQUIRE(keep_credentials(own_access(), folder.path));
    struct stat seen{};
    REQUIRE(::stat((folder.path + "/s3-credentials").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 0777) == 0600);

    protocol::StorageAccess again{.user = "ana", .queue = "default", .own = true};
    take_kept_credentials(again, folder.path);
    CHECK(again == own_access());
    protocol::StorageAccess agents{.user = "ana", .queue = "default"};
    take_kept_credentials(agents, folder.path);
    CHECK(agents.secrets.empty());
}

namespace {

// A user's directories, and rules that allow one of them.
struct RuledFolder {
    Folder folder;
    std::string allowed = real(folder.path) + "/allowed", outside = real(folder.path) + "/outside";
    std::string rules = folder.path + "/rules.yaml";
    RuledFolder() {
        REQUIRE(make_directory(allowed, 0755));
        REQUIRE(make_directory(outside, 0755));
        allow(allowed);
    }
    static std::string real(const std::string& path) { return std::filesystem::canonical(path).string(); }
    void allow(const std::string& directory) const {
        REQUIRE(write_whole(rules, "rules: [{users: [ana], allow: [" + directory + "]}]\n", 0600, Durable::no));
    }
    Result<StoragePlace> asked(const std::string& path, const std::string& user = "ana") const {
        return may_use_storage(rules, {.user = user, .queue = "default"}, path, {});
    }
    // Writes into the place as an attempt does.
    static Status written(const StoragePlace& place) {
        const auto store = storage::open_file_store(place.path, storage::Root::seen, place.links);
        return store ? (*store)->put("run/run.json", "{}") : store.error();
    }
};

}  // namespace

TEST_CASE("a user's link inside of an allowed directory leads nowhere else") {
    const RuledFolder story;
    std::filesystem::create_directory_symlink(story.outside, story.allowed + "/out");
    for (const std::string& path : {story.allowed + "/out", story.allowed + "/out/not/there/yet"}) {
        const auto refused = story.asked(path);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == ErrorCode::unauthorised);
        CHECK(refused.error().message.starts_with(path + " leads to " + story.outside));
    }
    CHECK_FALSE(story.asked(story.allowed, "ben"));
    const auto place = story.asked(story.allowed + "/mine");
    REQUIRE(place);
    CHECK(place->path == story.allowed + "/mine");
    CHECK(RuledFolder::written(*place));
}

TEST_CASE("a name that is exchanged for a link after the rules were asked is not followed") {
    const RuledFolder story;
    const auto missing = story.asked(story.allowed + "/new"), there = story.asked(story.allowed + "/a/b");
    REQUIRE((missing && there));
    CHECK(RuledFolder::written(*there));
    std::filesystem::create_directory_symlink(story.outside, story.allowed + "/new");
    std::filesystem::rename(story.allowed + "/a", story.allowed + "/was-a");
    std::filesystem::create_directory_symlink(story.outside, story.allowed + "/a");
    for (const auto* place : {&*missing, &*there}) {
        const Status refused = RuledFolder::written(*place);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message.find("is a link") != std::string::npos);
    }
    CHECK(std::filesystem::is_empty(story.outside));
}

TEST_CASE("the operator's own links lead where the operator wants") {
    const RuledFolder story;
    const std::string link = RuledFolder::real(story.folder.path) + "/by-link";
    std::filesystem::create_directory_symlink(story.allowed, link);
    story.allow(link);
    for (const std::string& path : {link + "/runs", story.allowed + "/runs"}) {
        const auto place = story.asked(path);
        REQUIRE(place);
        CHECK(place->path == story.allowed + "/runs");
    }
    CHECK_FALSE(story.asked(story.outside));
}

TEST_CASE("an attempt keeps the directory that it was allowed") {
    const Folder folder;
    CHECK(kept_place("/runs", folder.path).path == "/runs");
    REQUIRE(keep_place({.path = "/real/runs", .links = storage::Links::refused}, folder.path));
    CHECK(kept_place("/runs", folder.path).path == "/real/runs");
    CHECK(kept_place("/runs", folder.path).links == storage::Links::refused);
}
