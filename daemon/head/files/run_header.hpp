// run.json of a run's directory, which names the user of the directory.
#pragma once

#include <sys/stat.h>

#include "base/descriptor.hpp"
#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {

// run.json of a run's directory, and the facts about the file's owner. A head that is root accesses the directory with
// that owner's rights (storage::other_owner), since others may be able to write there too. For a file of root, from an
// earlier version, it is the directory's owner. `content` is null if the file is a link or cannot be read.
struct RunHeader {
    json content;
    struct stat owner{};
};
RunHeader run_header(const storage::Descriptor& directory);

}  // namespace rtrain::head
