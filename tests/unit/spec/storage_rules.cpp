// The file of `node join --storage-rules`: its meaning, and the paths that it allows to each user.
#include "storage/job_spec/storage_rules.hpp"

#include <fstream>
#include <sstream>

#include "tests/unit/catch.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::spec {
namespace {

using Lines = std::vector<std::string>;

StorageRules rules_of(const std::string& yaml) {
    StorageRulesAnswer answer = read_storage_rules(yaml);
    for (const Problem& problem : answer.problems) UNSCOPED_INFO(problem.path + ": " + problem.message);
    REQUIRE(answer.rules);
    return *answer.rules;
}

Lines rule_problems(const std::string& yaml) {
    const StorageRulesAnswer answer = read_storage_rules(yaml);
    CHECK_FALSE(answer.rules);
    Lines texts;
    for (const Problem& problem : answer.problems)
        texts.push_back(std::to_string(problem.line) + ": " + problem.path + ": " + problem.message);
    return texts;
}

constexpr const char* two_people = R"(
version: 1
rules:
  - users: [ana]
    allow: [s3://b/a, s3://b/team%20x/]
  - users: [ben]
    queues: [research]
    allow: [s3://whole]
  - queues: [open]
    allow: [s3://b/open]
)";

bool allowed(const StorageRules& rules, const StorageUser& who, const std::string& path) {
    return may_use(rules, who, path).ok();
}

}  // namespace

TEST_CASE("the example of configs/ is read, and every field of it means something to the storage rules") {
    std::ifstream file(test::source_directory() + "/configs/storage-rules.yaml");
    std::stringstream text;
    text << file.rdbuf();
    const StorageRules rules = rules_of(text.str());
    CHECK(rules.rules.size() == 3);
    CHECK(rules.rules[1] == StorageRule{{"carol"}, {"research"}, {"s3://research-runs", "gs://research-runs"}});
    CHECK(rules.endpoints == Lines{"https://minio.example:9000"});
}

TEST_CASE("a storage path is allowed by whole components, and only as it is written") {
    const StorageRules rules = rules_of(two_people);
    const StorageUser ana{"ana", "default"};
    for (const char* path : {"s3://b/a", "s3://b/a/", "s3://b/a///", "s3://b/a/deep/er", "s3://b/team%20x/r",
                             "cluster://", "", "/any/directory", "file:///any/directory"}) {
        INFO(path);
        CHECK(allowed(rules, ana, path));
    }
    for (const char* path : {"s3://b",
                             "s3://b/",
                             "s3://b/ab",
                             "s3://b/a-2",
                             "s3://b/A",
                             "s3://B/a",
                             "s3://b/a/../c",
                             "s3://b/./a",
                             "s3://b//a",
                             "s3://b/a//c",
                             "s3://b/a/.",
                             "s3://b/%61",
                             "s3://b/a%2F..%2Fc",
                             "s3://b/team x/r",
                             "s3://..",
                             "s3://../b/a",
                             "s3://./b/a",
                             "s3://ba/a",
                             "s3://b.a",
                             "S3://b/a",
                             "gs://b/a",
                             "s3:///b/a",
                             "s3://whole",
                             "s3://b/open",
                             "s3://b\\a",
                             "s3://b/a\\..\\c/../x"}) {
        INFO(path);
        CHECK_FALSE(allowed(rules, ana, path));
    }
}

TEST_CASE("a rule holds for its users in its queues, and nobody is everybody unless it says so") {
    const StorageRules rules = rules_of(two_people);
    CHECK(allowed(rules, {"ben", "research"}, "s3://whole/of/it"));
    CHECK_FALSE(allowed(rules, {"ben", "default"}, "s3://whole/of/it"));
    CHECK_FALSE(allowed(rules, {"carol", "research"}, "s3://whole/of/it"));
    CHECK(allowed(rules, {"carol", "open"}, "s3://b/open/x"));
    CHECK_FALSE(allowed(rules, {"", ""}, "s3://b/a"));
    CHECK_FALSE(allowed(rules, {"", ""}, "s3://b/open"));
    const StorageRules all = rules_of("rules: [{users: [\"*\"], allow: [\"*\"]}]");
    CHECK(allowed(all, {"", ""}, "s3://any/where"));
    CHECK_FALSE(allowed(rules_of("rules: []"), {"ana", "default"}, "s3://b/a"));
}

TEST_CASE("a rule for a bucket of one kind allows nothing at another kind") {
    const StorageRules rules = rules_of("rules: [{users: [ana], allow: [gs://b/a]}]");
    for (const char* path : {"gs://b/a", "gs://b/a/", "gs://b/a/deep/er"}) CHECK(allowed(rules, {"ana", "q"}, path));
    for (const char* path : {"s3://b/a", "gs://b", "gs://b/ab", "gs://b/a/../c", "gs://b//a", "GS://b/a", "/b/a"}) {
        INFO(path);
        CHECK(allowed(rules, {"ana", "q"}, path) == (path[0] == '/'));
    }
}

TEST_CASE("a rule for Azure holds for each spelling of its path, and for no other account") {
    const StorageRules rules =
        rules_of("rules: [{users: [ana], allow: [az://runs/ana, abfss://runs@lab.dfs.core.windows.net]}]");
    for (const char* path : {"az://runs/ana", "abfs://runs/ana/x", "abfss://runs/ana/",
                             "abfss://runs@lab.dfs.core.windows.net/x", "abfs://runs@lab.dfs.core.windows.net"}) {
        INFO(path);
        CHECK(allowed(rules, {"ana", "q"}, path));
    }
    for (const char* path : {"az://runs", "az://runs/ana-2", "abfss://runs@other.dfs.core.windows.net/ana",
                             "az://runs@lab.dfs.core.windows.net.evil/x", "az://runs/ana/../ben"}) {
        INFO(path);
        CHECK_FALSE(allowed(rules, {"ana", "q"}, path));
    }
}

TEST_CASE("directories are under the rules as soon as one rule names a directory") {
    const StorageRules rules = rules_of("rules: [{users: [ana], allow: [/mnt/shared, s3://b]}]");
    CHECK(allowed(rules, {"ana", "q"}, "/mnt/shared/x"));
    CHECK(allowed(rules, {"ana", "q"}, "file:///mnt//shared/./x"));
    for (const char* path : {"/mnt", "/mnt/shared2", "/mnt/shared/../secret", "/", "file:///etc"}) {
        INFO(path);
        CHECK_FALSE(allowed(rules, {"ana", "q"}, path));
    }
    CHECK_FALSE(allowed(rules, {"ben", "q"}, "/mnt/shared"));
    CHECK(allowed(rules_of("rules: [{users: [ana], allow: [/]}]"), {"ana", "q"}, "/mnt/x"));
}

TEST_CASE("a refusal of the storage rules says who, where, what is allowed, and what to do") {
    const Status refused = may_use(rules_of(two_people), {"ana", "open"}, "s3://b/ben/");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::unauthorised);
    CHECK(refused.error().message ==
          "user 'ana' (queue 'open') may not use s3://b/ben: the storage rules of this node allow s3://b/a, "
          "s3://b/team%20x, s3://b/open");
    CHECK(refused.error().next.find("ask who operates the node") != std::string::npos);
    CHECK(refused.error().next.find("secrets: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY] in") != std::string::npos);
    const Status google = may_use(rules_of(two_people), {"ana", "open"}, "gs://b/ben/");
    CHECK(google.error().message.find("may not use gs://b/ben") != std::string::npos);
    CHECK(
        google.error().next.find("secrets: [GOOGLE_SERVICE_ACCOUNT_KEY] or [GS_ACCESS_KEY_ID, GS_SECRET_ACCESS_KEY]") !=
        std::string::npos);
}

TEST_CASE("what is wrong with the storage rules is told at once, each with its line") {
    CHECK(rule_problems(R"(version: 2
rule: []
rules:
  - users: []
    allow: [s3://b/a/../c, b/relative, gs://b/../c, "s3://b/*", cluster://]
  - user: [ana]
    allow: s3://b
  - users: [7]
  - ana
endpoints: [ftp://x, "http://x:1/path", "http://u@x", http://x:1/]
)") == Lines{"1: version: wants 1", "2: rule: unknown field", "4: rules[0].users: wants a list with at least one entry",
             "5: rules[0].allow[0]: \"s3://b/a/../c\" has an empty, '.' or '..' part",
             "5: rules[0].allow[1]: storage path \"b/relative\": it is not absolute",
             "5: rules[0].allow[2]: \"gs://b/../c\" has an empty, '.' or '..' part",
             "5: rules[0].allow[3]: \"s3://b/*\": '*' within a path is no pattern",
             "5: rules[0].allow[4]: cluster:// is always allowed", "6: rules[1].user: unknown field",
             "6: rules[1]: says neither users nor queues", "7: rules[1].allow: wants a list with at least one entry",
             "8: rules[2].allow: is missing", "8: rules[2].users[0]: wants text",
             "9: rules[3]: wants a map of users, queues and allow",
             "10: endpoints[0]: wants http://host:port or https://host:port, found \"ftp://x\"",
             "10: endpoints[1]: wants http://host:port or https://host:port, found \"http://x:1/path\"",
             "10: endpoints[2]: wants http://host:port or https://host:port, found \"http://u@x\""});
    CHECK(rule_problems("") == Lines{"1: : wants a map with `rules:`"});
    CHECK(rule_problems("version: 1") == Lines{"1: rules: is missing"});
    CHECK(rule_problems("rules: null") == Lines{"1: rules: wants a list of rules"});
    CHECK(rule_problems("rules: &x []").size() == 1);
}

}  // namespace rtrain::spec
