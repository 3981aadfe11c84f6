// The invariants of every kind of object store, tested with a server of each kind and its faults.

#include <filesystem>
#include <fstream>

#include "storage/uri/objects/xml.hpp"
#include "tests/unit/bucket_servers.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

std::string fresh(const BucketKind& kind, const char* name) {
    return kind.bucket + "/" + name + "-" + std::to_string(::getpid());
}

}  // namespace

TEST_CASE("a journal is a row of objects that are never half written") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    auto store = bucket_store(kind, fresh(kind, "journal"), shared_server(kind));
    const std::string line(30'000, 'a');
    for (int i = 0; i < 4; ++i) REQUIRE(store->append("attempts/1/metrics-000001.jsonl", line).ok());
    auto listed = store->list("attempts");
    CHECK(*listed == std::vector<StoreEntry>{{"attempts/1/metrics-000001.jsonl", 90'000},
                                             {"attempts/1/metrics-000002.jsonl", 30'000}});
    auto again =
        bucket_store(kind, fresh(kind, "journal"), shared_server(kind));  // the writer's program died and was restarted
    REQUIRE(again->append("attempts/1/metrics-000001.jsonl", "b").ok());
    CHECK(*again->get("attempts/1/metrics-000003.jsonl") == "b");
    REQUIRE(store->append("m.jsonl", "1").ok());
    REQUIRE(again->append("m.jsonl", "2").ok());
    CHECK(*store->get("m-000002.jsonl") == "2");
    REQUIRE(store->remove_tree("attempts").ok());
}

TEST_CASE("an object is read whole up to the bound of its reader") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    auto store = bucket_store(kind, fresh(kind, "whole"), shared_server(kind));
    REQUIRE(store->put("run.json", "1234").ok());
    CHECK(*store->get("run.json", 4) == "1234");
    const auto refused = store->get("run.json", 3);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::damaged);
    CHECK(refused.error().message.find("run.json") != std::string::npos);
}

TEST_CASE("no answer is unreachable, after as many tries as is set") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    Named values = kind.values("http://127.0.0.1:1");
    values[kind.tries_variable] = "2";
    const auto status = bucket_store(kind, kind.bucket + "/p", values)->put("a", "x");
    CHECK(status.error().code == ErrorCode::unreachable);
    CHECK(says(status.error(), "no answer from http://127.0.0.1:1: "));
    CHECK(says(status.error(), "tried 2 times"));
}

TEST_CASE("a server that is busy for a while is asked again") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    BucketServer server(kind.name, {"--slow-down", "3"});
    auto store = bucket_store(kind, kind.bucket + "/busy", kind.values(server.endpoint));
    REQUIRE(store->put("a", "x").ok());
    CHECK(*store->get("a") == "x");
}

TEST_CASE("a server that ignores the condition is not trusted with claims") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    BucketServer server(kind.name, {"--ignore-conditions"});
    auto store = bucket_store(kind, kind.bucket + "/old", kind.values(server.endpoint));
    const auto created = store->create("claim", "x");
    REQUIRE_FALSE(created.ok());
    CHECK(says(created.error(), "it does not keep " + kind.condition));
    CHECK(says(created.error(), server.endpoint));
    CHECK(store->list("")->empty());
}

TEST_CASE("a create whose answer was lost knows its own object again") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    BucketServer server(kind.name, {"--lose-answers", "1"});
    Named values = kind.values(server.endpoint);
    auto store = bucket_store(kind, kind.bucket + "/lost", values);
    const auto created = store->create("claim", "x");
    REQUIRE(created.ok());
    CHECK(*created);
    CHECK_FALSE(*store->create("claim", "x"));
}

TEST_CASE("a server behind TLS is trusted by AWS_CA_BUNDLE, and by nothing less") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    std::string folder = (fs::temp_directory_path() / "rtrain-tls-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const std::string key = folder + "/key.pem", certificate = folder + "/cert.pem";
    const std::string made =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
        "-keyout " +
        key + " -out " + certificate + " 2>/dev/null";
    REQUIRE(std::system(made.c_str()) == 0);
    BucketServer server(kind.name, {"--tls", certificate, key});
    Named values = kind.values(server.endpoint);
    const auto stranger = bucket_store(kind, kind.bucket + "/tls", values)->put("a", "x");
    CHECK(says(stranger.error(), "set " + kind.ca_variable));
    CHECK_FALSE(says(stranger.error(), "tried"));
    values[kind.ca_variable] = certificate;
    auto store = bucket_store(kind, kind.bucket + "/tls", values);
    REQUIRE(store->put("a", "x").ok());
    CHECK(*store->get("a") == "x");
    fs::remove_all(folder);
}

