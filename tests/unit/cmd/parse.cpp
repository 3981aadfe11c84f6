// Command lines become verbs by one table; nothing is guessed.
#include "cmd/dispatch/completion.hpp"
#include "cmd/dispatch/dispatch.hpp"
#include "cmd/line/command.hpp"
#include "cmd/text/suggest.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::cmd;

namespace {

Parsed good(const std::vector<std::string>& words) {
    Result<Parsed> parsed = parse(words);
    INFO((parsed ? "" : parsed.error().message));
    REQUIRE(parsed);
    return *parsed;
}

Error bad(const std::vector<std::string>& words) {
    Result<Parsed> parsed = parse(words);
    REQUIRE(!parsed);
    CHECK(parsed.error().code == ErrorCode::usage);
    return parsed.error();
}

// Returns the words of the rtrain command in a shell line, without the program's name.
std::vector<std::string> words_of(const std::string& line) {
    const std::string from = line.substr(line.find("rtrain ") + 7);
    std::vector<std::string> words;
    std::string word;
    bool quoted = false;
    for (const char c : from + ' ') {
        if (c == '\'') {
            quoted = !quoted;
        } else if (!quoted && (c == ')' || c == '|' || c == '>' || c == ' ')) {
            if (!word.empty()) words.push_back(std::exchange(word, {}));
            if (c != ' ') return words;
        } else {
            word += c;
        }
    }
    return words;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a verb of two words, its argument and its flags are read in any order") {
    const Parsed parsed = good({"-o", "json", "runs", "rm", "--dry-run", "gpt", "--files"});
    CHECK(std::string(parsed.command->words) == "runs rm");
    CHECK(parsed.arguments.positional == std::vector<std::string>{"gpt"});
    CHECK(parsed.arguments.text("output") == "json");
    CHECK(parsed.arguments.has("files"));
    CHECK(parsed.arguments.has("dry-run"));
}

TEST_CASE("a verb that is also the first word of another stands alone") {
    CHECK(std::string(good({"runs"}).command->words) == "runs");
    CHECK(std::string(good({"runs", "-a"}).command->words) == "runs");
}

TEST_CASE("values are taken after a space, an equals sign or a letter") {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"logs", "r", "--tail", "5"}, {"logs", "r", "--tail=5"}})
        CHECK(good(words).arguments.number("tail", 0) == 5);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"runs", "-o", "name"}, {"runs", "-oname"}, {"runs", "-o=name"}})
        CHECK(good(words).arguments.text("output") == "name");
}

TEST_CASE("a repeated flag keeps all its values, another given twice is an error") {
    CHECK(good({"submit", "j", "--set", "a=1", "--set", "b=2"}).arguments.list("set") ==
          std::vector<std::string>{"a=1", "b=2"});
    CHECK(has(bad({"logs", "r", "--tail", "1", "--tail", "2"}).message, "twice"));
}

TEST_CASE("a prefix of a flag is not that flag") {
    const Error error = bad({"logs", "r", "--foll"});
    CHECK(has(error.message, "unknown flag \"--foll\""));
}

TEST_CASE("slips are answered with the nearest word") {
    CHECK(has(bad({"sumbit", "job.yaml"}).message, "did you mean \"submit\"?"));
    CHECK(has(bad({"head", "strat"}).message, "did you mean \"start\"?"));
    CHECK(has(bad({"logs", "r", "--folow"}).message, "did you mean \"--follow\"?"));
    CHECK(has(bad({"runs", "-o", "jsn"}).message, "did you mean \"json\"?"));
    CHECK(!has(bad({"frobnicate"}).message, "did you mean"));
}

TEST_CASE("what is missing, too much or of the wrong kind is named") {
    CHECK(has(bad({"describe"}).message, "needs RUN|NODE"));
    CHECK(has(bad({"nodes", "extra"}).message, "does not take \"extra\""));
    CHECK(has(bad({"logs", "r", "--tail", "many"}).message, "not a whole number"));
    CHECK(has(bad({"logs", "r", "--since", "5 parsecs"}).message, "not a duration"));
    CHECK(has(bad({"logs", "r", "--since"}).message, "--since needs TIME"));
    CHECK(has(bad({"head"}).message, "needs a verb: start"));
    CHECK(has(bad({"head", "start", "--detach=yes"}).message, "takes no value"));
}

