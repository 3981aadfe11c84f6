// Reads a job spec from disk and checks it as a whole. Every problem is printed with its line and a caret.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/invocation.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct JobFile {
    spec::Job job;
    std::string folder;        // the base of a relative working_dir
    std::string stem;          // the job's name if the spec gives none
    bool folder_named = true;  // false: the spec has no working_dir, not even null
    std::string lines{};       // JSON {"file": "job.yaml", "at": {"scaling.nodes": 14}}: the lines of the fields
};
// Reads the file and applies --set. Prints each problem on stderr and stores it in `call.problems`. The Error
// summarises them.
Result<JobFile> read_job_file(Invocation& call, const std::string& path);
// Adds the line of the field to an error from the head about this field ("queue: there is no queue ...").
Error with_line(Error error, const JobFile& file, const std::string& path);
Result<std::string> read_text(const std::string& path);  // "-": standard input
// Applies `--set a.b=v` to a job, checks it again, and returns its canonical JSON.
Result<spec::Job> with_sets(Invocation& call, const std::string& job_json, const std::vector<std::string>& sets);

}  // namespace rtrain::cmd
