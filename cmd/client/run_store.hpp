// A run's directory, wherever it is: RUN[@checkpoint] as the head knows it, or a PATH that needs no head's memory.
#pragma once

#include <memory>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {

struct RunStore {
    std::unique_ptr<storage::Store> store;
    std::string storage_path;  // what a job spec would say: "/mnt/runs", "" for cluster://
    std::string run_name;      // the directory's name below it
    std::string checkpoint;    // after the @, or the path's last part; may be empty
    std::string shown;         // for messages: "/mnt/runs/gpt"
    std::string run_id;        // where the head named it; else empty
};
struct StoredPath {  // any file or directory on storage: "/mnt/a", "s3://bucket/a", "cluster://a"
    std::unique_ptr<storage::Store> store;
    std::string root, path;  // root + path is what was named
};
Result<StoredPath> open_stored_path(Invocation& call, const std::string& text);
bool is_path(const std::string& text);  // else it names a run
Result<RunStore> open_run_store(Invocation& call, const std::string& text);

}  // namespace rtrain::cmd
