// See unit_checks.hpp.
#include "cmd/daemons/unit_checks.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cmd/text/shell_word.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::cmd {
namespace {

// systemd's search path on a machine where /sbin is a separate directory. Elsewhere the last two entries are links to
// others.
constexpr std::array<const char*, 6> default_path = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                                     "/usr/bin",        "/sbin",          "/bin"};

// Returns the file and all directories above it, except the root.
std::vector<std::string> way_to(const std::string& file) {
    std::vector<std::string> way;
    for (std::filesystem::path at = file; at.has_relative_path(); at = at.parent_path()) way.push_back(at.string());
    return way;
}

Error of_system(const std::string& doing, int error_number) {
    return {.code = ErrorCode::io, .message = doing + ": " + std::strerror(error_number), .next = ""};
}

// Tries the access in a child process that has the account's rights. Returns an errno; 0: the access is permitted.
int access_as(const Account& account, const std::string& path, int mode) {
    const bool groups = ::setgroups(0, nullptr) == 0 && ::initgroups(account.name.c_str(), account.gid) == 0;
    if (!groups || ::setresgid(account.gid, account.gid, account.gid) != 0) return EPERM;
    if (::setresuid(account.uid, account.uid, account.uid) != 0) return EPERM;
    return ::access(path.c_str(), mode) == 0 ? 0 : errno;
}

}  // namespace

Status check_account_name(const std::string& name) {
    constexpr std::size_t longest = 31;  // the longest account name that systemd accepts
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
    if (!name.empty() && name.size() <= longest && letter(name.front()) && std::all_of(name.begin(), name.end(), fits))
        return Done{};
    return Error{.code = ErrorCode::usage,
                 .message = "--as: this is not the name of an account",
                 .next = "a name has letters, digits, '_', '-' and '.', 31 at most, and begins with a letter or '_'"};
}

Result<Account> find_account(const std::string& name) {
    errno = 0;
    const passwd* account = ::getpwnam(name.c_str());
    if (account != nullptr) return Account{.name = name, .uid = account->pw_uid, .gid = account->pw_gid};
    const bool failed = errno != 0 && errno != ENOENT && errno != ESRCH;
    if (failed) return of_system("looking for the account " + name, errno);
    return Error{.code = ErrorCode::not_found,
                 .message = "there is no account " + name,
                 .next = "make it first: useradd --system " + name};
}

Status check_outside_tmp(const std::string& path) {
    for (const char* folder : {"/tmp", "/var/tmp"})
        if (path == folder || path.starts_with(std::string(folder) + "/"))
            return Error{.code = ErrorCode::conflict,
                         .message = std::string("the service has a ") + folder +
                                    " of its own (PrivateTmp), so it would not find " + path,
                         .next = "put it into another directory, such as one in /opt, /usr or /srv"};
    return Done{};
}

Status check_reachable(const MachineRoot& root, const std::string& file, mode_t needed) {
    std::string closed;
    for (const std::string& at : way_to(file)) {
        if (!closed.empty()) break;
        Result<struct stat> facts = root.look_at(at);
        const mode_t bits = at == file ? needed : S_IXOTH;
        if (!facts || (facts->st_mode & bits) != bits) closed = at;
    }
    if (closed.empty()) return Done{};
    return Error{
        .code = ErrorCode::conflict,
        .message = "the service's own user cannot use " + file + ": " + root.shown(closed) + " is closed to it",
        .next = "put it where all can read it, such as /opt or /usr, or give the service an account by --as"};
}

Status check_access(const Account& account, const std::string& path, int mode, const std::string& next) {
    const pid_t child = ::fork();
    if (child < 0) return of_system("starting a process", errno);
    if (child == 0) ::_exit(access_as(account, path, mode));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return of_system("waiting for a process", errno);
    const int error_number = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    if (error_number == 0) return Done{};
    const char* doing = mode == R_OK ? "read " : (mode & W_OK) != 0 ? "write " : "start ";
    return Error{
        .code = ErrorCode::conflict,
        .message = "the account " + account.name + " cannot " + doing + path + ": " + std::strerror(error_number),
        .next = next};
}

Status check_roots_own(const MachineRoot& root, const std::string& program, uid_t also) {
    for (const std::string& at : way_to(program)) {
        Result<struct stat> facts = root.look_at(at);
        if (!facts) return facts.error();
        const bool owned = facts->st_uid == 0 || facts->st_uid == also;
        if (owned && (facts->st_mode & (S_IWGRP | S_IWOTH)) == 0) continue;
        return Error{.code = ErrorCode::conflict,
                     .message = "the service would run " + program + " as root, and others than root may change " +
                                root.shown(at),
                     .next =
                         "install rtrain where root alone writes, such as /opt or /usr; or --user, for a service "
                         "of your own account"};
    }
    return Done{};
}

Status provide_directory(const MachineRoot& root, const std::string& path, const Account& account) {
    constexpr mode_t passable = 0711;  // mode of the data directory, as `head start` sets it
    Result<struct stat> there = root.look_at(path);
    if (there && !S_ISDIR(there->st_mode))
        return Error{.code = ErrorCode::conflict, .message = path + " is no directory", .next = "name another"};
    if (there)
        return check_access(account, path, W_OK | X_OK,
                            "chown " + account.name + " " + shell_word(path) + "; where it is a mount, mount it first");
    if (there.error().code != ErrorCode::not_found) return there.error();
    const std::size_t slash = path.rfind('/');
    const mode_t before = ::umask(S_IWGRP | S_IWOTH);
    auto parent = storage::make_beneath(root.top(), slash == 0 ? "" : path.substr(1, slash - 1), 0755);
    ::umask(before);
    if (!parent) return parent.error();
    const std::string name = path.substr(slash + 1);
    if (::mkdirat(parent->number(), name.c_str(), S_IRWXU) != 0) return of_system("making " + path, errno);
    auto directory = storage::open_beneath(*parent, name, O_RDONLY | O_DIRECTORY);
    if (!directory) return directory.error();
    if (::fchown(directory->number(), account.uid, account.gid) != 0 || ::fchmod(directory->number(), passable) != 0)
        return of_system("giving " + path + " to " + account.name, errno);
    return check_access(account, path, W_OK | X_OK, "open the directories above it to " + account.name);
}

std::vector<std::string> set_in(const MachineRoot& root, const std::string& file,
                                const std::vector<std::string>& names) {
    constexpr std::int64_t most = 1 << 20;
    auto opened = root.open_path(file, O_RDONLY | O_NONBLOCK);
    if (!opened) return {};
    auto text = storage::read_opened(*opened, file, most);
    if (!text) return {};
    std::vector<std::string> present;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);)
        for (const std::string& name : names)
            if (line.starts_with(name + "=")) present.push_back(name);
    return present;
}

std::string python_path(const MachineRoot& root, const std::string& program) {
    const std::string beside = program.substr(0, program.rfind('/'));
    const bool usual = std::find(default_path.begin(), default_path.end(), beside) != default_path.end();
    if (usual || beside.find(':') != beside.npos || !root.look_at(beside + "/python3")) return "";
    std::string path = beside;
    for (const char* directory : default_path) path += std::string(":") + directory;
    return path;
}

}  // namespace rtrain::cmd
