// Text for screens and programs: units, escapes, tables, YAML, exit codes.
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/api.hpp"
#include "cmd/text/line_pattern.hpp"
#include "cmd/text/output.hpp"
#include "cmd/text/reasons.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/terminal.hpp"
#include "cmd/text/units.hpp"
#include "cmd/verbs/audit_verbs.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::cmd;
using nlohmann::json;

TEST_CASE("logs --grep finds what people write, in a line of any length, and names what is no pattern") {
    const auto finds = [](const char* pattern, const std::string& line) {
        const auto compiled = LinePattern::compile(pattern);
        REQUIRE(compiled);
        return compiled->found_in(line);
    };
    CHECK(finds("loss", "epoch 2: loss 0.5"));
    CHECK_FALSE(finds("^loss", "epoch 2: loss 0.5"));
    CHECK(finds("epoch \\d+: (?:loss|accuracy) [\\d.]+$", "epoch 12: accuracy 0.5"));
    CHECK(finds("[^\\s]+Error|OOM\\b", "RuntimeError: x"));
    CHECK(finds("a{2,3}\\.b\\D\\w", "aa.b-c"));
    CHECK_FALSE(finds("a\\.b", "aXb"));
    CHECK(finds("[]x]", "]"));
    CHECK(finds("[[:digit:]x]y", "7y"));
    CHECK_FALSE(finds("(a|b)*c", std::string(1 << 20, 'a')));  // std::regex needs a stack of the text's length.
    for (const char* wrong : {"(", "[a", "a{2,1}", "*("}) {
        INFO(wrong);
        const auto refused = LinePattern::compile(wrong);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == ErrorCode::usage);
        CHECK(refused.error().message.find(wrong) != std::string::npos);
    }
}

