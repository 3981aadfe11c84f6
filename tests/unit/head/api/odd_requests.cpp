// Malformed requests: values of the wrong type in every field, names that no file system allows, numbers beyond a
// double, unlimited nesting. Each is answered, and the head still works afterwards.
#include <random>

#include "base/json_text.hpp"
#include "storage/job_spec/job.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

const std::string long_name(300, 'x');  // file systems allow 255 bytes

std::string nested(std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

// One connection for thousands of requests.
class Requester {
  public:
    explicit Requester(const HeadUnderTest& head) : client_(head.endpoint(head.admin)) {}
    int operator()(const std::string& method, const std::string& target, const std::string& body) {
        const auto answer = client_.call({.method = method, .target = target, .body = body});
        INFO(method << " " << target << " " << body.substr(0, 300));
        REQUIRE((answer ? "" : answer.error().message) == std::string());
        CHECK(answer->status < 500);
        CHECK(json::accept(answer->body));
        return answer->status;
    }

  private:
    net::Client client_;
};

class Oddities {
  public:
    json value() {
        static const std::vector<std::string> texts = {"",
                                                       "x",
                                                       "\n",
                                                       "0",
                                                       "-1",
                                                       "1e999",
                                                       "true",
                                                       "null",
                                                       "../../etc/passwd",
                                                       "/",
                                                       "/dev/null",
                                                       "s3://b/p",
                                                       "gs://",
                                                       "5s",
                                                       "99999999d",
                                                       "8Gi",
                                                       "1-5",
                                                       "1-999999999",
                                                       "run-1",
                                                       "%00",
                                                       "\xf0\x9f\x8d\xb0",
                                                       "a:succeeded",
                                                       "0,3-5",
                                                       "{}",
                                                       "[]",
                                                       "file:///",
                                                       "cluster://",
                                                       std::string("a\0b", 3)};
        static const std::vector<json> values = {nullptr,
                                                 true,
                                                 false,
                                                 0,
                                                 -1,
                                                 7,
                                                 1e300,
                                                 -1e300,
                                                 1e-320,
                                                 0.5,
                                                 std::numeric_limits<std::int64_t>::min(),
                                                 std::numeric_limits<std::uint64_t>::max(),
                                                 json::array(),
                                                 json::object(),
                                                 {1, "two", nullptr},
                                                 {{"at", {{"scaling.workers", 3}}}, {"file", 5}},
                                                 {{"a", {{"b", {{"c", json::array({1, json::object()})}}}}}}};
        const std::size_t index = draw_() % (texts.size() + values.size() + 1);
        if (index < texts.size()) return texts[index];
        if (index < texts.size() + values.size()) return values[index - texts.size()];
        return std::string(draw_() % 5'000, 'y');
    }

  private:
    std::mt19937 draw_{20'260'101};
};

// Adds every place in an object that a schema names, as a JSON pointer.
void add_places(const json& schema, const std::string& at, std::vector<std::string>& out) {
    if (!schema.is_object()) return;
    if (schema.contains("properties"))
        for (const auto& [name, inner] : schema["properties"].items()) {
            out.push_back(at + "/" + name);
            add_places(inner, at + "/" + name, out);
        }
    for (const char* choice : {"anyOf", "oneOf"})
        if (schema.contains(choice))
            for (const json& one : schema[choice]) add_places(one, at, out);
}

}  // namespace

TEST_CASE("values of wrong types in any field of any body are answered, and the head goes on") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path + "/data"});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("waits", 50)}}).status == 201);
    struct Body {
        const char *method, *target;
        json sound;
    };
    const json whole_job = {{"job", job("odd")},
                            {"key", ""},
                            {"code_sha256", ""},
                            {"restore_from", ""},
                            {"resume", false},
                            {"new", true},
                            {"secrets", json::object()},
                            {"array", ""},
                            {"lines", {{"file", "job.yaml"}, {"at", {{"scaling.workers", 3}}}}}};
    json planned = whole_job;
    planned["as_submitted"] = true;
    const std::vector<Body> bodies = {
        {"POST", "/v1/runs", whole_job},
        {"POST", "/v1/plan", planned},
        {"POST", "/v1/runs/waits/resize", {{"workers", 60}, {"deadline_ms", 5}}},
        {"POST", "/v1/runs/waits/checkpoint", {{"x", 1}}},
        {"POST", "/v1/nodes/n1/drain", {{"reason", "odd"}, {"deadline_ms", 5}}},
        {"POST", "/v1/nodes/n1/undrain", {{"x", 1}}},
        {"POST", "/v1/tokens", {{"role", "user"}, {"user", "ann"}, {"expires_ms", 5}, {"uses", 1}}},
        {"POST", "/v1/join", {{"token", "t"}, {"node", "n9"}, {"request", "r"}}},
        {"POST", "/v1/head/backup", {{"file", folder.path + "/backup"}}},
        {"PUT", "/v1/runs/waits/values/validation-x", {{"status", "done"}, {"metrics", {{"loss", 1}}}}}};
    Oddities odd;
    Requester request(head);
    for (const Body& body : bodies)
        for (const auto& [name, value] : body.sound.items())
            for (int round = 0; round < 40; ++round) {
                json changed = body.sound;
                changed[name] = odd.value();
                if (body.target == std::string("/v1/head/backup")) {
                    if (changed[name].is_string() && changed[name].get<std::string>().starts_with("/")) continue;
                }
                request(body.method, body.target, json_text(changed));
            }
    std::vector<std::string> places;
    add_places(parse_json(spec::json_schema()), "", places);
    CHECK(places.size() > 40);
    for (const std::string& place : places)
        for (int round = 0; round < 12; ++round) {
            json changed = planned;
            changed["job"][json::json_pointer(place)] = odd.value();
            request("POST", "/v1/plan", json_text(changed));
        }
    CHECK(head.call("GET", "/v1/status").status == 200);
    const json runs = head.call("GET", "/v1/runs?limit=1000&all=true").body.at("items");
    CHECK_FALSE(runs.empty());
    for (const json& run : runs)
        CHECK(request("GET", "/v1/runs/" + run["run_id"].get<std::string>() + "/explain", "") == 200);
}

