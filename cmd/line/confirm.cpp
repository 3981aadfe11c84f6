// Announces a directory that the user has not named, and asks before an action that cannot be undone.
#include <filesystem>
#include <iostream>
#include <string>

#include "cmd/line/invocation.hpp"
#include "cmd/text/terminal.hpp"

namespace rtrain::cmd {

void announce_directory(Invocation& call, const std::string& path) {
    std::error_code unknown;
    if (call.arguments.has("data") || std::filesystem::exists(path, unknown)) return;
    call.out.talk("makes " + path + " and keeps its data there (--data DIR names another directory)");
}

Status confirm(Invocation& call, const std::string& question) {
    if (call.arguments.has("yes")) return Done{};
    if (!interactive())
        return Error{.code = ErrorCode::usage,
                     .message = question + " There is no terminal to ask on",
                     .next = "say --yes, or look first with --dry-run"};
    call.out.talk(question + " [y/N]");
    std::string answer;
    std::getline(std::cin, answer);
    if (answer == "y" || answer == "Y" || answer == "yes") return Done{};
    return Error{.code = ErrorCode::usage, .message = "nothing was done", .next = ""};
}

}  // namespace rtrain::cmd
