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

}  // namespace rtrain::cmd
