// Finds the commands by which a shell may replace itself.
#include "daemon/agent/workers/entrypoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <sstream>

namespace rtrain::agent {
namespace {

bool in_path(const std::string& word, const std::string& path) { return !program_on_path(word, path).empty(); }

}  // namespace

std::string program_on_path(const std::string& program, const std::string& path) {
    if (program.find('/') != std::string::npos) return program;
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
        if (const std::string file = folder + "/" + program;
            !folder.empty() && ::faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) == 0)
            return file;
    return {};
}

std::vector<std::string> without_shell_layer(std::vector<std::string> entrypoint, const std::string& path) {
    if (entrypoint.size() != 3 || entrypoint[0] != "sh" || entrypoint[1] != "-c") return entrypoint;
    std::string& text = entrypoint[2];
    if (text.find_first_of(";&|<>(){}`\n\\#!*?[~") != std::string::npos) return entrypoint;
    const auto begin = text.find_first_not_of(" \t");
    if (begin == std::string::npos) return entrypoint;
    const std::string word = text.substr(begin, text.find_first_of(" \t", begin) - begin);
    const bool plain = word.find_first_of("=$\"'") == std::string::npos;
    if (plain && (word.find('/') != std::string::npos || in_path(word, path))) text = "exec " + text;
    return entrypoint;
}

}  // namespace rtrain::agent