TEST_CASE("bodies that are no object, cut off, or nested without end are refused") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("waits")}}).status == 201);
    Requester request(head);
    constexpr std::size_t deep = 2'000'000;
    const std::string body = R"({"job":)" + json_text(json(job("deep")));
    for (const char* route : {"/v1/runs", "/v1/plan"}) {
        for (const char* text : {"[]", "7", "null", "{", "\"x\"", "{\"job\":}", "{\"job\":1e999}", "\xff\xfe"})
            CHECK(request("POST", route, text) >= 400);
        CHECK(request("POST", route, R"({"job":)" + nested(deep) + "}") == 400);
        CHECK(request("POST", route, body + R"(,"lines":{"at":{"x":)" + nested(deep) + "}}}") == 400);
    }
    CHECK(request("PUT", "/v1/runs/waits/values/validation-x", R"({"metrics":)" + nested(deep) + "}") == 200);
    CHECK(head.call("GET", "/v1/status").status == 200);
}

TEST_CASE("a job file's name that is no text is left out, at once and in every later explanation") {
    const TemporaryFolder folder;
    std::string admin;
    json elsewhere = job("lines");
    elsewhere["scaling"]["nodes"] = {"n2"};
    const json asked = {{"job", elsewhere}, {"lines", {{"file", 5}, {"at", {{"scaling.nodes", 3}}}}}};
    const auto names_line = [](const Answer& answer) {
        return answer.status == 200 && answer.text.find("\"line\":\"job.yaml:3\"") != std::string::npos;
    };
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        HandMadeAgent agent(join(head, "n1"), "n1");
        agent.register_node();
        CHECK(eventually([&] { return names_line(head.call("POST", "/v1/plan", asked)); }));
        REQUIRE(head.call("POST", "/v1/runs", asked).status == 201);
        CHECK(names_line(head.call("GET", "/v1/runs/lines/explain")));
    }
    HeadUnderTest again({.data_dir = folder.path});
    again.admin = admin;
    CHECK(again.call("GET", "/v1/runs/lines/explain").status == 200);
}

TEST_CASE("a path that no file system takes is no directory of a run, and no place for a backup") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json far = job("far");
    far["storage_path"] = "/" + long_name;
    REQUIRE(head.call("POST", "/v1/runs", {{"job", far}}).status == 201);
    CHECK(head.call("DELETE", "/v1/runs/far?files=true&dry_run=true").status == 409);  // the run is live
    head.call("POST", "/v1/runs/far/stop");
    REQUIRE(eventually([&] { return state_of(head, "far") == "STOPPED"; }));
    CHECK(head.call("DELETE", "/v1/runs/far?files=true&dry_run=true").status == 200);

    const Answer backup = head.call("POST", "/v1/head/backup", {{"file", "/" + long_name}});
    CHECK(backup.status == 500);
    CHECK(backup.body["message"].get<std::string>().find("File name too long") != std::string::npos);
    CHECK(head.call("GET", "/v1/status").status == 200);
}

TEST_CASE("a number that no double holds is a number next to 0, or a problem with its field") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json tiny = job("tiny"), whole = job("whole");
    tiny["stop"] = {{"loss", 1e-320}};
    whole["failure"] = {{"max_failures", 1e-320}};
    CHECK(head.call("POST", "/v1/plan", {{"job", tiny}}).status == 200);
    CHECK(head.call("POST", "/v1/runs", {{"job", tiny}}).status == 201);
    const Answer refused = head.call("POST", "/v1/runs", {{"job", whole}});
    CHECK(refused.status == 422);
    CHECK(refused.body["problems"][0]["path"] == "failure.max_failures");
    CHECK(head.call("GET", "/v1/status").status == 200);
}