TEST_CASE("an empty value, and a value that is the name of a flag, are values") {
    CHECK(good({"logs", "r", "--config="}).arguments.list("config") == std::vector<std::string>{""});
    CHECK(good({"logs", "r", "-o=json"}).arguments.text("output") == "json");
    CHECK(good({"submit", "--set", "follow", "j.yaml"}).arguments.text("set") == "follow");
    CHECK(good({"submit", "--set", "x.py", "j.yaml"}).arguments.positional == std::vector<std::string>{"j.yaml"});
    CHECK(good({"run", "--token", "help", "train.py"}).arguments.text("token") == "help");
    CHECK(good({"submit", "j.yaml", "--set", "--odd"}).arguments.text("set") == "--odd");
}

TEST_CASE("a letter with its dash is a flag, never the value of the flag before it") {
    CHECK(has(bad({"logs", "r", "--config", "-h"}).message, "--config needs FILE"));
    CHECK(good({"logs", "r", "--config=-h"}).arguments.text("config") == "-h");
    CHECK(good({"logs", "r", "--config", "-7"}).arguments.text("config") == "-7");
}

TEST_CASE("a flag whose name is empty or begins with a dash is unknown") {
    CHECK(has(bad({"logs", "r", "--=5"}).message, "unknown flag \"--\""));
    CHECK(has(bad({"logs", "r", "---o", "json"}).message, "unknown flag \"---o\""));
}

TEST_CASE("letters of switches stand together, the last one may take a value") {
    const Parsed parsed = good({"runs", "-ayo", "json"});
    CHECK(parsed.arguments.has("all"));
    CHECK(parsed.arguments.has("yes"));
    CHECK(parsed.arguments.text("output") == "json");
    CHECK(good({"runs", "-a", "-a"}).arguments.has("all"));
    CHECK(has(bad({"runs", "-az"}).message, "unknown flag \"-z\""));
}

TEST_CASE("a switch with choices stands alone or with one of them") {
    CHECK(good({"up", "--warm"}).arguments.text("warm", "no value") == "no value");
    CHECK(good({"up", "--warm"}).arguments.has("warm"));
    CHECK(good({"up", "--warm=auto"}).arguments.text("warm") == "auto");
    CHECK(good({"node", "join", "--warm", "h:1"}).arguments.positional == std::vector<std::string>{"h:1"});
    CHECK(has(bad({"up", "--warm=of"}).message, "--warm: \"of\" is none of auto|on|off"));
}

TEST_CASE("after -- everything is an argument") {
    CHECK(good({"describe", "--", "--odd"}).arguments.positional == std::vector<std::string>{"--odd"});
    CHECK(std::string(good({"--", "head", "status"}).command->words) == "head status");
    CHECK(has(bad({"--", "runs", "-a"}).message, "does not take \"-a\""));
    CHECK(good({"submit", "--", "train.py", "-f", "a", "--"}).arguments.positional ==
          std::vector<std::string>{"train.py", "-f", "a", "--"});
}

TEST_CASE("completion follows the same flags") {
    Output out(Format::table, "never");
    const Arguments none;
    Invocation call{.command = commands().front(), .arguments = none, .out = out, .problems = {}};
    const std::vector<std::string> formats{"json", "jsonl"};
    CHECK(completions(call, {"runs", "-a", "-o", "j"}) == formats);
    CHECK(completions(call, {"-o", "name", "head", "--output", "j"}) == formats);
    CHECK(completions(call, {"head", "-o", "json", "ver"}) == std::vector<std::string>{"verify"});
    CHECK(completions(call, {"logs", "r", "--foll"}) == std::vector<std::string>{"--follow"});
    CHECK(completions(call, {"completion", "--yes", "z"}) == std::vector<std::string>{"zsh"});
}

