// The JSON Schema and the reader agree. Both get each odd value in each field.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/json_text.hpp"
#include "storage/job_spec/fields/rules.hpp"
#include "storage/job_spec/job.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path repository() { return test::source_directory(); }

std::string text_of(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

// Reads {"schema", "jobs"} and prints one 0 or 1 for each job.
constexpr const char* validator = R"(
import json, sys
import jsonschema
given = json.load(open(sys.argv[1]))
check = jsonschema.Draft202012Validator(given["schema"])
check.check_schema(given["schema"])
print("".join("1" if check.is_valid(job) else "0" for job in given["jobs"]))
)";

// Returns the verdicts of Python's jsonschema; empty if it is not installed.
std::string verdicts(const json& schema, const std::vector<json>& jobs) {
    const fs::path python = repository() / ".venv/bin/python";
    if (!fs::exists(python) || std::system((python.string() + " -c 'import jsonschema' 2>/dev/null").c_str()) != 0)
        return "";
    std::string folder = (fs::temp_directory_path() / "rtrain-schema-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/check.py") << validator;
    std::ofstream(folder + "/given.json") << json_text(json{{"schema", schema}, {"jobs", jobs}});
    const int code = std::system(
        (python.string() + " " + folder + "/check.py " + folder + "/given.json > " + folder + "/out").c_str());
    std::string out = text_of(folder + "/out");
    fs::remove_all(folder);
    REQUIRE(code == 0);
    return out;
}

std::vector<json> odd_values() {
    std::vector<json> values;
    for (const char* text : {"null",
                             "true",
                             "false",
                             "0",
                             "1",
                             "-1",
                             "4.0",
                             "1.5",
                             "70",
                             "101",
                             "0.00005",
                             "1e3",
                             "1e400",
                             "\"\"",
                             "\" \"",
                             "\"x\"",
                             "\"5m\"",
                             "\"1h30m\"",
                             "\"5 m\"",
                             "\"1s..5m\"",
                             "\"5m..1s\"",
                             "\"2..8\"",
                             "\"8..2\"",
                             "\"PACK\"",
                             "\"pack\"",
                             "\"max\"",
                             "\"sync\"",
                             "\"nccl\"",
                             "\"0,3-5\"",
                             "\"/a\"",
                             "\"a/b\"",
                             "\"s3://b/p\"",
                             "\"s3:///\"",
                             "\"file:///x\"",
                             "\"-a\"",
                             "\"eth0\"",
                             "\"in(a\"",
                             "[]",
                             "[\"a\"]",
                             "[\"\"]",
                             "[1]",
                             "[\"a b\"]",
                             "{}",
                             "{\"a\":1}",
                             "{\"a\":\"x\"}",
                             "{\"a\":null}",
                             "{\"1a\":\"x\"}",
                             "{\"\":\"x\"}",
                             "{\"CPU\":\"0.5\"}",
                             "{\"memory\":\"4Gi\"}",
                             "{\"memory\":\"4GB\"}",
                             "{\"CPU\":-1}",
                             "{\"GPU\":1.5}",
                             "{\"tensorboard\":true}",
                             "{\"tensorboard\":1}",
                             "{\"zone\":\"!us\"}",
                             "{\"zone\":\"in(\"}"}) {
        const json value = parse_json(text);
        if (!value.is_discarded()) values.push_back(value);
    }
    return values;
}

std::vector<json> odd_jobs(const json& schema) {
    std::vector<json> jobs = {parse_json(R"({"entrypoint":"x"})"), json::object(), json::array(),
                              parse_json(R"({"entrypoint":"x","nam":1})"),
                              parse_json(R"({"entrypoint":"x","scaling":{"wokers":1}})")};
    for (const auto& [name, field] : schema["properties"].items()) {
        for (const json& value : odd_values()) {
            json job = {{"entrypoint", "x"}};
            job[name] = value;
            jobs.push_back(job);
            if (!field.contains("properties")) continue;
            for (const auto& [inner, ignored] : field["properties"].items()) {
                job[name] = {{inner, value}};
                jobs.push_back(job);
            }
        }
    }
    return jobs;
}

