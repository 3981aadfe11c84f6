// Makes a unit from a template, line by line. Lines that the options do not concern stay as in the template.
#include "cmd/daemons/units.hpp"

#include <algorithm>
#include <sstream>

#include "cmd/text/process.hpp"

namespace rtrain::cmd {
namespace {

// the template's lines from this one up to [Install] confine the service
constexpr const char* confined_from = "# A user of its own";

// Quotes one argument for a systemd unit: escapes quotes and backslashes, doubles "%", and writes newlines as `
// `.
std::string unit_word(const std::string& word) {
    std::string text;
    for (const char c : word) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        if (c == '%') text += c;
        text += c;
    }
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\;") == word.npos;
    return plain ? text : '"' + text + '"';
}

template <class Write>
std::string joined(const std::vector<std::string>& words, Write write) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + write(word);
    return text;
}

// In the path of the program, "$" is not escaped, because systemd does not replace it there.
std::string command_line(const std::vector<std::string>& command) {
    const std::vector<std::string> rest(command.begin() + 1, command.end());
    return unit_word(command.front()) + (rest.empty() ? "" : " ") + joined(rest, command_word);
}

std::string environment_lines(const std::string& file, const UnitWish& wish) {
    const std::string path = wish.path.empty() ? "" : "Environment=" + unit_word("PATH=" + wish.path);
    // a user's own unit does not read the file of variables, which belongs to the system
    if (wish.of_user) return path;
    return path + (path.empty() ? "" : "\n") + file;
}

// Returns a line of the template that sets the service's user or directories, changed as wished.
std::string owner_line(const std::string& line, const UnitWish& wish) {
    const auto is = [&line](const char* key) { return line.starts_with(key); };
    if (!wish.as.empty() && is("DynamicUser=")) return "";
    if (!wish.as.empty() && is("User=")) return "User=" + wish.as;
    if (!wish.data.empty() && is("StateDirectory")) return "";
    if (!wish.data.empty() && is("Environment=RTRAIN_CONFIG="))
        return "Environment=" + unit_word("RTRAIN_CONFIG=" + wish.data + "/config.yaml");
    return line;
}

// Returns the changed line of the unit. Returns an empty text if the line is left out.
std::string wished_line(const std::string& line, const UnitWish& wish) {
    const auto is = [&line](const char* key) { return line.starts_with(key); };
    if (is("ExecStart=")) return "ExecStart=" + command_line(wish.command);
    if (is("EnvironmentFile=")) return environment_lines(line, wish);
    if (is("# RTRAIN_")) return "";  // variables are not needed, because ExecStart contains the flags
    if (wish.of_user && is("WantedBy=")) return "WantedBy=default.target";
    // a user's own service manager has no units of the system
    if (wish.of_user && (is("Wants=") || is("After="))) return "";
    if (wish.writable.empty()) return owner_line(line, wish);
    if (is("After=")) return line + "\nRequiresMountsFor=" + joined(wish.writable, unit_word);
    if (is("ProtectSystem=")) return line + "\nReadWritePaths=" + joined(wish.writable, unit_word);
    return owner_line(line, wish);
}

}  // namespace

std::string command_word(const std::string& word) {
    std::string text;
    for (const char c : word) text += c == '$' ? "$$" : std::string(1, c);
    return unit_word(text);
}

std::string unit_text(const std::string& form, const UnitWish& wish) {
    std::istringstream lines(form);
    std::string out;
    bool confined = false;
    for (std::string line; std::getline(lines, line);) {
        confined = (confined || line.starts_with(confined_from)) && !line.starts_with("[Install]");
        if (wish.of_user && confined) continue;
        const std::string wished = wished_line(line, wish);
        if (!wished.empty() || line.empty()) out += wished + "\n";
    }
    return out;
}

std::vector<std::string> given_flags(const Arguments& arguments, const std::vector<Flag>& known) {
    std::vector<std::string> words;
    for (const Flag& flag : known) {
        if (!arguments.has(flag.name)) continue;
        const std::string name = std::string("--") + flag.name;
        const std::vector<std::string> values = arguments.list(flag.name);
        if (flag.takes == Value::none) words.push_back(name);
        if (flag.takes == Value::none || values.empty()) continue;
        for (const std::string& value : flag.repeated ? values : std::vector{values.back()}) {
            words.push_back(name);
            words.push_back(flag.takes == Value::file ? absolute(value) : value);
        }
    }
    return words;
}

}  // namespace rtrain::cmd
