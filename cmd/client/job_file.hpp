// A job spec on disk, read and checked as a whole; every problem is printed with its line and a caret.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/invocation.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::cmd {

struct JobFile {
    spec::Job job;
    std::string folder;        // what working_dir is relative to
    std::string stem;          // names a job that has no name
    bool folder_named = true;  // false: the spec says nothing of a working_dir, not even null
    std::string lines{};       // JSON {"file": "job.yaml", "at": {"scaling.nodes": 14}}: where fields stand
};
// Honours --set. Problems are talked on stderr and kept in `call.problems`; the error sums them up.
Result<JobFile> read_job_file(Invocation& call, const std::string& path);
// What only the head can say of a field ("queue: there is no queue ...") gets the line that it stands in.
Error with_line(Error error, const JobFile& file, const std::string& path);
Result<std::string> read_text(const std::string& path);  // "-": standard input
// The canonical JSON of a job with `--set a.b=v` laid over it, checked again.
Result<spec::Job> with_sets(Invocation& call, const std::string& job_json, const std::vector<std::string>& sets);

}  // namespace rtrain::cmd
