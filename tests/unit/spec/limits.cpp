// The bounds of a spec. Each list has a bound, a text of excessive size is refused, and the list of problems is
// bounded.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "storage/job_spec/fields/rules.hpp"
#include "storage/job_spec/job.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::spec;
using nlohmann::json;

namespace {

json many(std::size_t count, const std::string& stem) {
    json out = json::array();
    for (std::size_t i = 0; i < count; ++i) out.push_back(stem + std::to_string(i));
    return out;
}
json many_keys(std::size_t count, const std::string& stem, const json& value) {
    json out = json::object();
    for (std::size_t i = 0; i < count; ++i) out[stem + std::to_string(i)] = value;
    return out;
}
json job_with(const std::string& path, json value) {
    json job = {{"entrypoint", "python train.py"}};
    const std::size_t dot = path.find('.');
    (dot == std::string::npos ? job[path] : job[path.substr(0, dot)][path.substr(dot + 1)]) = std::move(value);
    return job;
}
ReadAnswer read(const json& job, JsonFrom from = JsonFrom::submitter) { return job_from_json(json_text(job), from); }
// Returns the only problem of a job.
std::string problem_of(const json& job) {
    const ReadAnswer answer = read(job);
    REQUIRE(answer.problems.size() == 1);
    return answer.problems[0].path + ": " + answer.problems[0].message;
}
// Returns a list or map for the field at `path` with `count` valid entries.
json full(const std::string& path, std::size_t count) {
    if (path == "stop") return many_keys(count, "metric", 1.5);
    if (path == "env" || path == "labels" || path == "scaling.label_selector") return many_keys(count, "KEY_", "x");
    if (path.find("resources") != std::string::npos) return many_keys(count, "slots", 1);
    return many(count, "a");
}

}  // namespace

TEST_CASE("every field that takes a list or a map has a limit, and no other one") {
    for (const Rule& rule : rules()) {
        const std::string schema = rule.schema;
        const bool takes_many =
            schema.find("\"array\"") != std::string::npos || schema.find("\"object\"") != std::string::npos;
        INFO(rule.path);
        CHECK((list_limit(rule.path) > 0) == takes_many);
    }
}

TEST_CASE("a list or map at its limit is read, and one entry more is refused with the limit") {
    for (const ListLimit& limit : list_limits) {
        const std::string path(limit.path);
        INFO(path);
        if (path == "tracking") continue;                  // only three names are valid
        if (path == "scaling.worker_selectors") continue;  // its number must equal the number of workers
        const ReadAnswer fits = read(job_with(path, full(path, limit.most)));
        CHECK(fits.job);
        const json beyond = job_with(path, full(path, limit.most + 1));
        CHECK(problem_of(beyond) ==
              path + ": has " + std::to_string(limit.most + 1) + " entries; the most is " + std::to_string(limit.most));
        CHECK(read(beyond, JsonFrom::record).job);  // accepted from a record, since an earlier version accepted it
    }
}

TEST_CASE("60000 nodes, secrets or odd entries of env are refused before any of them is looked at") {
    CHECK(problem_of(job_with("scaling.nodes", many(60'000, "n"))) ==
          "scaling.nodes: has 60000 entries; the most is 2048");
    CHECK(problem_of(job_with("secrets", many(60'000, "S"))) == "secrets: has 60000 entries; the most is 256");
    CHECK(problem_of(job_with("env", many_keys(60'000, "no name ", json::array()))) ==
          "env: has 60000 entries; the most is 1024");
}

TEST_CASE("of 60000 unknown fields 100 are listed, and the others are counted") {
    json job = many_keys(60'000, "fieldd", 1);
    job["entrypoint"] = "x";
    const ReadAnswer answer = read(job);
    REQUIRE(answer.problems.size() == 101);
    CHECK(answer.problems[0].message == "unknown field");
    CHECK(answer.problems[100].message == "and 59900 more problems");
    std::string yaml = "entrypoint: x\n";
    for (int i = 0; i < 60'000; ++i) yaml += "fieldd" + std::to_string(i) + ": 1\n";
    const ReadAnswer of_yaml = read_job(yaml, {});
    REQUIRE(of_yaml.problems.size() == 101);
    CHECK(of_yaml.problems[99].line == 101);
    CHECK(of_yaml.problems[100].message == "and 59900 more problems");
}

TEST_CASE("a field behind the hundredth problem is as unusable as the first") {
    json job = many_keys(200, "aaaa", 1);
    job["entrypoint"] = "x";
    job["scaling"] = {{"use_gpu", true}, {"resources_per_worker", {{"GPU", "many"}}}};
    const ReadAnswer answer = read(job);
    REQUIRE(answer.problems.size() == 101);
    CHECK(answer.problems[100].message == "and 101 more problems");  // no problem is about use_gpu and its GPUs
}

TEST_CASE("what YAML itself refuses is listed to the same length") {
    std::string yaml = "entrypoint: x\nafter:\n";
    for (int i = 0; i < 300; ++i) yaml += "- NO\n";
    const ReadAnswer answer = read_job(yaml, {});
    REQUIRE(answer.problems.size() == 101);
    CHECK(answer.problems[100].message.starts_with("and "));
}

TEST_CASE("a document has a bounded number of values, whatever they are") {
    const std::string beyond = "more than " + std::to_string(values_most) + " values";
    CHECK(problem_of(job_with("after", many(values_most, "a"))) == ": " + beyond);
    std::string yaml = "entrypoint: x\nafter: [";
    for (std::size_t i = 0; i < values_most; ++i) yaml += "a,";
    const ReadAnswer answer = read_job(yaml + "a]\n", {});
    REQUIRE(answer.problems.size() == 1);
    CHECK(answer.problems[0].message == beyond);
}

TEST_CASE("columns of a line that holds everything are those of its characters") {
    std::string yaml = "{entrypoint: x, ";
    for (int i = 0; i < 90; ++i) yaml += "\xC3\xA9" + std::to_string(i) + ": ,";
    const ReadAnswer answer = read_job(yaml + "}", {});
    REQUIRE(answer.problems.size() == 90);
    CHECK(answer.problems[0].column == 17);
    CHECK(answer.problems[1].column == 22);
    CHECK(answer.problems[89].column == 17 + 10 * 5 + 79 * 6);
}

TEST_CASE("a run has as many workers as there may be, and their amounts and labels have a bound together") {
    CHECK(read(job_with("scaling.workers", workers_most)).job);
    CHECK(problem_of(job_with("scaling.workers", 1'000'000)) ==
          "scaling.workers: at most " + std::to_string(workers_most) + " workers");
    CHECK(problem_of(job_with("scaling.workers", "1..1000000")) ==
          "scaling.workers: at most " + std::to_string(workers_most) + " workers");
    CHECK(read(job_with("scaling.workers", 1'000'000), JsonFrom::record).job);
    json job = job_with("scaling.workers", workers_most);
    job["scaling"]["label_selector"] = {{"rack", "in(" + std::string(4'000, 'r') + ")"}};
    CHECK(problem_of(job).find("are more than 33554432 bytes") != std::string::npos);
    job["scaling"]["workers"] = 100;
    CHECK(read(job).job);
}

TEST_CASE("a condition on a label has a bounded number of values") {
    std::string values = "in(a";
    for (std::size_t i = 0; i < selector_values_most; ++i) values += ",b" + std::to_string(i);
    CHECK(problem_of(job_with("scaling.label_selector", {{"rack", values + ")"}})) ==
          "scaling.label_selector.rack: has 257 values; the most is 256");
}
