// What becomes of a symbolic link of a working directory. Inside of storage/spec only. runtime/python has the same
// rules in _archive/_links.py; tests/link_cases.json runs against both.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace rtrain::spec {

// A folder whose entries are being listed: where it lies in the archive, and where it really lies.
struct ListedFolder {
    std::string path;  // "" is the top
    std::filesystem::path real;
};

struct LinkFate {
    enum class Kind {
        kept,      // a link in the archive, to `target`
        followed,  // what it leads to, at `real`, takes its place in the archive
        left_out,  // `why` says why
    };
    Kind kind = Kind::left_out;
    std::string target, why;
    std::filesystem::path real{};
};

// The folders that decide about links: `top` is packed, and links are followed below `repository`.
struct LinkBounds {
    std::filesystem::path top, repository;
};

// Returns the bounds of a directory: its real path, and the nearest folder at or above it that has a `.git`. Without
// one, or where that is the home directory or the root, nothing is followed.
LinkBounds link_bounds(const std::filesystem::path& directory);

// Returns the fate of the link `path` (in the archive). `folders` are those on the way to it: the top, then each
// followed folder; the last one holds the link, which lies at `place`.
LinkFate fate_of_link(const std::string& path, const std::filesystem::path& place, const LinkBounds& bounds,
                      const std::vector<ListedFolder>& folders);

// Returns the names of the links of an archive that lead out of it, or round in a circle, by way of other links: path
// to target.
std::set<std::string> unsound_links(const std::map<std::string, std::string>& links);

}  // namespace rtrain::spec
