// Parses a storage path and checks whether it can be relied on: its scheme, a probe, and the type of its file system.

#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/uri/files/disk.hpp"
#include "storage/uri/files/path.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

Error wrong(const std::string& text, const std::string& why) {
    return {
        ErrorCode::invalid, "storage path \"" + text + "\": " + why,
        "use an absolute path such as /mnt/shared/runs, or leave it out: the run's files are then kept on the head"};
}

Result<StorageUri> file_uri(const std::string& text, const std::string& path) {
    if (path.empty() || path.front() != '/') return wrong(text, "it is not absolute");
    if (path.find('\0') != std::string::npos) return wrong(text, "it contains a zero byte");
    std::string normal = fs::path(path).lexically_normal().string();
    while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
    return StorageUri{.scheme = Scheme::file, .path = normal};
}

Result<StorageUri> bucket_uri(const std::string& text, Scheme scheme, std::string path) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    if (path.empty() || path.front() == '/') return wrong(text, "it names no bucket");
    return StorageUri{.scheme = scheme, .path = path};
}

Status refuse_path(const std::string& path, const char* why) {
    return Error{ErrorCode::invalid, "storage path \"" + path + "\": " + why, ""};
}

// Returns the root of the mount that contains `directory`: "/", or the source directory of a bind mount.
std::string mounted_root(const std::string& directory) {
    std::ifstream mounts("/proc/self/mountinfo");
    std::string line, best_point, best_root;
    while (std::getline(mounts, line)) {
        std::istringstream fields(line);
        std::string skip, root, point;
        fields >> skip >> skip >> skip >> root >> point;
        const bool below = directory == point || directory.starts_with(point == "/" ? point : point + "/");
        if (below && point.size() >= best_point.size()) {
            best_point = point;
            best_root = root;
        }
    }
    return best_root;
}

}  // namespace

Result<Descriptor> Store::top() { return Error{ErrorCode::invalid, "this storage path is no directory", ""}; }

Result<Descriptor> Store::open(const std::string& path) {
    return Error{ErrorCode::invalid, "opening " + path + ": this storage is not a directory here", ""};
}

Result<StorageUri> parse_uri(const std::string& text) {
    const auto after = [&](std::string_view scheme) { return text.substr(scheme.size()); };
    if (text.empty()) return StorageUri{};
    if (text.starts_with("cluster://")) return StorageUri{.scheme = Scheme::cluster, .path = after("cluster://")};
    if (text.starts_with("file://")) return file_uri(text, after("file://"));
    if (text.starts_with("s3://")) return bucket_uri(text, Scheme::s3, after("s3://"));
    for (const Scheme scheme : {Scheme::gs, Scheme::az, Scheme::abfs, Scheme::abfss})
        if (text.starts_with(prefix_of(scheme))) return bucket_uri(text, scheme, after(prefix_of(scheme)));
    if (const auto at = text.find("://"); at != std::string::npos)
        return wrong(text, "the scheme " + text.substr(0, at + 3) +
                               " is unknown; known are file://, cluster://, s3://, gs://, az://, abfss://");
    return file_uri(text, text);
}

bool is_bucket(Scheme scheme) { return scheme != Scheme::cluster && scheme != Scheme::file; }

const char* prefix_of(Scheme scheme) {
    switch (scheme) {
        case Scheme::cluster:
            return "cluster://";
        case Scheme::file:
            return "";
        case Scheme::s3:
            return "s3://";
        case Scheme::gs:
            return "gs://";
        case Scheme::az:
            return "az://";
        case Scheme::abfs:
            return "abfs://";
        case Scheme::abfss:
            return "abfss://";
    }
    return "";
}

std::string canonical_text(const StorageUri& uri) {
    const bool is_azure = uri.scheme == Scheme::az || uri.scheme == Scheme::abfs || uri.scheme == Scheme::abfss;
    if (!is_azure) return text_of(uri);
    const bool has_account = uri.path.substr(0, uri.path.find('/')).find('@') != uri.path.npos;
    return prefix_of(has_account ? Scheme::abfss : Scheme::az) + uri.path;
}

std::string text_of(const StorageUri& uri) { return prefix_of(uri.scheme) + uri.path; }

Status check_path(const std::string& path) {
    if (path.empty()) return refuse_path(path, "is empty");
    if (path.front() == '/') return refuse_path(path, "must not start with '/'");
    if (path.find('\0') != std::string::npos) return refuse_path(path, "contains a zero byte");
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string part = path.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") return refuse_path(path, "has an empty, '.' or '..' part");
        if (disk::is_temporary(part)) return refuse_path(path, "names starting with .rtrain-tmp- are kept for rtrain");
        begin = end + 1;
    }
    return Done{};
}

Status probe(Store& store, const std::string& name, const std::string& below) {
    // The name is random, because other users may write to the directory. Exception: the head lets a node write only
    // under the node's own name.
    const std::string file = ".rtrain-probe-" + (store.local() ? disk::random_name() : name);
    const std::string path = below.empty() ? file : below + "/" + file;
    const std::string bytes = "rtrain probe " + name + " " + std::to_string(::getpid());
    if (auto written = store.put(path, bytes); !written) return written;
    const auto back = store.get(path);
    if (!back) return back.error();
    if (*back != bytes)
        return Error{ErrorCode::damaged, "reading back " + path + ": not what was written a moment ago",
                     "another process writes the same probe, or the file system is broken"};
    return store.remove(path);
}

std::string volatile_filesystem(const std::string& directory) {
    std::error_code failed;
    fs::path place = fs::absolute(directory, failed);
    while (!fs::exists(place, failed) && place.has_relative_path()) place = place.parent_path();
    place = fs::weakly_canonical(place, failed);
    struct statfs seen{};
    if (::statfs(place.c_str(), &seen) != 0) return "";
    constexpr long tmpfs_magic = 0x01021994, ramfs_magic = 0x858458f6, overlay_magic = 0x794c7630;
    if (seen.f_type == tmpfs_magic) return "tmpfs";
    if (seen.f_type == ramfs_magic) return "ramfs";
    if (seen.f_type == overlay_magic) return "overlay";
    return mounted_root(place.string()).find("kubernetes.io~empty-dir") != std::string::npos ? "emptyDir" : "";
}

}  // namespace rtrain::storage
