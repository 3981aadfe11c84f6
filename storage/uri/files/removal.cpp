// See removal.hpp.
#include "storage/uri/files/removal.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/hex.hpp"
#include "storage/uri/files/disk.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::storage {
namespace {

constexpr std::size_t tag_digits = 16;

constexpr std::string_view prefix = ".rtrain-tmp-removed-";

std::string beginning(const std::string& name) { return std::string(prefix) + name + "-"; }

bool is_tag(std::string_view text) { return text.size() == tag_digits && is_hex(text); }

// Removes the directories in `parent` whose names `meant` accepts. Returns false if there was none.
template <class Meant>
Result<bool> remove_those(const Descriptor& parent, const Meant& meant) {
    const auto names = names_in(parent);
    if (!names) return names.error();
    auto own = open_beneath(parent, "", O_RDONLY | O_DIRECTORY);
    if (!own) return own.error();
    Place place{std::move(*own), ""};
    bool any = false;
    for (const std::string& name : *names) {
        if (!meant(name)) continue;
        any = true;
        place.name = name;
        if (Status gone = remove_all(place); !gone) return gone.error();
    }
    if (!any) return false;
    if (Status synced = disk::sync_directory(parent); !synced) return synced.error();
    return true;
}

bool is_the_same(const Descriptor& directory, const Descriptor& parent, const std::string& name) {
    struct stat opened{}, named{};
    return ::fstat(directory.number(), &opened) == 0 &&
           ::fstatat(parent.number(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

Result<std::string> set_aside(const Descriptor& parent, const std::string& name, const Descriptor& held) {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random)
        return disk::failure("removing", shown(parent, name), errno);
    char tag[tag_digits + 1];
    std::snprintf(tag, sizeof tag, "%016llx", static_cast<unsigned long long>(random));
    const std::string aside = beginning(name) + tag;
    if (::renameat(parent.number(), name.c_str(), parent.number(), aside.c_str()) != 0)
        return errno == ENOENT ? Result<std::string>("") : disk::failure("removing", shown(parent, name), errno);
    if (is_the_same(held, parent, aside)) return aside;
    put_back(parent, aside, name);
    return Error{ErrorCode::conflict, shown(parent, name) + " was exchanged while it was to be removed", "try again"};
}

void put_back(const Descriptor& parent, const std::string& aside, const std::string& name) {
    ::renameat2(parent.number(), aside.c_str(), parent.number(), name.c_str(), RENAME_NOREPLACE);
}

Result<bool> remove_aside(const Descriptor& parent, const std::string& name) {
    const std::string start = beginning(name);
    return remove_those(parent, [&start](const std::string& entry) {
        return entry.starts_with(start) && is_tag(std::string_view(entry).substr(start.size()));
    });
}

Result<bool> sweep_aside(const std::string& parent) {
    const auto opened = open_top(parent);
    if (!opened && opened.error().code == ErrorCode::not_found) return false;
    if (!opened) return opened.error();
    return remove_those(*opened, [](const std::string& name) { return name.starts_with(prefix); });
}

bool same_place(const std::string& path, const std::string& other) {
    const auto first = parse_uri(path), second = parse_uri(other);
    if (!first || !second) return path == other;
    if (first->scheme == Scheme::cluster || second->scheme == Scheme::cluster) return first->scheme == second->scheme;
    return canonical_text(*first) == canonical_text(*second);
}

}  // namespace rtrain::storage