TEST_CASE("durations are read as they are written") {
    CHECK(parse_duration("90s") == 90'000);
    CHECK(parse_duration("1h30m") == 5'400'000);
    CHECK(parse_duration("250ms") == 250);
    CHECK(parse_duration("14d") == 1'209'600'000);
    for (const char* wrong : {"", "5", "m", "5 m", "-3s", "1x", "99999999999999999999d"}) CHECK(!parse_duration(wrong));
    CHECK(duration_text(7'860'000) == "2h11m");
    CHECK(duration_text(41) == "41ms");
    CHECK(duration_text(0) == "0ms");
}

TEST_CASE("times go to text and back without loss") {
    const std::int64_t now = 1'769'860'800'123;
    CHECK(time_text(now) == "2026-01-31T12:00:00.123Z");
    CHECK(parse_time("2026-01-31T12:00:00.123Z") == now);
    CHECK(!parse_time("yesterday"));
}

TEST_CASE("sizes have three digits or so") {
    CHECK(bytes_text(512) == "512 B");
    CHECK(bytes_text(1536) == "1.5 KiB");
    CHECK(bytes_text(200LL << 30) == "200 GiB");
}

TEST_CASE("amounts of bytes are read with the units of two's powers, and nothing else") {
    CHECK(parse_bytes("4096") == 4'096);
    CHECK(parse_bytes("512Mi") == 512LL << 20);
    CHECK(parse_bytes("100GiB") == 100LL << 30);
    for (const char* wrong : {"", "0", "-1", "1GB", "1G", "GiB", "9Ei", "9999999999Ti", "1GiBx"}) {
        INFO(wrong);
        CHECK_FALSE(parse_bytes(wrong));
    }
}

TEST_CASE("terminal escapes are shown, not obeyed") {
    CHECK(shown("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m");
    CHECK(shown("a\tb\nc") == "a\tb\nc");
    CHECK(shown_line("a\rb\n") == "a\\x0db\\x0a");
    CHECK(shown("\xc2\x9b"
                "31m") == "\\x9b31m");  // A C1 control sequence introducer in UTF-8.
    CHECK(shown("\xe2\x80\xae"
                "evil") == "\\u202eevil");  // A right-to-left override.
    CHECK(shown("caf\xc3\xa9 \xe6\x97\xa5") == "caf\xc3\xa9 \xe6\x97\xa5");
    CHECK(shown("\xff\xfe") == "\\xff\\xfe");           // Bytes that are not UTF-8.
    CHECK(shown("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");  // An overlong form.
}

TEST_CASE("JSON for programs is safe on a terminal as well") {
    const std::string text = terminal_json({{"name", "\x1b[2J\xc2\x9b\x7f"}}, -1);
    CHECK(text == R"({"name":"\u001b[2J\u009b\u007f"})");
    CHECK(parse_json(text)["name"] == "\x1b[2J\xc2\x9b\x7f");
}

TEST_CASE("a table shows the first line of a text that has several") {
    const json items = json::array({{{"name", "gpt"}, {"reason", "ValueError: boom\n  at train.py:3\nTraceback"}}});
    const std::vector<Column> columns{{"NAME", "name"}, {"REASON", "reason"}};
    CHECK(table_text(items, columns, Format::table, false) == "NAME  REASON\ngpt   ValueError: boom ...\n");
}

TEST_CASE("a table aligns by what is seen, and wide columns come only when asked for") {
    const json items = json::array({{{"name", "gpt"}, {"state", "RUNNING"}, {"user", "ana"}},
                                    {{"name", "日本"}, {"state", nullptr}, {"user", ""}}});
    const std::vector<Column> columns{
        {"NAME", "name"}, {"STATE", "state", Shape::state}, {"USER", "user", Shape::text, true}};
    CHECK(table_text(items, columns, Format::table, false) == "NAME  STATE\ngpt   RUNNING\n日本  -\n");
    CHECK(table_text(items, columns, Format::wide, false) ==
          "NAME  STATE    USER\ngpt   RUNNING  ana\n日本  -        -\n");
    CHECK(table_text(items, columns, Format::table, true).find("\x1b[32mRUNNING\x1b[0m") != std::string::npos);
}

TEST_CASE("a field with dots in its name is found") {
    const json item = {{"metrics", {{"val.loss", 0.25}}}};
    CHECK(cell_text(item, {"", "metrics.val.loss"}) == "0.25");
    CHECK(cell_text(item, {"", "metrics.none"}) == "-");
}

TEST_CASE("YAML quotes what some reader would bend") {
    CHECK(yaml_text({{"a", "no"},
                     {"b", "plain"},
                     {"c", "010"},
                     {"d", json::array()},
                     {"e", {{"f", json::array({1, "x: y"})}}}}) ==
          "a: \"no\"\nb: plain\nc: \"010\"\nd: []\ne:\n  f:\n    - 1\n    - \"x: y\"\n");
}

TEST_CASE("YAML leaves no string bare that a reader of YAML 1.1 or 1.2 takes for another value") {
    for (const char* text :
         {"NO",   "No",  "010",  "1e3",  "~",          "on",    "Off",    "null", "NULL", "true", "True",  "y",
          "Y",    "N",   "0x10", ".5",   "12:30",      "",      "a: b",   "- a",  "=",    "<<",   "1_000", ".inf",
          ".nan", "nan", "inf",  "0o14", "2024-01-01", " lead", "trail ", "#c",   "@x",   "`x",   "%x",    "!t",
          "&a",   "*a",  "?",    "|",    ">",          "{}",    "[]",     "'q'",  "a\nb", "a\tb", "---"}) {
        CAPTURE(text);
        CHECK(yaml_text({{"key", text}}) == "key: " + json_text(json(text)) + "\n");
        CHECK(yaml_text({{text, 1}}) == json_text(json(text)) + ": 1\n");
    }
}

TEST_CASE("every error has its exit code and its word, both ways") {
    CHECK(exit_code(ErrorCode::not_found) == 3);
    CHECK(exit_code(ErrorCode::unplaceable) == 9);
    CHECK(exit_code(ErrorCode::damaged) == 11);
    CHECK(code_from("unplaceable", 409) == ErrorCode::unplaceable);
    CHECK(code_from("", 403) == ErrorCode::unauthorised);
    CHECK(code_from("", 418) == ErrorCode::usage);
    const json error = error_json({.code = ErrorCode::invalid, .message = "m", .next = "n"},
                                  {{.path = "a.b", .line = 3, .column = 1, .message = "p", .suggestion = ""}});
    CHECK(error["schema_version"] == 1);
    CHECK(error["error"]["code"] == "invalid");
    CHECK(error["error"]["exit_code"] == 4);
    CHECK(error["error"]["problems"][0]["line"] == 3);
}

TEST_CASE("reasons that say the same are counted together, the most frequent first") {
    const json reasons = json::array({{{"node", "n1"}, {"text", "draining"}},
                                      {{"node", "n2"}, {"text", "GPUs busy"}},
                                      {{"node", "n3"}, {"text", "GPUs busy"}}});
    CHECK(reasons_text(reasons) == "    2  GPUs busy   n2 n3\n    1  draining   n1\n");
}

TEST_CASE("describe names the rank that failed first, and by how much") {
    const json attempt = {
        {"number", 1},
        {"state", "FAILED"},
        {"lasted_ms", 18 * 60'000},
        {"from", ""},
        {"cause", "rank 5 on n4"},
        {"nodes", {"n4"}},
        {"first_failure", {{"rank", 5}, {"node", "n4"}, {"lead_us", 412'000}, {"cause", "killed by signal 9"}}}};
    const std::string text =
        run_text({{"name", "vit"}, {"run_id", "c0ffee-1"}, {"state", "RECOVERING"}}, json::array({attempt}));
    CHECK(text.find("First failure, attempt 1: rank 5, n4, 412ms before any other. killed by signal 9. Last lines: "
                    "rtrain logs vit --attempt 1 --rank failed") != std::string::npos);
    CHECK(text.find("18m") != std::string::npos);
}

TEST_CASE("describe says where the time went, the largest causes first, and what to do") {
    const json causes = {
        {"productive", 5'400'000}, {"queue", 60'000}, {"replay", 600'000}, {"detect", 700}, {"data", 0}};
    const std::string text = run_text({{"name", "gpt"},
                                       {"goodput", {{"wall_ms", 6'060'700}, {"ratio", 0.9}, {"causes_ms", causes}}},
                                       {"advice", {{{"kind", "data"}, {"text", "the loader is behind"}}}}},
                                      json::array());
    CHECK(text.find("time         89 % productive of 1h41m; replay 10m, queue 1m\n") != std::string::npos);
    CHECK(text.find("advice       the loader is behind\n") != std::string::npos);
    CHECK(run_text({{"name", "gpt"}}, json::array()).find("time ") == std::string::npos);
}

TEST_CASE("what goes into a URL is encoded") { CHECK(url_part("a b/c@\xc3\xa9") == "a%20b%2Fc%40%C3%A9"); }

TEST_CASE("the audit of a run has its submission and what was done to it, and no other run's rows") {
    const auto row = [](std::uint64_t sequence, const std::string& target, const std::string& run) {
        return state::AuditRow{.sequence = sequence, .target = target, .run = run};
    };
    const std::vector<state::AuditRow> rows = {
        row(1, "/v1/runs name=train", "c-1"),          row(2, "/v1/runs name=train-2", "c-2"),
        row(3, "/v1/runs/train/stop?now=1", "c-1"),    row(4, "/v1/runs/train-2/stop", "c-2"),
        row(5, "/v1/runs/c-1?files=true", "c-1"),      row(6, "/v1/storage/train/x", ""),
        row(7, "/v1/storage/other/train", ""),         row(8, "/v1/nodes/train/drain", ""),
        row(9, "/v1/runs/c-2/stop?why=/train", "c-2"), row(10, "/v1/tokens id=1 role=user user=train", ""),
    };
    const auto numbers = [&](const std::string& run) {
        std::vector<std::uint64_t> out;
        for (const state::AuditRow& one : cmd::rows_of_run(rows, run)) out.push_back(one.sequence);
        return out;
    };
    CHECK(numbers("train") == std::vector<std::uint64_t>{1, 3, 5, 6});
    CHECK(numbers("c-1") == std::vector<std::uint64_t>{1, 3, 5});
    CHECK(numbers("train-2") == std::vector<std::uint64_t>{2, 4, 9});
    CHECK(numbers("t").empty());
}
