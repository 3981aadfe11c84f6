// Opens files for answers to people, in directories that other users may change meanwhile. A file is opened relative to
// the directory's descriptor. It is checked, and sent, by its own descriptor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::head {

// Opens the plain file `path` beneath `top`. Returns unauthorised for a link, also on the way, and for a file with a
// second name whose owner is not the owner of `top`: a user can give such a name to a file that they may not read.
// Returns not_found for any other file that is not plain. Does not block on a FIFO.
Result<storage::Descriptor> open_plain(const storage::Descriptor& top, const std::string& path);

// content of the file; nullopt: it is larger than 16 MiB, or unreadable
std::optional<std::string> text_of(const storage::Descriptor& file);

struct FoundFile {
    std::string path;  // path relative to `top`
    std::uint64_t bytes = 0;
};
// Returns the plain files at and below `prefix`, without links.
Result<std::vector<FoundFile>> files_beneath(const storage::Descriptor& top, const std::string& prefix);

}  // namespace rtrain::head
