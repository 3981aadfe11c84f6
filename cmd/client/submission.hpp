// Sends a job to the head with its code, secrets and idempotency key. Used by submit and restore.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct ArrayMember {    // the place of a continued run in its job array
    std::string array;  // name of the job array; empty: the run is in none
    std::uint32_t index = 0;
};
struct Submission {
    spec::Job job;
    std::string code_sha256;   // hash of a code archive that the head has; empty: the job has no code
    std::string restore_from;  // name of a checkpoint to start from; empty: the newest
    bool resume = false;
    bool make_new = false;  // true: if the name is taken, the run is named name-2
    std::string array;      // indices of a job array: "1-8%2"; empty: a single run
    std::string lines{};    // lines of the job's fields in its file, as JobFile::lines
    ArrayMember member{};
    std::string key{};  // idempotency key; empty: a new one is made
};

// Fails if the environment lacks a secret that the job names.
Status secrets_are_set(const spec::Job& job);
// Packs the directory, and uploads it unless the head has an archive with this hash. Returns the packed code.
Result<spec::PackedCode> ship_directory(Invocation& call, Api& api, const std::string& directory,
                                        spec::NamedBy named_by, const std::string& needed = {});
// Prints the links and special files of the working directory that are not uploaded, ten at most.
void print_links_left_out(Invocation& call, const spec::PackedCode& packed);
// Prints the links, special files and files with possible secrets that are not uploaded.
void print_left_out(Invocation& call, const spec::PackedCode& packed);
Status ship_archive(Invocation& call, Api& api, const std::string& file, const std::string& sha256);
// Submits the job and returns its run. After a broken connection it tries again with the same key, so the head accepts
// the job once.
Result<nlohmann::json> hand_over(Api& api, const Submission& submission);
// Returns the run with this submission's key. If there is none, submits one. If the run is STOPPED, resumes it under a
// second key, which is made from the first. If it is STOPPING, waits until it has stopped.
Result<nlohmann::json> hand_over_once(Api& api, Submission submission);
// Prints the run. With -f, follows it. Returns the exit code.
Result<int> print_and_follow(Invocation& call, Api& api, const nlohmann::json& run);
// returns the stem with five random letters: "train-kxqzv" for "train"
std::string made_up_name(const std::string& stem);

// A new directory below the system's temporary one. The destructor removes it.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    const std::string& path() const { return path_; }  // empty if the directory could not be made

  private:
    std::string path_;
};

}  // namespace rtrain::cmd
