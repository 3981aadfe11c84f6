// See ownership.hpp. A name on storage may have been several runs', one after the other: all of them count.
#include "daemon/head/ownership.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/head/plain_files.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::head {
bool is_admin(const Caller& caller) { return caller.role == Role::admin; }

RunHeader run_header(const storage::Descriptor& directory) {
    RunHeader header;
    const auto file = open_plain(directory, "run.json");
    const auto text = file ? text_of(*file) : std::nullopt;
    struct stat written{}, above{};
    if (!text || ::fstat(file->number(), &written) != 0 || ::fstat(directory.number(), &above) != 0) return header;
    header.said = parsed_or_null(*text);
    header.owner = written.st_uid == 0 ? above : written;
    return header;
}

json header_in(const storage::Descriptor& directory) { return run_header(directory).said; }

std::optional<std::string> user_on_disk(const Head& head, const std::string& run_name) {
    const auto root = storage::open_top(head.options.storage_root);
    if (!root) return "";
    const auto directory = storage::open_beneath(*root, run_name, O_RDONLY | O_DIRECTORY);
    if (!directory) {
        if (directory.error().code == ErrorCode::not_found || directory.error().code == ErrorCode::invalid)
            return std::nullopt;
        return "";
    }
    const json header = header_in(*directory);
    const json user = header.is_object() ? header.value("user", json()) : json();
    return user.is_string() ? user.get<std::string>() : "";
}

std::set<std::string> users_at(const Head& head, const std::string& run_name, const std::string& storage_path) {
    std::set<std::string> users;
    for (const RunId id : head.names.named(run_name)) {
        const Run& run = head.cluster.runs.at(id);
        if (storage::same_place(run.storage_path, storage_path)) users.insert(run.user);
    }
    if (storage::same_place(storage_path, "cluster://"))
        if (const auto user = user_on_disk(head, run_name)) users.insert(*user);
    return users;
}

Status may_use_directory(const Head& head, const Caller& caller, const std::string& run_name,
                         const std::string& storage_path) {
    if (is_admin(caller)) return Done{};
    for (const std::string& user : users_at(head, run_name, storage_path))
        if (user != caller.user)
            return Error{
                ErrorCode::unauthorised,
                "the files of run " + run_name + " at " + storage_path + " are " +
                    (user.empty() ? "nobody's" : user + "'s") + ", not " + caller.user + "'s",
                "take another name or storage_path, or ask " + (user.empty() ? "" : user + " or ") + "an admin"};
    return Done{};
}

std::string blob_setting(const std::string& sha256, const std::string& user) { return "blob/" + sha256 + "/" + user; }

bool has_blob(const Head& head, const Caller& caller, const std::string& sha256) {
    return is_admin(caller) || head.journal->setting(blob_setting(sha256, caller.user)).has_value();
}

bool may_read_stored(const Head& head, const Caller& caller, const std::string& path) {
    if (is_admin(caller)) return true;
    const std::string run_name = path.substr(0, path.find('/'));
    if (run_name.empty()) return false;  // the root itself: everybody's
    const std::set<std::string> users = users_at(head, run_name, "cluster://");
    return users.empty() || users == std::set<std::string>{caller.user};
}

}  // namespace rtrain::head
