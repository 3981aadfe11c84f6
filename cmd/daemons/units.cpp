// Line by line: what a wish does not touch stays as the form has it.
#include "cmd/daemons/units.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cmd/text/process.hpp"
#include "storage/base/descriptor.hpp"
#include "storage/base/write_all.hpp"

namespace rtrain::cmd {
namespace {

constexpr const char* confined_from = "# A user of its own";  // from this line to [Install]: confinement
constexpr const char* mark = "# rtrain's ";                   // what each form begins with

// A word of a list: quoted where it must be, and "%" is no specifier. An end of a line is no end of the unit's.
std::string unit_word(const std::string& word) {
    std::string text;
    for (const char one : word) {
        if (one == '\n') {
            text += "\\n";
            continue;
        }
        if (one == '"' || one == '\\') text += '\\';
        if (one == '%') text += one;
        text += one;
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

// The line of the unit, as wished; empty: it is left out.
std::string wished_line(const std::string& line, const UnitWish& wish) {
    const auto is = [&line](const char* key) { return line.starts_with(key); };
    if (is("ExecStart=")) return "ExecStart=" + joined(wish.command, command_word);
    if (is("EnvironmentFile=") || is("# RTRAIN_")) return "";  // the flags are in ExecStart
    if (wish.of_user && is("WantedBy=")) return "WantedBy=default.target";
    if (wish.of_user && (is("Wants=") || is("After="))) return "";  // there are none of the system's units
    if (!wish.as.empty() && is("DynamicUser=")) return "";
    if (!wish.as.empty() && is("User=")) return "User=" + wish.as;
    if (!wish.data.empty() && is("StateDirectory")) return "";
    if (!wish.data.empty() && is("Environment=RTRAIN_CONFIG="))
        return "Environment=" + unit_word("RTRAIN_CONFIG=" + wish.data + "/config.yaml");
    if (is("ProtectSystem=") && !wish.writable.empty())
        return line + "\nReadWritePaths=" + joined(wish.writable, unit_word);
    return line;
}

}  // namespace

std::string command_word(const std::string& word) {
    std::string text;
    for (const char one : word) text += one == '$' ? "$$" : std::string(1, one);
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

Result<Written> write_unit(const std::string& directory, const std::string& name, const std::string& text) {
    Written written{.path = directory + "/" + name};
    std::error_code failed;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(written.path, failed)))
        return Error{.code = ErrorCode::conflict,
                     .message = written.path + " is a link: the unit is masked, or stands elsewhere",
                     .next = "systemctl unmask " + name + ", or remove the link first"};
    if (std::any_of(text.begin(), text.end(), [](char one) { return one == '\0' || one == '\r'; }))
        return Error{.code = ErrorCode::invalid,
                     .message = "a flag has a control character, which no line of a unit may have",
                     .next = ""};
    std::ifstream file(written.path);
    const std::string before{std::istreambuf_iterator<char>(file), {}};
    if (before == text) return written;
    if (!before.empty() && !before.starts_with(mark))
        return Error{.code = ErrorCode::conflict,
                     .message = written.path + " is there, and was not written by rtrain",
                     .next = "move it away first"};
    const std::string aside = written.path + ".new";
    std::filesystem::create_directories(directory, failed);
    ::unlink(aside.c_str());
    const storage::Descriptor fresh(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!fresh.open() || ::fchmod(fresh.number(), 0644) != 0 || storage::write_all(fresh.number(), text) != 0)
        return Error{.code = ErrorCode::io,
                     .message = "writing " + aside + " failed",
                     .next = "is there room, may you write there?"};
    std::filesystem::rename(aside, written.path, failed);
    if (failed)
        return Error{.code = ErrorCode::io, .message = "writing " + written.path + ": " + failed.message(), .next = ""};
    written.changed = true;
    return written;
}

}  // namespace rtrain::cmd
