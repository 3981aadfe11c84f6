// Uploads to cluster:// over a head that loses answers, or cannot put a file in its place at once.
#include "daemon/agent/peers/cluster_store.hpp"

#include <filesystem>
#include <fstream>

#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/net_world.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

// Collects pieces as the head does. The file gets its name with the last one.
struct Collector {
    std::string part, file;
    bool done = false;
    int moves_that_fail = 0, answers_lost = 0;
    std::vector<std::string> ids;

    net::Response present() const {
        return {.body = "{\"bytes\":" + std::to_string(part.size()) + ",\"done\":" + (done ? "true" : "false") + "}"};
    }
    net::Response take(const net::Request& request) {
        ids.push_back(request.query.at("upload"));
        if (std::stoull(request.query.at("offset")) != part.size()) return {.status = 409, .body = "{}"};
        part += request.body;
        if (part.size() != std::stoull(request.query.at("total"))) return present();
        if (moves_that_fail-- > 0) return {.status = 409, .body = "{}"};  // the head was killed before the move
        file = std::exchange(part, {});
        done = true;
        return answers_lost-- > 0 ? net::Response{.status = 409, .body = "{}"} : present();
    }
};

struct ClusterStoreStory {
    Folder folder;
    Collector head;
    net_tests::TestServer server{[this](const net::Request& request, const std::shared_ptr<net::Responder>& responder) {
        responder->send(request.method == "PUT" ? head.take(request) : head.present());
    }};
    std::unique_ptr<storage::Store> store = open_cluster_store(server.endpoint());
    Status put(const std::string& bytes) {
        std::ofstream(folder.path + "/local") << bytes;
        return store->put_file(folder.path + "/local", "run/model", false, {});
    }
};

}  // namespace

TEST_CASE("an upload whose bytes are all there is done only once the file is in its place") {
    ClusterStoreStory story;
    story.head.moves_that_fail = 1;
    const std::string bytes((8 << 20) + 5, 'x');
    const Status sent = story.put(bytes);
    CHECK((sent ? "" : sent.error().message) == std::string());
    CHECK(story.head.file == bytes);
}

TEST_CASE("an upload whose last answer was lost is not sent again") {
    ClusterStoreStory story;
    story.head.answers_lost = 1;
    CHECK(story.put("weights").ok());
    CHECK(story.head.file == "weights");
    CHECK(story.server.requests == 2);
}

TEST_CASE("a file that the head cannot put in its place is an error, not a checkpoint") {
    ClusterStoreStory story;
    story.head.moves_that_fail = 100;
    CHECK_FALSE(story.put("weights").ok());
}

TEST_CASE("an upload never goes on from the pieces of another, whatever the process that began that") {
    ClusterStoreStory story;
    REQUIRE(story.put("one").ok());
    story.head.done = false;
    REQUIRE(story.put("two").ok());
    REQUIRE(story.head.ids.size() == 2);
    CHECK(story.head.ids[0] != story.head.ids[1]);
    CHECK(story.head.ids[0].size() >= 16);
}
