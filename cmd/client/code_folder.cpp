// Which directory travels along with a job: see code_folder.hpp.
#include "cmd/client/code_folder.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace rtrain::cmd {
namespace {

namespace fs = std::filesystem;

// The words of a command, as `sh -c` would part them, near enough to look for files among them.
std::vector<std::string> words_of(const std::string& command) {
    std::vector<std::string> words(1);
    for (const char c : command)
        if (std::strchr(" \t\r\n;&|<>()'\"", c) != nullptr && c != '\0')
            words.emplace_back();
        else
            words.back() += c;
    return words;
}

// A file in the folder of the spec that the entrypoint names, as a path in it; empty: it names none.
std::string file_beside(const JobFile& file) {
    std::error_code failed;
    const auto file_named = [&](const std::string& name) {
        const fs::path path = fs::path(name).lexically_normal();
        const bool below = !name.empty() && name[0] != '-' && !path.is_absolute() && *path.begin() != "..";
        return below && fs::is_regular_file(fs::path(file.folder) / path, failed) ? path.string() : std::string();
    };
    bool module = false;  // the word before was -m
    const auto look = [&](const std::string& word) {
        std::string named = file_named(word);
        if (module && named.empty()) {
            std::string path = word;
            std::replace(path.begin(), path.end(), '.', '/');
            named = file_named(path + ".py");
            if (named.empty()) named = file_named(path + "/__main__.py");
        }
        module = word == "-m";
        return named;
    };
    for (const std::string& entry : file.job.entrypoint) {
        if (std::string named = look(entry); !named.empty()) return named;  // a name may hold spaces
        if (entry.find_first_of(" \t\n") == std::string::npos) continue;
        for (const std::string& word : words_of(entry))
            if (!word.empty())
                if (std::string named = look(word); !named.empty()) return named;
    }
    return "";
}

// Whether that is a home directory, or holds one: HOME may be unset, or another's under sudo.
bool holds_home(const fs::path& folder) {
    std::error_code failed;
    const char* variable = std::getenv("HOME");
    const passwd* entry = ::getpwuid(::getuid());
    for (const char* home : {variable, entry == nullptr ? nullptr : static_cast<const char*>(entry->pw_dir)}) {
        if (home == nullptr || *home != '/') continue;
        const fs::path inside = fs::weakly_canonical(home, failed).lexically_relative(folder);
        if (!inside.empty() && *inside.begin() != "..") return true;
    }
    return false;
}

}  // namespace

Result<CodeFolder> code_folder(Invocation& call, const JobFile& file) {
    std::error_code failed;
    if (file.folder_named) {
        if (file.job.working_dir.empty()) return CodeFolder{};
        const std::string path = (fs::path(file.folder) / file.job.working_dir).lexically_normal().string();
        if (fs::is_directory(path, failed)) return CodeFolder{.path = path};
        return Error{.code = ErrorCode::invalid,
                     .message = "working_dir: there is no directory " + path,
                     .next = "it is relative to the spec's own folder"};
    }
    const std::string beside = file_beside(file);
    if (beside.empty()) return CodeFolder{};
    const fs::path folder = fs::weakly_canonical(file.folder, failed);
    const bool is_root = folder == folder.root_path();
    if (is_root || holds_home(folder))
        return Error{.code = ErrorCode::invalid,
                     .message = "working_dir: the entrypoint names " + beside + " in " + folder.string() +
                                ", which is " + (is_root ? "all of this machine" : "your home directory or holds it"),
                     .next =
                         "put the program into a folder of its own, or say working_dir: . to send it all the same, "
                         "working_dir: null to send nothing"};
    if (!file.job.driver)
        call.out.talk(folder.string() + " travels along, since the entrypoint names " + beside +
                      " in it; working_dir says otherwise");
    return CodeFolder{.path = folder.string(), .holds = beside, .named_by = spec::NamedBy::nobody};
}

}  // namespace rtrain::cmd
