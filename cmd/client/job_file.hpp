// A job spec on disk, read and checked as a whole. Every problem is printed with its line and a caret.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/invocation.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct JobFile {
    spec::Job job;
    std::string folder;        // working_dir is relative to it
    std::string stem;          // the name of a job without a name
    bool folder_named = true;  // false: the spec has no working_dir, not even null
    std::string lines{};       // JSON {"file": "job.yaml", "at": {"scaling.nodes": 14}}: the lines of the fields
};
// Applies --set. Problems are printed on stderr and stored in `call.problems`; the Error summarises them.
Result<JobFile> read_job_file(Invocation& call, const std::string& path);
// Adds the line of the field to an error of the head about it ("queue: there is no queue ...").
Error with_line(Error error, const JobFile& file, const std::string& path);
Result<std::string> read_text(const std::string& path);  // "-": standard input
// Returns the canonical JSON of a job with `--set a.b=v` applied, checked again.
Result<spec::Job> with_sets(Invocation& call, const std::string& job_json, const std::vector<std::string>& sets);

}  // namespace rtrain::cmd
