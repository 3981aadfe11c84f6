// Reads run.json of a run's directory, which names the user of the directory.
#pragma once

#include <sys/stat.h>

#include "base/descriptor.hpp"
#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {

// Content of run.json, and facts about the owner of the file. A root head accesses the directory with that owner's
// rights (storage::other_owner), since others may be able to write there too. If the file belongs to root, as in
// earlier versions, `owner` is the directory's owner. `content` is null if the file is a link or cannot be read.
struct RunHeader {
    json content;
    struct stat owner{};
};
RunHeader run_header(const storage::Descriptor& directory);

}  // namespace rtrain::head
