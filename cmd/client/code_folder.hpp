// Which directory of this machine travels along with a job.
#pragma once

#include <string>

#include "cmd/client/job_file.hpp"

namespace rtrain::cmd {

struct CodeFolder {
    std::string path;     // empty: nothing travels along
    std::string holds{};  // the file that must be in it
    spec::NamedBy named_by = spec::NamedBy::job;
};

// The working directory that the spec names; where it names none, its own folder, if the entrypoint is in it.
Result<CodeFolder> code_folder(Invocation& call, const JobFile& file);

// Fails if the entrypoint is certain not to start: its script is not in the directory that travels along, cannot be
// executed, or names its interpreter in a line that ends with \r\n. A command that a shell has to read is not judged.
Status check_entrypoint(const JobFile& file);

}  // namespace rtrain::cmd
