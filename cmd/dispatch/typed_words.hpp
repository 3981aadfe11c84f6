// Splits typed words into flags and arguments with Boost.Program_options. The descriptions of the options are made from
// the command table.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

// Where rtrain's own flags may stand among the words.
enum class Behind {
    flags,    // flags may stand everywhere
    nothing,  // only before the first argument; that argument and all later words stay unread
    // only before the first argument that ends with ".py"; that argument and all later words stay unread
    nothing_of_py,
    foreign_flags,  // everywhere; a flag that the verb does not have counts as an argument
};

struct TypedWord {
    enum class Kind { flag, unknown_flag, argument, unread };
    Kind kind = Kind::argument;
    const Flag* flag = nullptr;  // the flag, if the word is of Kind::flag; else null
    std::string text;            // the value of the flag, the argument, or the unknown flag without its value
    std::string typed;           // the word as it was typed: "--tail=5"
};

struct TypedWords {
    std::vector<TypedWord> words;  // the words in their order; empty if one of the fields below is set
    const Flag* lacks_value = nullptr;
    const Flag* takes_no_value = nullptr;  // set if a switch was given a value
};

// Splits the words at the flags of `command` and at the global flags. If `command` is null, only at the global flags. A
// prefix of a flag does not stand for the flag.
TypedWords split_words(const std::vector<std::string>& words, const Command* command, Behind behind);

}  // namespace rtrain::cmd
