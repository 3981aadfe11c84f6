// The systemd units of head and node: the files of configs/systemd, changed by the command line.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

extern const char* const head_unit;  // configs/systemd/rtrain-head.service
extern const char* const node_unit;

struct UnitWish {
    std::vector<std::string> command;     // the started command, with the program's path first
    bool of_user = false;                 // for a user's own manager, which cannot confine services
    std::string as;                       // an existing account; empty: the service's own user
    std::string data;                     // replaces the unit's own directory; empty: that directory
    std::vector<std::string> writable{};  // further directories with write permission; they may be mounts
    std::string path{};                   // PATH of the service; empty: the manager's
};
std::string unit_text(const std::string& form, const UnitWish& wish);

// Returns a word for ExecStart= after the program, quoted if systemd would interpret it.
std::string command_word(const std::string& word);
// Returns the given flags out of `known`: "--name", "value". Paths of files are made absolute.
std::vector<std::string> given_flags(const Arguments& arguments, const std::vector<Flag>& known);

}  // namespace rtrain::cmd
