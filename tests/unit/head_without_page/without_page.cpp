// A head that was built without node. This program links daemon/head/page/without_page.cpp instead of the page.
#include "daemon/head/page/page_files.hpp"
#include "tests/unit/head_fixture.hpp"

using namespace rtrain;
using namespace rtrain::test;

TEST_CASE("a head without the page says so at /, and how to build one with it") {
    REQUIRE(head::page_files().empty());
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    net::Client client(head.endpoint(""));
    const auto front = client.call({.target = "/", .headers = {}});
    REQUIRE(front.ok());
    CHECK(front->status == 200);
    CHECK(front->content_type.starts_with("text/html"));
    for (const char* words : {"This head has no page", "scripts/bootstrap page", "scripts/build", "rtrain status"})
        CHECK(front->body.find(words) != std::string::npos);
    const auto file = client.call({.target = "/assets/index.js", .headers = {}});
    REQUIRE(file.ok());
    CHECK(file->status == 404);
}
