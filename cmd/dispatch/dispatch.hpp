// Parses argv with the table of all verbs, runs the verb, and prints help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

int run(int argc, char** argv);  // the body of main()

const std::vector<Command>& commands();
const std::vector<Flag>& global_flags();
const Command* find_command(std::string_view words);
const Flag* find_flag(const Command* command, std::string_view name);  // null command: searches the global flags alone
const Flag* find_letter(const Command* command, char letter);

struct Parsed {
    const Command* command = nullptr;  // null: no verb was given
    Arguments arguments;
};
Result<Parsed> parse(const std::vector<std::string>& words);

// The texts of `rtrain help`, `rtrain head --help` and `rtrain submit --help`.
std::string help_all();
std::string help_group(std::string_view first_word);
std::string help_command(const Command& command);
std::vector<std::string> examples_of(std::string_view words);  // command lines; empty for a hidden verb

std::vector<Command> offline_commands();  // the rows of offline_verbs.cpp

}  // namespace rtrain::cmd
