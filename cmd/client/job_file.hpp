// Reads a job spec from disk and checks it as a whole. Every problem is printed with its line and a caret.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/invocation.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct JobFile {
    spec::Job job;
    std::string folder;        // folder of the spec's file, at which a relative working_dir begins
    std::string stem;          // stem of the spec's file name; the job's name begins with it if the spec gives none
    bool folder_named = true;  // false: the spec has no field working_dir, not even with null
    std::string lines{};       // JSON {"file": "job.yaml", "at": {"scaling.nodes": 14}}: the lines of the fields
};
// Reads the file and applies --set. Prints each problem on stderr and stores it in `call.problems`. The Error
// summarises them.
Result<JobFile> read_job_file(Invocation& call, const std::string& path);
// If the head's error is about a field ("queue: there is no queue ..."), adds the field's line in the file.
Error with_line(Error error, const JobFile& file, const std::string& path);
Result<std::string> read_text(const std::string& path);  // reads a file; "-": standard input
// Applies `--set a.b=v` to a job, checks it again, and returns its canonical JSON.
Result<spec::Job> with_sets(Invocation& call, const std::string& job_json, const std::vector<std::string>& sets);

}  // namespace rtrain::cmd
