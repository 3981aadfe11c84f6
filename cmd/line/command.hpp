// The command table's row types. From this table come parsing, help, completion and "did you mean"; a verb is one row
// and one function. Nothing here is built before main: the table is made on first use, so `rtrain version` starts at
// once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rtrain::cmd {

struct Invocation;

// What a value names; completion offers live names for runs, nodes, contexts and checkpoints.
enum class Value { none, text, number, duration, choice, file, run, node, run_or_node, context, checkpoint, verb };

struct Flag {
    const char* name = "";      // without the dashes
    Value takes = Value::none;  // none: a switch
    const char* shown = "";     // the value's name in help: "DIR"
    const char* help = "";
    char letter = 0;           // 0: no short form
    const char* choices = "";  // Value::choice: "table|wide|json"
    bool repeated = false;     // may be given again; all count
};

struct Argument {
    const char* name = "";  // "RUN"
    Value value = Value::text;
    bool optional = false;
};

// Where a verb works. A verb of this machine alone refuses the flags that name a head elsewhere.
enum class Reach { head, this_machine };

using Handler = Result<int> (*)(Invocation&);  // the exit code, or the error to print

struct Command {
    const char* words = "";  // "head start"
    const char* group = "";  // heading in help
    const char* help = "";   // one line
    std::vector<Argument> arguments{};
    std::vector<Flag> flags{};
    Handler handler = nullptr;
    const char* details = "";  // more for `rtrain VERB --help`: examples, what follows
    bool hidden = false;
    bool raw = false;      // everything after the verb goes to the handler unread
    bool program = false;  // the first argument is a program, and every word after it is that program's
    Reach reach = Reach::head;
};

std::string command_shape(const Command& command);  // "submit JOB.yaml [PROGRAM ...]"
std::string usage_line(const Command& command);

// What was typed, checked against the table.
struct Arguments {
    std::map<std::string, std::vector<std::string>, std::less<>> flags;  // a switch: present, with no values
    std::vector<std::string> positional;
    std::vector<std::string>
        after_program;  // `submit train.py -f`: flags that rtrain took though a program came before

    bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
    std::string text(std::string_view flag, std::string otherwise = "") const;  // the last one given
    std::vector<std::string> list(std::string_view flag) const;
    std::int64_t number(std::string_view flag, std::int64_t otherwise) const;       // checked when parsed
    std::int64_t duration_ms(std::string_view flag, std::int64_t otherwise) const;  // checked when parsed
    std::string argument(std::size_t index) const;                                  // empty: was left out
};

}  // namespace rtrain::cmd
