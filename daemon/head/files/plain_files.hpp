// Files that people are answered with from directories which others may change meanwhile: opened beneath a directory's
// descriptor, judged by the descriptor, and sent from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::head {

// The plain file `path` beneath `top`. Refuses (unauthorised) links, also those on the way, and a file of another owner
// than `top` that has a second name: such a name can be given to files that one may not read. Anything else that is no
// plain file is not_found; a FIFO is not waited for.
Result<storage::Descriptor> open_plain(const storage::Descriptor& top, const std::string& path);

std::optional<std::string> text_of(const storage::Descriptor& file);  // none: larger than 16 MiB, or it cannot be read

struct FoundFile {
    std::string path;  // relative to `top`
    std::uint64_t bytes = 0;
};
// The plain files at and below `prefix`, links left out.
Result<std::vector<FoundFile>> files_beneath(const storage::Descriptor& top, const std::string& prefix);

}  // namespace rtrain::head
