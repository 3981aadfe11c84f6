// See ownership.hpp. Several runs may have had the same name on storage, one after the other. The users of all of them
// count.
#include "daemon/head/access/ownership.hpp"

#include <fcntl.h>

#include "daemon/head/files/blobs.hpp"
#include "daemon/head/files/run_header.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::head {

std::optional<std::string> Ownership::user_on_disk(const std::string& run_name) const {
    const auto root = storage::open_top(options_.storage_root);
    if (!root) return "";
    const auto directory = storage::open_beneath(*root, run_name, O_RDONLY | O_DIRECTORY);
    if (!directory) {
        if (directory.error().code == ErrorCode::not_found || directory.error().code == ErrorCode::invalid)
            return std::nullopt;
        return "";
    }
    const json header = run_header(*directory).content;
    const json user = header.is_object() ? header.value("user", json()) : json();
    return user.is_string() ? user.get<std::string>() : "";
}

std::set<std::string> Ownership::users_at(const std::string& run_name, const std::string& storage_path) const {
    std::set<std::string> users;
    for (const RunId id : view_.names.named(run_name)) {
        const Run& run = view_.cluster.runs.at(id);
        if (storage::same_place(run.storage_path, storage_path)) users.insert(run.user);
    }
    if (storage::same_place(storage_path, "cluster://"))
        if (const auto user = user_on_disk(run_name)) users.insert(*user);
    return users;
}

Status Ownership::may_use_directory(const Caller& caller, const std::string& run_name,
                                    const std::string& storage_path) const {
    if (is_admin(caller)) return Done{};
    for (const std::string& user : users_at(run_name, storage_path))
        if (user != caller.user)
            return Error{
                ErrorCode::unauthorised,
                "the files of run " + run_name + " at " + storage_path + " are " +
                    (user.empty() ? "nobody's" : user + "'s") + ", not " + caller.user + "'s",
                "take another name or storage_path, or ask " + (user.empty() ? "" : user + " or ") + "an admin"};
    return Done{};
}

bool Ownership::has_blob(const Caller& caller, const std::string& sha256) const {
    return is_admin(caller) || journal_.setting(blob_setting(sha256, caller.user)).has_value();
}

bool Ownership::may_read_stored(const Caller& caller, const std::string& path) const {
    if (is_admin(caller)) return true;
    const std::string run_name = path.substr(0, path.find('/'));
    if (run_name.empty()) return false;  // the storage root itself, which all users may read
    const std::set<std::string> users = users_at(run_name, "cluster://");
    return users.empty() || users == std::set<std::string>{caller.user};
}

}  // namespace rtrain::head
