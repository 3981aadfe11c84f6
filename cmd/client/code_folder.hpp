// Finds the directory of this machine that is packed and uploaded with a job.
#pragma once

#include <string>

#include "cmd/client/job_file.hpp"

namespace rtrain::cmd {

struct CodeFolder {
    std::string path;     // empty if the job has no code to upload
    std::string holds{};  // path of a file that the packed code must contain; empty: none
    spec::NamedBy named_by = spec::NamedBy::job;
};

// Returns the working directory that the spec names. If the spec names none, returns the spec's own folder, provided
// that the entrypoint names a file there.
Result<CodeFolder> code_folder(Invocation& call, const JobFile& file);

// Fails if the entrypoint cannot start: its script is not in the directory that is uploaded, is not executable, or has
// a first line (#!) that ends with \r\n. Does not check commands that need a shell.
Status check_entrypoint(const JobFile& file);

}  // namespace rtrain::cmd