TEST_CASE("a verb of this machine alone refuses flags that name a head elsewhere") {
    CHECK(has(bad({"up", "--context", "lab"}).message, "rtrain up works on this machine alone: --context"));
    CHECK(has(bad({"head", "verify", "--address", "h:1"}).message, "--address would change nothing"));
    CHECK(has(bad({"validate", "job.yaml", "--token", "t"}).message, "--token"));
    CHECK(good({"node", "join", "h:1", "--token", "t", "--address", "10.0.0.1"}).arguments.text("token") == "t");
    CHECK(has(bad({"node", "join", "h:1", "--ca", "ca.crt"}).message, "--ca"));
    CHECK(good({"status", "--context", "lab"}).arguments.has("context"));
}

TEST_CASE("the table is whole: every row has help, a handler, and names that no other row has") {
    std::vector<std::string> seen;
    for (const Command& command : commands()) {
        INFO(command.words);
        CHECK(command.handler != nullptr);
        CHECK(std::find(seen.begin(), seen.end(), command.words) == seen.end());
        seen.emplace_back(command.words);
        if (command.hidden) continue;
        CHECK(*command.help != 0);
        CHECK(*command.group != 0);
        for (const Flag& flag : command.flags) {
            INFO(flag.name);
            CHECK(*flag.help != 0);
            const bool is_switch = flag.takes == Value::none, has_choices = *flag.choices != 0;
            CHECK((*flag.shown != 0) == (!is_switch || has_choices));
            CHECK((is_switch || (flag.takes == Value::choice) == has_choices));
        }
        CHECK(has(help_all(), command.words));
    }
}

TEST_CASE("edit distance counts a swap of neighbours as one slip") {
    CHECK(edit_distance("sumbit", "submit") == 1);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(nearest("xyz", {"abc", "def"}).empty());
}

TEST_CASE("flags of rtrain stand on either side of a program, and what follows -- is the program's") {
    const Parsed both = good({"submit", "-f", "train.py", "--lr", "0.1", "-x", "--set", "queue=night", "in.txt"});
    CHECK(both.arguments.positional == std::vector<std::string>{"train.py", "--lr", "0.1", "-x", "in.txt"});
    CHECK(both.arguments.has("follow"));
    CHECK(both.arguments.text("set") == "queue=night");
    CHECK(both.arguments.after_program == std::vector<std::string>{"--set"});
    const Parsed ended = good({"submit", "train.py", "-f", "--", "-f", "--set", "a=b", "--"});
    CHECK(ended.arguments.positional == std::vector<std::string>{"train.py", "-f", "--set", "a=b", "--"});
    CHECK(ended.arguments.has("follow"));
    CHECK_FALSE(ended.arguments.has("set"));
    CHECK(good({"submit", "--", "train.py", "-f"}).arguments.positional == std::vector<std::string>{"train.py", "-f"});
    CHECK_FALSE(parse({"submit", "train.py", "--array"}));  // The flag needs a value, as in front of a program.
}

TEST_CASE("words after the program of rtrain run belong to the program") {
    const Parsed parsed =
        good({"run", "-n", "2x8", "--gpus", "1", "train.py", "-n", "9", "--lr=0.1", "--", "-o", "json"});
    CHECK(parsed.arguments.text("workers") == "2x8");
    CHECK(!parsed.arguments.has("output"));
    CHECK(parsed.arguments.positional ==
          std::vector<std::string>{"train.py", "-n", "9", "--lr=0.1", "--", "-o", "json"});
}

TEST_CASE("two dashes end the flags of rtrain run before a program whose name begins with a dash") {
    const Parsed parsed = good({"run", "-n", "2", "--", "-odd", "--help"});
    CHECK(parsed.arguments.positional == std::vector<std::string>{"-odd", "--help"});
    CHECK(!parsed.arguments.has("help"));
    CHECK(has(bad({"run", "-n", "2"}).message, "needs train.py|PROGRAM"));
}

TEST_CASE("the help of each verb has two examples or more, and each of them is a command line of that verb") {
    for (const Command& command : commands()) {
        if (command.hidden) continue;
        INFO(command.words);
        const std::vector<std::string> examples = examples_of(command.words);
        CHECK(examples.size() >= 2);
        for (const std::string& line : examples) {
            INFO(line);
            CHECK(good(words_of(line)).command == &command);
            CHECK(has(help_command(command), "  " + line + "\n"));
        }
    }
}
