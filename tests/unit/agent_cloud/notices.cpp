// Notices of clouds: how their answers are read, and how an agent requests them from a server of the test.
#include "daemon/agent/cloud/notices.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "daemon/agent/cloud/plain_http.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain::agent;

namespace {

constexpr std::int64_t noon = 1'700'000'000'000;  // 2023-11-14T22:13:20Z

// Answers every request by its method and target. Keeps the last request for each.
class Metadata {
  public:
    using Answers = std::map<std::string, std::string>;
    explicit Metadata(Answers answers) : answers_(std::move(answers)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
        socklen_t size = sizeof at;
        REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
        REQUIRE(::listen(listener_, 8) == 0);
        place = {.host = "127.0.0.1", .port = ntohs(at.sin_port)};
        thread_ = std::thread([this] { serve(); });
    }
    ~Metadata() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }

    MetadataPlace place;
    std::map<std::string, std::string> questions;  // Read once the answer has arrived.

  private:
    void serve() {
        for (int peer; (peer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(peer)) {
            std::string question;
            for (char piece[1024]; question.find("\r\n\r\n") == question.npos;) {
                const ssize_t got = ::recv(peer, piece, sizeof piece, 0);
                if (got <= 0) break;
                question.append(piece, static_cast<std::size_t>(got));
            }
            const std::string line = question.substr(0, question.find(" HTTP/"));
            questions[line] = question;
            const auto answer = answers_.find(line);
            const std::string body = answer == answers_.end() ? "no such thing" : answer->second;
            const std::string text =
                std::string(answer == answers_.end() ? "HTTP/1.1 404 Not Found" : "HTTP/1.1 200 OK") +
                "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
            (void)::send(peer, text.data(), text.size(), MSG_NOSIGNAL);
        }
    }

    int listener_ = -1;
    std::map<std::string, std::string> answers_;
    std::thread thread_;
};

const std::string azure_events =
    R"({"DocumentIncarnation":2,"Events":[
        {"EventId":"1","EventStatus":"Scheduled","EventType":"Freeze","Resources":["vm-7"],"NotBefore":""},
        {"EventId":"2","EventStatus":"Scheduled","EventType":"Preempt","Resources":["vm-8"],
         "NotBefore":"Tue, 14 Nov 2023 22:13:30 GMT"},
        {"EventId":"3","EventStatus":"Scheduled","EventType":"Preempt","Resources":["vm-7"],
         "NotBefore":"Tue, 14 Nov 2023 22:13:50 GMT"}]})";

}  // namespace

TEST_CASE("the firmware names the cloud, and only these three are asked") {
    CHECK(cloud_of({.sys_vendor = "Amazon EC2", .product_name = "m5.large"}) == Cloud::aws);
    CHECK(cloud_of({.sys_vendor = "Google", .product_name = "Google Compute Engine"}) == Cloud::gcp);
    CHECK(cloud_of({.sys_vendor = "Microsoft Corporation",
                    .product_name = "Virtual Machine",
                    .chassis_asset_tag = "7783-7084-3265-9085-8269-3286-77"}) == Cloud::azure);
    CHECK(cloud_of({.sys_vendor = "Microsoft Corporation", .product_name = "Virtual Machine"}) == Cloud::none);
    CHECK(cloud_of({.sys_vendor = "Dell Inc.", .product_name = "PowerEdge"}) == Cloud::none);
}

TEST_CASE("the names of the firmware are the first lines of its files, and none where there are none") {
    const rtrain::Folder folder;
    rtrain::write_to_file(folder.path + "/sys_vendor", "Amazon EC2\n");
    CHECK(cloud_of(firmware_names(folder.path)) == Cloud::aws);
    CHECK(cloud_of(firmware_names(folder.path + "/nothing")) == Cloud::none);
}

TEST_CASE("AWS is asked with a token, and tells what it will do and when") {
    Metadata server(
        {{"PUT /latest/api/token", "t0ken"},
         {"GET /latest/meta-data/spot/instance-action", R"({"action": "terminate", "time": "2023-11-14T22:15:20Z"})"}});
    CHECK(look_for_notice(Cloud::aws, server.place, noon) ==
          CloudNotice{"AWS will terminate this spot instance", 120'000});
    const std::string question = server.questions["GET /latest/meta-data/spot/instance-action"];
    CHECK(question.find("X-aws-ec2-metadata-token: t0ken\r\n") != question.npos);
}

TEST_CASE("an instance that stays has no notice") {
    Metadata quiet({{"PUT /latest/api/token", "t0ken"},
                    {"GET /computeMetadata/v1/instance/preempted", "FALSE"},
                    {"GET /metadata/instance/compute/name?api-version=2021-02-01&format=text", "vm-9"},
                    {"GET /metadata/scheduledevents?api-version=2020-07-01", azure_events}});
    for (const Cloud cloud : {Cloud::none, Cloud::aws, Cloud::gcp, Cloud::azure})
        CHECK_FALSE(look_for_notice(cloud, quiet.place, noon));
}

TEST_CASE("Google Cloud says TRUE, half a minute before the end") {
    Metadata server(Metadata::Answers{{"GET /computeMetadata/v1/instance/preempted", "TRUE\n"}});
    CHECK(look_for_notice(Cloud::gcp, server.place, noon) == CloudNotice{"Google Cloud preempts this machine", 30'000});
    const std::string question = server.questions["GET /computeMetadata/v1/instance/preempted"];
    CHECK(question.find("Metadata-Flavor: Google\r\n") != question.npos);
}

TEST_CASE("of Azure's events those count that take this machine") {
    Metadata server({{"GET /metadata/instance/compute/name?api-version=2021-02-01&format=text", "vm-7"},
                     {"GET /metadata/scheduledevents?api-version=2020-07-01", azure_events}});
    CHECK(look_for_notice(Cloud::azure, server.place, noon) == CloudNotice{"Azure: Preempt of this machine", 30'000});
}

TEST_CASE("what is no answer of a cloud is no notice") {
    for (const char* text : {"", "[]", "{}", "null", R"({"action": 7, "time": "soon"})", R"({"Events": {}})",
                             R"({"Events": [1, {"EventType": "Preempt", "Resources": "vm-7"}]})"}) {
        CHECK_FALSE(aws_notice(text, noon));
        CHECK_FALSE(azure_notice(text, "vm-7", noon));
        CHECK_FALSE(gcp_notice(text));
    }
    CHECK_FALSE(look_for_notice(Cloud::aws, {.host = "127.0.0.1", .port = 1}, noon));  // No server listens there.
}

TEST_CASE("an HTTP answer is read whole, or not at all") {
    CHECK(read_http_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc") == HttpAnswer{200, "ab"});
    CHECK(read_http_answer("HTTP/1.0 404 No\r\n\r\nrest") == HttpAnswer{404, "rest"});
    CHECK(read_http_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n") ==
          HttpAnswer{200, "abcd"});
    for (const char* text : {"", "HTTP/1.1", "HTTP/1.1 2\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"})
        CHECK_FALSE(read_http_answer(text));
}