TEST_CASE("an upload that its server does not survive fails in words, and the next one succeeds") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    std::string folder = (fs::temp_directory_path() / "rtrain-away-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const std::string file = folder + "/weights";
    std::ofstream(file, std::ios::binary) << std::string(60 << 20, 'w');
    auto server = std::make_unique<BucketServer>(kind.name);
    Named values = kind.values(server->endpoint);
    values[kind.tries_variable] = "2";
    auto store = bucket_store(kind, kind.bucket + "/away", values);
    bool stopped = false;
    const auto sent = store->put_file(file, "c/weights", true, [&](auto, auto) {
        if (!stopped) server->stop();
        stopped = true;
    });
    REQUIRE_FALSE(sent.ok());
    CHECK(sent.error().code == ErrorCode::unreachable);
    CHECK(says(sent.error(), "writing " + kind.bucket + "/away/c/weights: no answer from "));
    CHECK(fs::exists(file));  // the file is removed only after the upload
    const std::string port = server->endpoint.substr(server->endpoint.rfind(':') + 1);
    server = std::make_unique<BucketServer>(kind.name, std::vector<std::string>{"--port", port});
    REQUIRE(store->put_file(file, "c/weights", true, {}).ok());
    CHECK(*store->list("c") == std::vector<StoreEntry>{{"c/weights", 60 << 20}});
    fs::remove_all(folder);
}

TEST_CASE("a program that ends is not held by a server that does not answer") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    BucketServer server(kind.name);
    auto store = bucket_store(kind, kind.bucket + "/hung", kind.values(server.endpoint));
    REQUIRE(store->put("a", "x").ok());
    server.halt();
    const auto begin = std::chrono::steady_clock::now();
    end_bucket_requests_at(begin + std::chrono::milliseconds(200));
    const auto status = store->put("a", "y");
    end_bucket_requests_at(std::nullopt);
    CHECK(says(status.error(), "this program ends"));
    // The limit of 30 s without progress is not reached.
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("what a writer that is gone left half uploaded goes with its directory") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    auto client = kind.client(variables_of(shared_server(kind)));
    REQUIRE(client.ok());
    const std::string folder = "half-" + std::to_string(::getpid()), key = folder + "/c/weights";
    const Folder place;
    write_to_file(place.path + "/weights", std::string(6 << 20, 'w'));
    const objects::Source source{.file = Descriptor(::open((place.path + "/weights").c_str(), O_RDONLY | O_CLOEXEC)),
                                 .path = place.path + "/weights",
                                 .bytes = 6 << 20};
    const auto protocol = kind.protocol();
    const auto upload = protocol->upload(**client, key);
    REQUIRE(upload->begin(2).ok());
    REQUIRE(upload->send(source, {.number = 0, .offset = 0, .bytes = 6 << 20}).ok());
    objects::ObjectRequest unfinished = kind.unfinished;
    unfinished.query["prefix"] = key;
    const auto left = [&] {
        return objects::elements((*client)->expect_good(unfinished)->body, kind.unfinished_element).size();
    };
    CHECK(left() == 1);
    auto store = bucket_store(kind, kind.bucket, shared_server(kind));
    CHECK(store->get(key).error().code == ErrorCode::not_found);
    REQUIRE(store->remove_tree(folder).ok());
    CHECK(left() == 0);
    CHECK(store->list(folder)->empty());
}

TEST_CASE("a large upload whose answers are lost is complete, and is not repeated") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    const Folder place;
    const std::string content(40 << 20, 'q');
    write_to_file(place.path + "/weights", content);
    BucketServer server(kind.name, {"--lose-answers", "4"});
    auto store = bucket_store(kind, kind.bucket + "/lost", kind.values(server.endpoint));
    REQUIRE(store->put_file(place.path + "/weights", "c/weights", false, {}).ok());
    CHECK(*store->list("c") == std::vector<StoreEntry>{{"c/weights", 40 << 20}});
    REQUIRE(store->get_file("c/weights", place.path + "/back", {}).ok());
    const bool is_same = bytes_of_file(place.path + "/back") == content;
    CHECK(is_same);
}

TEST_CASE("a long listing comes in several answers") {
    const BucketKind kind = kind_named(GENERATE(from_range(bucket_kinds())));
    const bool is_s3 = kind.name == "s3";  // moto has pages of 1,000
    const int count = is_s3 ? 1'005 : 25;
    BucketServer server(kind.name, is_s3 ? std::vector<std::string>{} : std::vector<std::string>{"--page", "10"});
    auto store = bucket_store(kind, kind.bucket + "/many", kind.values(server.endpoint));
    for (int i = 0; i < count; ++i) REQUIRE(store->put("d/" + std::to_string(10'000 + i), "").ok());
    CHECK(store->list("d")->size() == static_cast<std::size_t>(count));
    REQUIRE(store->remove_tree("d").ok());
    CHECK(store->list("")->empty());
}

}  // namespace rtrain::storage
