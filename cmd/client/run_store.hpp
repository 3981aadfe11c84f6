// A run's directory at any place: RUN[@checkpoint] as the head names it, or a PATH, for which no head is needed.
#pragma once

#include <memory>
#include <string>

#include "cmd/client/api.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::cmd {

struct RunStore {
    std::unique_ptr<storage::Store> store;
    std::string storage_path;  // as in a job spec: "/mnt/runs", "" for cluster://
    std::string run_name;      // name of the directory below it
    std::string checkpoint;    // the part after the @, or the path's last part; may be empty
    std::string shown;         // for messages: "/mnt/runs/gpt"
    std::string run_id;        // set if the head named it; else empty
};
struct StoredPath {  // any file or directory on storage: "/mnt/a", "s3://bucket/a", "cluster://a"
    std::unique_ptr<storage::Store> store;
    std::string root, path;  // root + path is what the user named
};
Result<StoredPath> open_stored_path(Invocation& call, const std::string& text);
bool is_path(const std::string& text);  // false: the text names a run
Result<RunStore> open_run_store(Invocation& call, const std::string& text);

}  // namespace rtrain::cmd
