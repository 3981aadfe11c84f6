// Finds a run's directory by RUN[@checkpoint], where RUN is a run's name or id, or by a PATH. A PATH needs no head.
#pragma once

#include <memory>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {

struct RunStore {
    std::unique_ptr<storage::Store> store;
    std::string storage_path;  // storage path as in a job spec: "/mnt/runs"; "" for cluster://
    std::string run_name;      // name of the run's directory below the storage path
    // name of the checkpoint: the part of the argument after the @, or the last part of the path; may be empty
    std::string checkpoint;
    std::string shown;   // the path for messages: "/mnt/runs/gpt"
    std::string run_id;  // id of the run, if the head has resolved its name; else empty
};
struct StoredPath {  // any file or directory on storage: "/mnt/a", "s3://bucket/a", "cluster://a"
    std::unique_ptr<storage::Store> store;
    std::string root, path;  // `root` + `path` is the name that the user gave
};
Result<StoredPath> open_stored_path(Invocation& call, const std::string& text);
bool is_path(const std::string& text);  // false: the text is a run's name or id
Result<RunStore> open_run_store(Invocation& call, const std::string& text);

}  // namespace rtrain::cmd
