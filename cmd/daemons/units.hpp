// Makes the systemd units of head and node from the templates in configs/systemd and the command line.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

extern const char* const head_unit;  // content of configs/systemd/rtrain-head.service
extern const char* const node_unit;

struct UnitWish {
    std::vector<std::string> command;     // the command that the service starts; the program's path is first
    bool of_user = false;                 // true: for a user's own service manager, which cannot confine services
    std::string as;                       // name of an existing account; empty: the template's own user
    std::string data;                     // replaces the data directory of the template; empty: the template's
    std::vector<std::string> writable{};  // further directories with write permission; they may be mounts
    std::string path{};                   // PATH of the service; empty: the service manager's default
};
std::string unit_text(const std::string& form, const UnitWish& wish);

// Returns an argument of the program for ExecStart=, quoted if systemd would interpret it.
std::string command_word(const std::string& word);
// Returns those given flags that are in `known`, as words: "--name", "value". Paths of files are made absolute.
std::vector<std::string> given_flags(const Arguments& arguments, const std::vector<Flag>& known);

}  // namespace rtrain::cmd
