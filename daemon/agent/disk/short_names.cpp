// Other users can write to the directories around the short directory. So its name is either in a folder of root's or
// random, and it is used only while it belongs to this process's user.
#include "daemon/agent/disk/short_names.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/crypto/digest.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;

constexpr int names_most = 100'000;
constexpr const char* record_name = "/short-directory";

std::string absolute(const std::string& path) {
    std::error_code failed;
    return fs::absolute(path, failed).string();
}

bool is_own_directory(const std::string& path, mode_t mode) {
    struct stat facts{};
    return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() &&
           (facts.st_mode & 07777) == mode;
}

// Makes the directory, or takes it over, with this mode. Fails if another user's file or directory has the name.
Result<std::string> own(const std::string& path, mode_t mode) {
    if (Status created = make_directory(path, mode); !created) return created.error();
    struct stat facts{};
    const bool ours = ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid();
    if (ours && ((facts.st_mode & 07777) == mode || ::chmod(path.c_str(), mode) == 0)) return path;
    return Error{ErrorCode::conflict, path + " belongs to someone else; sockets of workers would not be safe there",
                 "remove it, or choose another --data directory"};
}

// Returns true if only root and this process's user can exchange entries that this process makes in the folder.
bool keeps_names(const std::string& folder) {
    struct stat facts{};
    if (::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return false;
    const bool owner_is_safe = facts.st_uid == 0 || facts.st_uid == ::geteuid();
    return owner_is_safe && ((facts.st_mode & 0022) == 0 || (facts.st_mode & S_ISVTX) != 0);
}

// Returns the possible folders. The session's own folder comes last, since it is removed at logout, while an agent may
// continue.
std::vector<std::string> folders() {
    std::vector<std::string> all{"/tmp", "/var/tmp", "/dev/shm"};
    if (const char* session = ::getenv("XDG_RUNTIME_DIR"); session && session[0] == '/') all.emplace_back(session);
    return all;
}

Result<std::string> make_random_directory() {
    for (const std::string& folder : folders()) {
        std::string path = folder + "/rtrain-XXXXXX";
        if (path.size() > for_links || !keeps_names(folder) || !::mkdtemp(path.data())) continue;
        return path;
    }
    return Error{ErrorCode::io, "no directory with a short name can be made in /tmp, /var/tmp or /dev/shm",
                 "make one of them writable, or choose a --data directory of at most 30 characters"};
}

void for_each_link(const std::string& directory, const std::function<void(const fs::path&, const fs::path&)>& act) {
    std::error_code failed, unreadable;
    std::vector<fs::path> links;  // collected first, since the loop below changes the directory
    for (const auto& entry : fs::directory_iterator(directory, failed))
        if (entry.is_symlink(unreadable)) links.push_back(entry.path());
    for (const fs::path& link : links) act(link, fs::read_symlink(link, unreadable));
}

std::string hashed_name(const std::string& folder, const std::string& data_dir) {
    return folder + "/rtrain-" + crypto::sha256_hex(absolute(data_dir)).substr(0, 16);
}

std::string directory_of_root(const std::string& data_dir) { return hashed_name("/run", data_dir); }

// Returns the directory of an agent of an earlier version, whose workers may still run.
std::string former_directory(const std::string& data_dir) { return hashed_name("/tmp", data_dir); }

}  // namespace

Result<std::string> short_directory(const std::string& data_dir, std::size_t most) {
    if (::geteuid() == 0) return own(directory_of_root(data_dir), 0711);
    if (const std::string near = absolute(data_dir) + "/run"; near.size() <= most) return own(near, 0700);
    const std::string record = data_dir + record_name;
    if (const auto kept = read_whole(record); kept && is_own_directory(*kept, 0700)) return *kept;
    const std::string former = former_directory(data_dir);
    auto directory = is_own_directory(former, 0700) ? Result<std::string>(former) : make_random_directory();
    if (!directory) return directory.error();
    if (Status written = write_whole(record, *directory, 0600, Durable::no); !written) {
        ::rmdir(directory->c_str());
        return written.error();
    }
    return *directory;
}

void remove_short_directory(const std::string& data_dir) {
    const std::string record = data_dir + record_name;
    const auto kept = read_whole(record);
    const std::string directory = ::geteuid() == 0 ? directory_of_root(data_dir) : kept ? *kept : "";
    if (!is_own_directory(directory, ::geteuid() == 0 ? 0711 : 0700)) return;
    ShortNames(directory).remove_all_but({});
    if (::rmdir(directory.c_str()) == 0 && kept) ::unlink(record.c_str());
}

Result<std::string> ShortNames::name_of(const std::string& directory) const {
    const std::string target = absolute(directory);
    if (target.size() <= short_name_most) return target;
    if (directory_.empty()) return Error{ErrorCode::io, "there is no directory for short names", ""};
    std::string name;
    for_each_link(directory_, [&](const fs::path& link, const fs::path& leads_to) {
        if (leads_to == target) name = link.string();
    });
    for (int number = 0; name.empty() && number < names_most; ++number) {
        const std::string path = directory_ + "/" + std::to_string(number);
        if (::symlink(target.c_str(), path.c_str()) == 0)
            name = path;
        else if (errno != EEXIST)
            return Error{ErrorCode::io, "making the link " + path + ": " + std::strerror(errno), ""};
    }
    if (name.empty()) return Error{ErrorCode::full, directory_ + " has no short name left", ""};
    return name;
}

void ShortNames::remove(const std::string& target) const {
    for_each_link(directory_, [target = absolute(target)](const fs::path& link, const fs::path& leads_to) {
        if (leads_to == target) ::unlink(link.c_str());
    });
}

void ShortNames::remove_all_but(const std::set<std::string>& targets) const {
    std::set<std::string> kept;
    for (const std::string& target : targets) kept.insert(absolute(target));
    for_each_link(directory_, [&](const fs::path& link, const fs::path& leads_to) {
        if (!kept.contains(leads_to)) ::unlink(link.c_str());
    });
}

void ShortNames::keep_fresh() const {
    if (directory_.empty()) return;
    ::utimensat(AT_FDCWD, directory_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    for_each_link(directory_, [](const fs::path& link, const fs::path&) {
        ::utimensat(AT_FDCWD, link.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    });
}

}  // namespace rtrain::agent
