// Splits typed words into flags and arguments with Boost.Program_options. The descriptions of the options are made from
// the command table.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

// Says where flags of rtrain may stand.
enum class Behind {
    flags,          // everywhere
    nothing,        // before the first argument; it and all words behind it are unread
    nothing_of_py,  // before the first argument that ends with ".py"; it and all words behind it are unread
    foreign_flags,  // everywhere; a flag that the verb does not have is an argument
};

struct TypedWord {
    enum class Kind { flag, unknown_flag, argument, unread };
    Kind kind = Kind::argument;
    const Flag* flag = nullptr;  // set for Kind::flag
    std::string text;            // the value of the flag, the argument, or the unknown flag without its value
    std::string typed;           // the word that it began with: "--tail=5"
};

struct TypedWords {
    std::vector<TypedWord> words;  // empty if one of the flags below is set
    const Flag* lacks_value = nullptr;
    const Flag* takes_no_value = nullptr;  // a switch that was given a value
};

// Splits the words at the flags of `command` and of every verb; null command: at those of every verb alone. A prefix of
// a flag does not stand for the flag.
TypedWords split_words(const std::vector<std::string>& words, const Command* command, Behind behind);

}  // namespace rtrain::cmd
