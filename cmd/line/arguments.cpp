// Converts the values of flags from text. The parser has checked the texts.
#include "cmd/line/command.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {

std::string Arguments::text(std::string_view flag, std::string otherwise) const {
    const auto entry = flags.find(flag);
    return entry == flags.end() || entry->second.empty() ? otherwise : entry->second.back();
}

std::vector<std::string> Arguments::list(std::string_view flag) const {
    const auto entry = flags.find(flag);
    return entry == flags.end() ? std::vector<std::string>{} : entry->second;
}

std::int64_t Arguments::number(std::string_view flag, std::int64_t otherwise) const {
    const std::string value = text(flag);
    return value.empty() ? otherwise : std::stoll(value);
}

std::int64_t Arguments::duration_ms(std::string_view flag, std::int64_t otherwise) const {
    return parse_duration(text(flag)).value_or(otherwise);
}

std::string Arguments::argument(std::size_t index) const {
    return index < positional.size() ? positional[index] : std::string();
}

std::string command_shape(const Command& command) {
    std::string text = command.words;
    if (command.program) return text + " [flags] " + command.arguments[0].name + " [ARGUMENT ...]";
    for (const Argument& argument : command.arguments)
        text += argument.optional ? " [" + std::string(argument.name) + "]" : " " + std::string(argument.name);
    return text;
}

std::string usage_line(const Command& command) {
    return "rtrain " + command_shape(command) + (command.flags.empty() || command.program ? "" : " [flags]");
}

}  // namespace rtrain::cmd
