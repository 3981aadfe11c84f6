// clang-format off: one call a line. Where runs live: an object-store interface over a storage path. Paths are relative,
// '/'-separated, checked against "..", and never start with '/'. Every write is durable when the call returns. Calls block: use them on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"
#include "storage/base/descriptor.hpp"

namespace rtrain::storage {

struct StoreEntry {
    std::string path;  // relative to the store
    std::int64_t bytes = 0;
    bool operator==(const StoreEntry&) const = default;
};
using Progress = std::function<void(std::int64_t bytes_done, std::int64_t bytes_total)>;

// What is read whole at most, into memory: run.json, claims, manifests. A user can write any of them.
inline constexpr std::int64_t whole_most = std::int64_t{64} << 20;
Error too_large(const std::string& path, std::int64_t most);  // damaged

class Store {
  public:
    virtual ~Store() = default;
    virtual Result<bool> create(const std::string& path, const std::string& bytes) = 0;  // false: exists (never overwrites)
    virtual Status put(const std::string& path, const std::string& bytes) = 0;           // whole or not at all
    virtual Result<std::string> get(const std::string& path, std::int64_t most = whole_most) = 0;  // not_found; damaged: too large
    virtual Status append(const std::string& path, const std::string& bytes) = 0;        // journals of one writer; on s3 a row of objects
    virtual Status put_file(const std::string& local, const std::string& path, bool may_move, const Progress& progress) = 0;
    virtual Status get_file(const std::string& path, const std::string& local, const Progress& progress) = 0;
    virtual Result<std::vector<StoreEntry>> list(const std::string& prefix) = 0;  // all files below, sorted by path
    virtual Status remove(const std::string& path) = 0;                           // a file; absent is fine
    virtual Status remove_tree(const std::string& path) = 0;
    virtual bool local() const = 0;                                 // files are reachable as local_path()
    virtual std::string local_path(const std::string& path) = 0;    // local stores only
    virtual Result<Descriptor> open(const std::string& path);       // local stores only: a plain file, to be read
};

// unseen: `root` is not looked at, which may wait for a mount that hangs. A root that is a file fails the first call then.
enum class Root { seen, unseen };
Result<std::unique_ptr<Store>> open_file_store(const std::string& root, Root look = Root::seen);

enum class Scheme { cluster, file, s3, gs };
struct StorageUri {
    Scheme scheme = Scheme::cluster;
    std::string path;  // file: absolute path; s3, gs: bucket/prefix
};
Result<StorageUri> parse_uri(const std::string& text);
// Writes, syncs, reads back and removes a probe file in the directory `below`: what failed, on which path, and why.
Status probe(Store& store, const std::string& name, const std::string& below = {});
// Returns the type of the directory's file system if it does not survive a reboot (tmpfs, overlay); else empty.
std::string volatile_filesystem(const std::string& directory);

}  // namespace rtrain::storage
