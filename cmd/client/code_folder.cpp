// Finds the directory that is packed and uploaded with a job.
#include "cmd/client/code_folder.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace rtrain::cmd {
namespace {

namespace fs = std::filesystem;

// Splits a command into words much as `sh -c` would. This is exact enough to look for files among them.
std::vector<std::string> words_of(const std::string& command) {
    std::vector<std::string> words(1);
    for (const char c : command)
        if (std::strchr(" \t\r\n;&|<>()'\"", c) != nullptr && c != '\0')
            words.emplace_back();
        else
            words.back() += c;
    return words;
}

// Returns a file in the spec's folder that the entrypoint names, as a path relative to that folder. Returns an empty
// text if it names none.
std::string file_beside(const JobFile& file) {
    std::error_code failed;
    const auto file_named = [&](const std::string& name) {
        const fs::path path = fs::path(name).lexically_normal();
        const bool below = !name.empty() && name[0] != '-' && !path.is_absolute() && *path.begin() != "..";
        return below && fs::is_regular_file(fs::path(file.folder) / path, failed) ? path.string() : std::string();
    };
    bool module = false;  // true if the word before was -m
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
        // The entrypoint is first tried as a whole, since a file's name may contain spaces.
        if (std::string named = look(entry); !named.empty()) return named;
        if (entry.find_first_of(" \t\n") == std::string::npos) continue;
        for (const std::string& word : words_of(entry))
            if (!word.empty())
                if (std::string named = look(word); !named.empty()) return named;
    }
    return "";
}

// Returns the relative path of the script that the entrypoint starts. Returns an empty text if it starts none, or if
// the command needs a shell to be read.
std::string script_of(const std::vector<std::string>& entrypoint) {
    std::vector<std::string> words = entrypoint;
    // the spec gives the command as one text, so it runs in a shell
    if (entrypoint.size() == 3 && entrypoint[0] == "sh" && entrypoint[1] == "-c") {
        if (entrypoint[2].find_first_of("$`;&|<>(){}*?'\"\\\n~=#") != std::string::npos) return "";
        words = words_of(entrypoint[2]);
        std::erase(words, "");
    }
    if (words.empty()) return "";
    if (words[0].starts_with("./")) return words[0];
    const std::string program = fs::path(words[0]).filename().string();
    const bool runs_script = program.starts_with("python") || program == "sh" || program == "bash";
    if (!runs_script || words.size() < 2) return "";
    const std::string& script = words[1];
    const bool named = script.ends_with(".py") || script.ends_with(".sh");
    const bool below = named && !script.starts_with('/') && !script.starts_with("..") && !script.starts_with('-');
    return below ? script : "";
}

// True if the folder is a home directory, or contains one. HOME is not enough: it may be unset, or belong to another
// user under sudo.
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

Status check_entrypoint(const JobFile& file) {
    const std::string script = script_of(file.job.entrypoint);
    const bool travels = !file.folder_named || !file.job.working_dir.empty();
    // a `setup` command may create the script
    if (script.empty() || !travels || !file.job.setup.empty()) return Done{};
    std::error_code failed;
    const fs::path folder = (fs::path(file.folder) / file.job.working_dir).lexically_normal();
    const fs::path path = (folder / script).lexically_normal();
    const auto wrong = [](const std::string& message, const std::string& next) {
        return Error{.code = ErrorCode::invalid, .message = "entrypoint: " + message, .next = next};
    };
    if (!fs::is_directory(folder, failed)) return Done{};  // code_folder() reports the missing directory
    if (!fs::exists(path, failed))
        return wrong("there is no file " + script + " in " + folder.string() + ", which would travel along",
                     "correct the name, or working_dir; working_dir: null says that the nodes have the file");
    if (!script.starts_with("./") || !fs::is_regular_file(path, failed)) return Done{};
    if (::access(path.c_str(), X_OK) != 0)
        return wrong(script + " is not executable",
                     "chmod +x " + path.string() + ", or name its interpreter before it");
    std::ifstream in(path, std::ios::binary);
    std::string first;
    std::getline(in, first);
    if (first.starts_with("#!") && first.ends_with('\r'))
        return wrong(
            "the first line of " + script + " ends with \\r\\n, as on Windows, so its interpreter is not found",
            "sed -i 's/\\r$//' " + path.string());
    return Done{};
}

Result<CodeFolder> code_folder(Invocation& call, const JobFile& file) {
    std::error_code failed;
    if (Status fine = check_entrypoint(file); !fine) return fine.error();
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
