// Writes the help texts from the command table.
#include <algorithm>

#include "cmd/dispatch/dispatch.hpp"
#include "cmd/line/command.hpp"

namespace rtrain::cmd {
namespace {

std::string padded(std::string text, std::size_t columns) {
    if (text.size() < columns) text.append(columns - text.size(), ' ');
    return text;
}

std::string flag_lines(const std::vector<Flag>& flags) {
    std::string text;
    for (const Flag& flag : flags) {
        const std::string letter = flag.letter == 0 ? "    " : std::string("-") + flag.letter + ", ";
        const std::string shown = flag.shown;
        const std::string value = flag.takes != Value::none ? " " + shown
                                  : *flag.choices != 0      ? "[=" + shown + "]"
                                                            : "";
        const std::string often = flag.repeated ? " (may be repeated)" : "";
        text += "  " + letter + padded("--" + std::string(flag.name) + value, 30) + flag.help + often + "\n";
    }
    return text;
}

std::string rows(const std::vector<const Command*>& some) {
    std::size_t longest = 0;
    for (const Command* command : some) longest = std::max(longest, command_shape(*command).size());
    std::string text;
    for (const Command* command : some)
        text += "  " + padded(command_shape(*command), longest + 2) + command->help + "\n";
    return text;
}

}  // namespace

std::string help_all() {
    std::string text =
        "rtrain trains PyTorch models on many machines: a head, an agent on each node, and this command.\n";
    std::vector<std::string> groups;
    for (const Command& command : commands())
        if (!command.hidden && std::find(groups.begin(), groups.end(), command.group) == groups.end())
            groups.emplace_back(command.group);
    for (const std::string& group : groups) {
        std::vector<const Command*> some;
        for (const Command& command : commands())
            if (!command.hidden && group == command.group) some.push_back(&command);
        text += "\n" + group + "\n" + rows(some);
    }
    return text + "\nFlags of every verb\n" + flag_lines(global_flags()) +
           "\nExit codes: 0 ok, 1 run or check failed, 2 usage, 3 not found, 4 invalid spec, 5 head unreachable, 6 not "
           "authorised,\n"
           "7 conflict, 8 wait timed out, 9 can never be placed, 10 internal or I/O error, 130 Ctrl-C.\n";
}

std::string help_group(std::string_view first_word) {
    std::vector<const Command*> some;
    const std::string prefix = std::string(first_word) + " ";
    for (const Command& command : commands())
        if (!command.hidden && std::string_view(command.words).starts_with(prefix)) some.push_back(&command);
    return some.empty() ? "" : "Verbs of rtrain " + std::string(first_word) + "\n" + rows(some);
}

std::string help_command(const Command& command) {
    std::string text = usage_line(command) + "\n\n" + command.help + ".\n";
    if (*command.details != 0) text += std::string("\n") + command.details + "\n";
    if (const std::vector<std::string> examples = examples_of(command.words); !examples.empty()) {
        text += "\nExamples\n";
        for (const std::string& line : examples) text += "  " + line + "\n";
    }
    if (!command.flags.empty()) text += "\nFlags\n" + flag_lines(command.flags);
    return text + "\nFlags of every verb\n" + flag_lines(global_flags());
}

}  // namespace rtrain::cmd