// Returns true if the problems are contradictions, ranges or kinds that a schema cannot express.
bool only_the_reader_can_see(const Problems& problems) {
    const std::vector<std::string> phrases = {"begins above its end",
                                              "in this process",
                                              "at most",
                                              "finer than",
                                              "whole number of them",
                                              "a driver is one worker",
                                              "needs a GPU",
                                              "not supported by this version",
                                              "end the run at once",
                                              "is for memory",
                                              "are for memory",
                                              "name is empty",
                                              "label",
                                              "is not an amount"};
    return std::all_of(problems.begin(), problems.end(), [&](const Problem& problem) {
        return std::any_of(phrases.begin(), phrases.end(), [&](const std::string& phrase) {
            return problem.message.find(phrase) != std::string::npos;
        });
    });
}

}  // namespace

TEST_CASE("the schema and the reader agree on every odd value in every field") {
    const json schema = parse_json(json_schema());
    const std::vector<json> jobs = odd_jobs(schema);
    const std::string by_schema = verdicts(schema, jobs);
    if (by_schema.empty()) {
        WARN("skipped: .venv/bin/python with the jsonschema package is not there");
        return;
    }
    std::size_t good = 0, seen_by_reader_only = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const ReadAnswer answer = job_from_json(json_text(jobs[i]));
        const bool schema_takes = by_schema.at(i) == '1';
        const bool agree = answer.job.has_value() == schema_takes;
        good += answer.job ? 1 : 0;
        if (answer.job) {  // the written form of the job is read as an equal job
            const ReadAnswer again = job_from_json(to_json(*answer.job));
            CAPTURE(json_text(jobs[i]));
            CHECK((again.job && *again.job == *answer.job));
        }
        if (agree) continue;
        CAPTURE(json_text(jobs[i]), answer.problems.empty() ? "" : answer.problems[0].message);
        CHECK(schema_takes);  // the schema accepts every job that the reader accepts
        CHECK(only_the_reader_can_see(answer.problems));
        ++seen_by_reader_only;
    }
    CHECK(jobs.size() > 2000);
    CHECK(good > 200);
    CHECK(seen_by_reader_only < jobs.size() / 20);
}

TEST_CASE("the schema in configs/ is the one of this program") {
    const fs::path file = repository() / "configs/job.schema.json";
    if (!fs::exists(file)) {
        WARN("skipped: the source tree is not here");
        return;
    }
    INFO("renew it: rtrain schema > configs/job.schema.json");
    CHECK(parse_json(text_of(file)) == parse_json(json_schema()));
}

TEST_CASE("no bytes make the reader do anything but answer") {
    const std::string good =
        "version: 1\nname: \"a\\u00e4\"\nentrypoint: [a, 'b c']\nenv: {A: ${X:-1}, B: |\n   x\n  }\nscaling:\n  "
        "workers: 2..8\n"
        "  resources_per_worker: {CPU: 0.5, memory: 4Gi}\n  label_selector: {a: 'in(b,c)'}\nstop: {e: 1e3}\nsetup: "
        ">-\n  a\n  b\n? k\n: v\n--- # x\n*a &b !!c\n";
    std::mt19937 random(20240131);
    for (int round = 0; round < 3000; ++round) {
        std::string text = good;
        const std::size_t changes = 1 + random() % 4;
        for (std::size_t i = 0; i < changes; ++i) {
            const std::size_t at = random() % text.size();
            static constexpr char odd[] =
                "{}[]:,&*!|>'\"%@`#-?\t\n\r \\$\x80\xff"
                "0:~<.";
            if (random() % 3 == 0)
                text.erase(at, 1 + random() % 9);
            else if (random() % 2 == 0)
                text.insert(at, 1, odd[random() % (sizeof odd - 1)]);
            else
                text[at] = static_cast<char>(random());
            if (text.empty()) text = "x";
        }
        const ReadAnswer answer = read_job(text, {.sets = {text.substr(0, 40)}});
        CHECK(answer.job.has_value() == answer.problems.empty());
        for (const Problem& problem : answer.problems) CHECK_FALSE(problem_text(problem, "job.yaml", text).empty());
        const YamlAnswer yaml = strict_yaml(text);
        if (yaml.problems.empty()) CHECK_FALSE(parse_json(yaml.json).is_discarded());
        job_from_json(text);
    }
}

TEST_CASE("a whole number beyond 64 bits is read as the last one within") {
    const auto read = [](const char* text) { return whole_number(Value{.kind = Kind::number, .text = text}); };
    CHECK(read("4.0") == 4);
    CHECK(read("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
    CHECK(read("18446744073709551615") == 9'223'372'036'854'774'784);  // the value is read as a double
    CHECK(read("-1e300") == -9'223'372'036'854'774'784);
}

}  // namespace rtrain::spec
