// Parses argv with the table of all verbs, runs the verb, and prints help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

int run(int argc, char** argv);  // runs the command line; main() calls it

const std::vector<Command>& commands();
const std::vector<Flag>& global_flags();
const Command* find_command(std::string_view words);
// if `command` is null, only the global flags are searched
const Flag* find_flag(const Command* command, std::string_view name);
const Flag* find_letter(const Command* command, char letter);

struct Parsed {
    const Command* command = nullptr;  // null: no verb was given
    Arguments arguments;
};
Result<Parsed> parse(const std::vector<std::string>& words);

// Return the texts of `rtrain help`, `rtrain head --help` and `rtrain submit --help`.
std::string help_all();
std::string help_group(std::string_view first_word);
std::string help_command(const Command& command);
// two command lines for the help; empty for a hidden verb
std::vector<std::string> examples_of(std::string_view words);

std::vector<Command> offline_commands();  // rows of the command table that offline_verbs.cpp defines

}  // namespace rtrain::cmd
