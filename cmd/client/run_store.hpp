// Finds a run's directory by RUN[@checkpoint], where RUN is a run's name or id, or by a PATH. A PATH needs no head.
#pragma once

#include <memory>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {

struct RunStore {
    std::unique_ptr<storage::Store> store;
    std::string storage_path;  // as in a job spec: "/mnt/runs"; "" for cluster://
    std::string run_name;      // name of the run's directory below the storage path
    std::string checkpoint;    // the part after the @, or the last part of the path; may be empty
    std::string shown;         // the path for messages: "/mnt/runs/gpt"
    std::string run_id;        // empty unless the head resolved the name
};
struct StoredPath {  // any file or directory on storage: "/mnt/a", "s3://bucket/a", "cluster://a"
    std::unique_ptr<storage::Store> store;
    std::string root, path;  // root + path is the name that the user gave
};
Result<StoredPath> open_stored_path(Invocation& call, const std::string& text);
bool is_path(const std::string& text);  // false if the text names a run
Result<RunStore> open_run_store(Invocation& call, const std::string& text);

}  // namespace rtrain::cmd
