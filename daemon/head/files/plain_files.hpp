// Files that people are answered with from directories which others may change meanwhile: opened beneath a directory's
// descriptor, judged by the descriptor, and sent from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::head {

// Opens the plain file `path` beneath `top`. Returns unauthorised for links, also on the path, and for a file with
// another owner than `top` and a second name: such a name can be given to files that one may not read. Any other file
// is not_found. Does not block on a FIFO.
Result<storage::Descriptor> open_plain(const storage::Descriptor& top, const std::string& path);

std::optional<std::string> text_of(const storage::Descriptor& file);  // nullopt: larger than 16 MiB, or unreadable

struct FoundFile {
    std::string path;  // relative to `top`
    std::uint64_t bytes = 0;
};
// Returns the plain files at and below `prefix`, without links.
Result<std::vector<FoundFile>> files_beneath(const storage::Descriptor& top, const std::string& prefix);

}  // namespace rtrain::head
