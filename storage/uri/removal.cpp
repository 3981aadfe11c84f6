// See removal.hpp. std::filesystem::remove_all goes down by descriptors: a directory that is exchanged for a link while
// it works is not entered.
#include "storage/uri/removal.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "storage/uri/disk.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t tag_digits = 16;

constexpr std::string_view prefix = ".rtrain-tmp-removed-";

std::string beginning(const std::string& directory) {
    return std::string(prefix) + fs::path(directory).filename().string() + "-";
}

bool is_tag(std::string_view text) {
    return text.size() == tag_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// False: there was none of them.
template <class Meant>
Result<bool> remove_those(const std::string& parent, const Meant& meant) {
    std::error_code failed;
    std::vector<fs::path> found;
    fs::directory_iterator at(parent, failed), end;
    if (failed == std::errc::no_such_file_or_directory) return false;
    for (; !failed && at != end; at.increment(failed))
        if (meant(at->path().filename().string())) found.push_back(at->path());
    if (failed) return disk::failure("listing", parent, failed.value());
    for (const fs::path& path : found) {
        fs::remove_all(path, failed);
        if (failed) return disk::failure("removing", path.string(), failed.value());
    }
    if (found.empty()) return false;
    if (Status synced = disk::sync_directory(parent); !synced) return synced.error();
    return true;
}

}  // namespace

Result<std::string> set_aside(const std::string& directory) {
    struct stat seen{};
    if (::lstat(directory.c_str(), &seen) != 0)
        return errno == ENOENT || errno == ENOTDIR ? Result<std::string>("")
                                                   : disk::failure("removing", directory, errno);
    if (!S_ISDIR(seen.st_mode))
        return Error{ErrorCode::conflict, directory + " is a link or a file, not a run's directory: it is left alone",
                     "remove it by hand"};
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return disk::failure("removing", directory, errno);
    char tag[tag_digits + 1];
    std::snprintf(tag, sizeof tag, "%016llx", static_cast<unsigned long long>(random));
    const std::string aside = disk::directory_of(directory) + "/" + beginning(directory) + tag;
    if (::rename(directory.c_str(), aside.c_str()) != 0)
        return errno == ENOENT ? Result<std::string>("") : disk::failure("removing", directory, errno);
    return aside;
}

void put_back(const std::string& aside, const std::string& directory) {
    ::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, directory.c_str(), RENAME_NOREPLACE);
}

Result<bool> remove_aside(const std::string& directory) {
    const std::string start = beginning(directory);
    return remove_those(disk::directory_of(directory), [&start](const std::string& name) {
        return name.starts_with(start) && is_tag(std::string_view(name).substr(start.size()));
    });
}

Result<bool> sweep_aside(const std::string& parent) {
    return remove_those(parent, [](const std::string& name) { return name.starts_with(prefix); });
}

bool same_place(const std::string& one, const std::string& other) {
    const auto first = parse_uri(one), second = parse_uri(other);
    if (!first || !second) return one == other;
    return first->scheme == second->scheme && (first->scheme == Scheme::cluster || first->path == second->path);
}

}  // namespace rtrain::storage
