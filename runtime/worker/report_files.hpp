// The files of a report on this rank's side: from the program's directory into one that the agent takes over, and what
// is removed or reused afterwards. A fault of the files costs the checkpoint, never the barrier.
// Invariant: no file is copied, moved or removed while the lock is held, so the heartbeat continues meanwhile.
#pragma once

#include <optional>
#include <string>

#include "runtime/worker/agent_loop.hpp"

namespace rtrain::worker {

struct ReportCall {
    std::string metrics_json;
    std::optional<std::string> directory;
    std::string directory_name;
    enum class Files { copied, given_away, copied_then_removed } files = Files::copied;
    Upload upload = Upload::run_default;
};

class ReportedDirectory;

class ReportFiles {  // Each int is an RTW_ code.
  public:
    explicit ReportFiles(AgentLoop& loop) : loop_(loop) {}

    int request_directory(Locked& client, std::string& path);  // a fresh directory, or a spare one without an agent
    // Sets the place of this report's files. `fault` is returned to the program after the barrier has passed.
    int stage(Locked& client, const ReportCall& call, Report& report, std::string& fault);
    void empty_and_keep(Locked& client, std::string directory);  // as a spare directory
    void remove_reported(Locked& client, ReportedDirectory& reported);

  private:
    struct Target {
        std::string path;
        std::string full;   // why there is no space for the files
        std::string fault;  // another fault of the storage
    };
    int find_place(Locked& client, const ReportCall& call, Target& target);

    AgentLoop& loop_;
    bool leftovers_reported_ = false;  // true: directories that could not be removed were reported once
};

}  // namespace rtrain::worker
