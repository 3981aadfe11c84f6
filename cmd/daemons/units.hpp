// systemd's units of head and node: the files of configs/systemd, changed where a command line says otherwise.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

extern const char* const head_unit;  // configs/systemd/rtrain-head.service
extern const char* const node_unit;

struct UnitWish {
    std::vector<std::string> command;     // what is started, the program's path first
    bool of_user = false;                 // of a user's own manager: it cannot confine services
    std::string as;                       // an account that exists, instead of a user of its own; empty: that
    std::string data;                     // instead of the unit's own directory; empty: that
    std::vector<std::string> writable{};  // further directories that it may write below; they may be mounts
    std::string path{};                   // PATH of the service; empty: the manager's
};
std::string unit_text(const std::string& form, const UnitWish& wish);

// A word of ExecStart= behind the program: quoted where systemd would read more into it.
std::string command_word(const std::string& word);
// The flags that were given, of those that `known` has: "--name", "value". Files are made absolute.
std::vector<std::string> given_flags(const Arguments& arguments, const std::vector<Flag>& known);

}  // namespace rtrain::cmd
