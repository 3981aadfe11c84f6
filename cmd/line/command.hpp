// The row types of the command table. Parsing, help, completion and "did you mean" are made from this table. A verb is
// one row and one function. The table is built at its first use, not before main(), so that `rtrain version` starts at
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

// The kind of a value. Completion offers live names for runs, nodes, contexts and checkpoints.
enum class Value { none, text, number, duration, choice, file, run, node, run_or_node, context, checkpoint, verb };

struct Flag {
    const char* name = "";      // without the dashes
    Value takes = Value::none;  // the kind of its value; Value::none makes the flag a switch
    const char* shown = "";     // the value's placeholder in help: "DIR"
    const char* help = "";
    char letter = 0;           // 0: no short form
    const char* choices = "";  // for Value::choice, and for a switch that also stands as --NAME=CHOICE: "auto|on|off"
    bool repeated = false;     // may be given several times; all values count
};

struct Argument {
    const char* name = "";  // "RUN"
    Value value = Value::text;
    bool optional = false;
};

// Where a verb works. A verb of `this_machine` refuses the flags that name a head.
enum class Reach { head, this_machine };

using Handler = Result<int> (*)(Invocation&);  // returns the exit code, or the error to print

struct Command {
    const char* words = "";  // the words of the verb: "head start"
    const char* group = "";  // heading in help
    const char* help = "";   // one line
    std::vector<Argument> arguments{};
    std::vector<Flag> flags{};
    Handler handler = nullptr;
    const char* details = "";  // a longer text for `rtrain VERB --help`, such as examples
    bool hidden = false;
    bool raw = false;      // the parser passes all words after the verb to the handler
    bool program = false;  // the first argument is a program, and the words after it are that program's arguments
    Reach reach = Reach::head;
};

std::string command_shape(const Command& command);  // "submit JOB.yaml [PROGRAM ...]"
std::string usage_line(const Command& command);

// The typed words, checked against the table.
struct Arguments {
    std::map<std::string, std::vector<std::string>, std::less<>> flags;  // a switch: present, with no values
    std::vector<std::string> positional;
    std::vector<std::string> after_program;  // flags of rtrain that stood behind the program: `submit train.py -f`

    bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
    std::string text(std::string_view flag, std::string otherwise = "") const;  // the last value given
    std::vector<std::string> list(std::string_view flag) const;
    std::int64_t number(std::string_view flag, std::int64_t otherwise) const;       // the parser has checked the value
    std::int64_t duration_ms(std::string_view flag, std::int64_t otherwise) const;  // the parser has checked the value
    std::string argument(std::size_t index) const;                                  // empty if it was left out
};

}  // namespace rtrain::cmd
