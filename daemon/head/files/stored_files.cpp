// See stored_files.hpp.
#include "daemon/head/files/stored_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "daemon/head/files/run_header.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

std::string run_name_of(const std::string& path) { return path.substr(0, path.find('/')); }

std::string user_in_header(const std::string& root, const std::string& name) {
    const auto top = storage::open_top(root);
    const auto directory =
        top ? storage::open_beneath(*top, name, O_RDONLY | O_DIRECTORY) : Result<storage::Descriptor>(top.error());
    if (!directory) return "";
    const RunHeader header = run_header(*directory);
    const json user = header.content.is_object() ? header.content.value("user", json()) : json();
    return user.is_string() ? user.get<std::string>() : "";
}

std::vector<StoredFiles::Directory> all_directories(const std::string& root) {
    std::vector<StoredFiles::Directory> out;
    std::error_code failed;
    for (fs::directory_iterator at(root, failed), end; !failed && at != end; at.increment(failed)) {
        std::error_code gone;
        const std::string name = at->path().filename();
        if (!name.starts_with('.') && fs::is_directory(at->symlink_status(gone)))
            out.push_back(stored_directory(root, name));
    }
    return out;
}

}  // namespace

std::int64_t stored_bytes_below(const std::string& directory) {
    std::int64_t bytes = 0;
    std::error_code failed;
    fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied, failed);
    for (const fs::recursive_directory_iterator end; !failed && at != end; at.increment(failed)) {
        std::error_code gone;
        if (!fs::is_regular_file(at->symlink_status(gone)) || gone) continue;
        const auto size = at->file_size(gone);
        if (!gone) bytes += static_cast<std::int64_t>(size);
    }
    return bytes;
}

StoredFiles::Directory stored_directory(const std::string& root, const std::string& name) {
    return {.name = name, .user = user_in_header(root, name), .bytes = stored_bytes_below(root + "/" + name)};
}

void StoredFiles::count() {
    using Counted = Result<std::vector<Directory>>;
    background_.offload_at(
        options_.storage_root, [root = options_.storage_root] { return Counted(all_directories(root)); },
        [](const Error& error) { return Counted(error); },
        [this](Counted counted) {
            if (!counted)
                return (void)std::fprintf(stderr, "rtrain head: files below cluster:// are counted tomorrow: %s\n",
                                          counted.error().message.c_str());
            for (const auto& [name, directory] : std::exchange(directories_, {})) bytes_.forget(Kept::stored, name);
            for (Directory& directory : *counted) set(std::move(directory));
        });
}

void StoredFiles::recount(const std::string& name) {
    using Counted = Result<Directory>;
    background_.offload_at(
        options_.storage_root, [root = options_.storage_root, name] { return Counted(stored_directory(root, name)); },
        [](const Error& error) { return Counted(error); },
        [this](Counted counted) {
            if (counted) set(*std::move(counted));
        });
}

void StoredFiles::grew(const std::string& path, std::int64_t bytes) {
    const std::string name = run_name_of(path);
    const auto known = directories_.find(name);
    Directory directory = known == directories_.end() ? Directory{.name = name, .user = {}} : known->second;
    directory.bytes = std::max<std::int64_t>(0, directory.bytes + bytes);
    set(std::move(directory));
}

std::string StoredFiles::owner_of(const std::string& path) const { return user_of(run_name_of(path)); }

// Returns the user of a directory. It is the user of the newest run with this name. If its runs were removed, it is the
// user in run.json.
std::string StoredFiles::user_of(const std::string& name) const {
    std::string user;
    for (const RunId id : view_.names.named(name)) {
        const Run& run = view_.cluster.runs.at(id);
        const auto uri = storage::parse_uri(run.storage_path.empty() ? "cluster://" : run.storage_path);
        if (uri && uri->scheme == storage::Scheme::cluster) user = run.user;
    }
    const auto known = directories_.find(name);
    return user.empty() && known != directories_.end() ? known->second.user : user;
}

void StoredFiles::set(Directory directory) {
    const std::string name = directory.name;
    bytes_.forget(Kept::stored, name);
    if (directory.bytes == 0) return (void)directories_.erase(name);
    const std::int64_t bytes = directory.bytes;
    directories_.insert_or_assign(name, std::move(directory));
    if (const std::string user = user_of(name); !user.empty()) bytes_.put(user, Kept::stored, name, {.storage = bytes});
}

}  // namespace rtrain::head
