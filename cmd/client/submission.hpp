// Handing a job to the head: its code, its secrets, its idempotency key. Used by submit and by restore.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct ArrayMember {    // of a run that goes on: which one of its job array it is
    std::string array;  // empty: none
    std::uint32_t index = 0;
};
struct Submission {
    spec::Job job;
    std::string code_sha256;   // the head has it already; empty: no code
    std::string restore_from;  // a checkpoint by name; empty: the newest
    bool resume = false;
    bool make_new = false;  // a taken name becomes name-2
    std::string array;      // "1-8%2": a run for each; empty: one run
    std::string lines{};    // JobFile::lines
    ArrayMember member{};
    std::string key{};  // of idempotency; empty: one of its own
};

// Whether the environment has the secrets that the job names.
Status secrets_are_set(const spec::Job& job);
// Packs the directory and uploads it unless the head has it: its hash.
Result<spec::PackedCode> ship_directory(Invocation& call, Api& api, const std::string& directory,
                                        spec::NamedBy named_by, const std::string& needed = {});
// Names the links and special files of the working directory that stay here, ten at most.
void print_links_left_out(Invocation& call, const spec::PackedCode& packed);
// Names these, and the files that stay here because they may hold secrets.
void print_left_out(Invocation& call, const spec::PackedCode& packed);
Status ship_archive(Invocation& call, Api& api, const std::string& file, const std::string& sha256);
// The run. A broken connection is tried again with the same key, so the job is accepted once.
Result<nlohmann::json> hand_over(Api& api, const Submission& submission);
// The run of this key, which is made if there is none. One that was stopped is gone on with, under a key that follows
// from this one; one that is being stopped is waited for.
Result<nlohmann::json> hand_over_once(Api& api, Submission submission);
// Prints the run, then follows it when -f was given: the exit code.
Result<int> print_and_follow(Invocation& call, Api& api, const nlohmann::json& run);
std::string made_up_name(const std::string& stem);  // "train-kxqzv"

// A directory of our own under the system's temporary one, gone at the end.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    const std::string& path() const { return path_; }  // empty: it could not be made

  private:
    std::string path_;
};

}  // namespace rtrain::cmd
