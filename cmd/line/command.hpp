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
    const char* name = "";      // name of the flag without its dashes
    Value takes = Value::none;  // kind of the flag's value; Value::none: the flag is a switch without a value
    const char* shown = "";     // the value's placeholder in help: "DIR"
    const char* help = "";
    char letter = 0;  // the short form's letter; 0: no short form
    // for Value::choice, and for a switch that may also have a value, as --NAME=CHOICE: "auto|on|off"
    const char* choices = "";
    bool repeated = false;  // true: the flag may be given several times, and all values count
};

struct Argument {
    const char* name = "";  // placeholder of the argument in help: "RUN"
    Value value = Value::text;
    bool optional = false;
};

// Where a verb works: with a head, or on this machine only. A verb of `this_machine` refuses the flags that select a
// head.
enum class Reach { head, this_machine };

using Handler = Result<int> (*)(Invocation&);  // returns the exit code, or the error to print

struct Command {
    const char* words = "";  // the words of the verb: "head start"
    const char* group = "";  // heading in help
    const char* help = "";   // one line about the verb for the list of verbs
    std::vector<Argument> arguments{};
    std::vector<Flag> flags{};
    Handler handler = nullptr;
    const char* details = "";  // a longer text for `rtrain VERB --help`, such as examples
    bool hidden = false;
    bool raw = false;      // the parser passes all words after the verb to the handler
    bool program = false;  // the first argument is a program, and the words after it are that program's arguments
    Reach reach = Reach::head;
};

// the command line's form, for help: "submit JOB.yaml [PROGRAM ...]"
std::string command_shape(const Command& command);
std::string usage_line(const Command& command);

// The typed words, checked against the table.
struct Arguments {
    // key: the flag; value: its values; a switch that was given has no values
    std::map<std::string, std::vector<std::string>, std::less<>> flags;
    std::vector<std::string> positional;
    std::vector<std::string> after_program;  // flags of rtrain that stood after the program: `submit train.py -f`

    bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
    // value of the flag, the last one if it was given several times
    std::string text(std::string_view flag, std::string otherwise = "") const;
    std::vector<std::string> list(std::string_view flag) const;
    // value of the flag; it is a number, as the parser has checked
    std::int64_t number(std::string_view flag, std::int64_t otherwise) const;
    // value of the flag in ms; it is a duration, as the parser has checked
    std::int64_t duration_ms(std::string_view flag, std::int64_t otherwise) const;
    std::string argument(std::size_t index) const;  // the argument; empty: it was left out
};

}  // namespace rtrain::cmd
