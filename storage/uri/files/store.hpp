// clang-format off: one call a line. Where runs live: an object-store interface over a storage path. Paths are relative,
// '/'-separated, checked against "..", and never start with '/'. Every write is durable when the call returns. Calls block: use them on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::storage {

struct StoreEntry {
    std::string path;  // path relative to the store
    std::int64_t bytes = 0;
    bool operator==(const StoreEntry&) const = default;
};
using Progress = std::function<void(std::int64_t bytes_done, std::int64_t bytes_total)>;

// The most bytes of a file that is read into memory as a whole: run.json, claims, manifests. A user can write any of
// them.
inline constexpr std::int64_t whole_most = std::int64_t{64} << 20;
Error too_large(const std::string& path, std::int64_t most);  // error with the code `damaged`

class Store {
  public:
    virtual ~Store() = default;
    // creates a file; false: the file exists already and is not changed
    virtual Result<bool> create(const std::string& path, const std::string& bytes) = 0;
    // writes or replaces a file, as a whole or not at all
    virtual Status put(const std::string& path, const std::string& bytes) = 0;
    // Returns the content of a file. Errors: not_found, damaged (more than `most` bytes).
    virtual Result<std::string> get(const std::string& path, std::int64_t most = whole_most) = 0;
    // appends to a journal that has one writer; on s3 a journal is a sequence of objects
    virtual Status append(const std::string& path, const std::string& bytes) = 0;
    virtual Status put_file(const std::string& local, const std::string& path, bool may_move, const Progress& progress) = 0;
    virtual Status get_file(const std::string& path, const std::string& local, const Progress& progress) = 0;
    // all files whose path begins with the directory `prefix`, sorted by path
    virtual Result<std::vector<StoreEntry>> list(const std::string& prefix) = 0;
    virtual Status remove(const std::string& path) = 0;  // removes a file; succeeds if it is absent
    virtual Status remove_tree(const std::string& path) = 0;
    virtual bool local() const = 0;  // true: files are reachable as local_path()
    virtual std::string local_path(const std::string& path) = 0;  // path on this machine; for local stores only
    virtual Result<Descriptor> open(const std::string& path);  // opens a plain file for reading; for local stores only
    // opens the storage path itself, with this thread's rights; for local stores only
    virtual Result<Descriptor> top();
    virtual Result<Descriptor> made_top() { return top(); }  // like top(), but makes the storage path if it is absent
};

// Whether opening examines the root. `unseen`: it does not, because that may wait for a mount that hangs. If the root
// is a file, the first call fails.
enum class Root { seen, unseen };
// How links on the way to `root` are treated. `refused`: each call fails if there is one, even if it was created since
// the last call.
enum class Links { followed, refused };
Result<std::unique_ptr<Store>> open_file_store(const std::string& root, Root look = Root::seen, Links links = Links::followed);

enum class Scheme { cluster, file, s3, gs, az, abfs, abfss };
struct StorageUri {
    Scheme scheme = Scheme::cluster;
    // file: absolute path; in an object store: bucket/prefix, also "container@account.dfs.core.windows.net/prefix"
    std::string path;
};
Result<StorageUri> parse_uri(const std::string& text);
bool is_bucket(Scheme);           // true: an object store
const char* prefix_of(Scheme);    // "s3://"; empty for a path of a file system
// Returns the one spelling of an object store's path that has several: "az://container/prefix" also for abfs://, and
// abfss:// wherever the path names an account.
std::string canonical_text(const StorageUri&);
std::string text_of(const StorageUri&);  // the storage path, normalised: "s3://bucket/prefix", "/mnt/shared"
// Writes, syncs, reads back and removes a probe file in the directory `below`. Its Error names the failed operation,
// the path and the cause.
Status probe(Store& store, const std::string& name, const std::string& below = {});
// Returns the type of the directory's file system if its content does not survive a reboot (tmpfs, overlay); else an
// empty text.
std::string volatile_filesystem(const std::string& directory);

}  // namespace rtrain::storage
