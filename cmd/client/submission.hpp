// Sends a job to the head with its code, secrets and idempotency key. Used by submit and restore.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {

struct ArrayMember {    // the place of a continued run in its job array
    std::string array;  // empty: none
    std::uint32_t index = 0;
};
struct Submission {
    spec::Job job;
    std::string code_sha256;   // hash of code that is on the head; empty: the job has no code
    std::string restore_from;  // a checkpoint by name; empty: the newest
    bool resume = false;
    bool make_new = false;  // use name-2 if the name is taken
    std::string array;      // "1-8%2": one run for each index; empty: one run
    std::string lines{};    // JobFile::lines
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
// Returns the run of this key, and submits one if there is none. A STOPPED run is resumed under a second key that is
// made from the first. For a STOPPING run it waits until that run has stopped.
Result<nlohmann::json> hand_over_once(Api& api, Submission submission);
// Prints the run. With -f, follows it. Returns the exit code.
Result<int> print_and_follow(Invocation& call, Api& api, const nlohmann::json& run);
std::string made_up_name(const std::string& stem);  // "train-kxqzv" for the stem "train"

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
