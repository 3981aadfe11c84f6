// See run_header.hpp.
#include "daemon/head/files/run_header.hpp"

#include "base/json_text.hpp"
#include "daemon/head/files/plain_files.hpp"

namespace rtrain::head {

RunHeader run_header(const storage::Descriptor& directory) {
    RunHeader header;
    const auto file = open_plain(directory, "run.json");
    const auto text = file ? text_of(*file) : std::nullopt;
    struct stat written{}, above{};
    if (!text || ::fstat(file->number(), &written) != 0 || ::fstat(directory.number(), &above) != 0) return header;
    header.content = parsed_or_null(*text);
    header.owner = written.st_uid == 0 ? above : written;
    return header;
}

}  // namespace rtrain::head
