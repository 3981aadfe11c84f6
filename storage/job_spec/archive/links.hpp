// Decides what becomes of a symbolic link of a working directory. Used inside of storage/job_spec only. runtime/python
// has the same rules in _archive/_links.py; tests/link_cases.json tests both.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace rtrain::spec {

// A folder whose entries are being listed: its path in the archive, and its real path on disk.
struct ListedFolder {
    std::string path;  // path in the archive; "" is the top
    std::filesystem::path real;
};

struct LinkFate {
    enum class Kind {
        kept,      // the link stays a link in the archive, to `target`
        followed,  // the file or folder at `real` replaces the link in the archive
        left_out,  // the link is left out; `why` is the reason
    };
    Kind kind = Kind::left_out;
    std::string target, why;
    std::filesystem::path real{};
};

// The folders that decide about links: `top` is packed, and links are followed within `repository`.
struct LinkBounds {
    std::filesystem::path top, repository;
};

// Returns the bounds of a directory: its real path, and the nearest folder at or above it that has a `.git`. If there
// is none, or if it is the home directory or the root, no link is followed.
LinkBounds link_bounds(const std::filesystem::path& directory);

// Decides what becomes of the link with the path `path` in the archive. `folders` are the folders on the way to it: the
// top, then each followed folder. The last one contains the link. `place`: the link's path on this machine.
LinkFate fate_of_link(const std::string& path, const std::filesystem::path& place, const LinkBounds& bounds,
                      const std::vector<ListedFolder>& folders);

// Returns the links of an archive that, through other links, lead out of it or in a circle. `links`: path -> target.
std::set<std::string> unsound_links(const std::map<std::string, std::string>& links);

}  // namespace rtrain::spec
