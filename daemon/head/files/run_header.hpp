// run.json of a run's directory: whose the directory is.
#pragma once

#include <sys/stat.h>

#include "base/descriptor.hpp"
#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {

// run.json of a run's directory, and the facts of a file that belongs to whom it was written by. A head that is root
// does with the directory what that user may (storage::other_owner), for others may be able to write in it as well. Of
// what root wrote, in earlier versions, it is the directory's owner. `content` is null: none can be read, or it is a
// link.
struct RunHeader {
    json content;
    struct stat owner{};
};
RunHeader run_header(const storage::Descriptor& directory);

}  // namespace rtrain::head
