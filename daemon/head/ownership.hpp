// Decides who may resume from a run's directory, remove it, or read it below cluster://.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <set>
#include <string>

#include "daemon/head/shell.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/uri/files/descriptor.hpp"

namespace rtrain::head {

bool is_admin(const Caller& caller);

// run.json of a run's directory, and the facts of a file that belongs to whom it was written by. A head that is root
// does with the directory what that user may (storage::other_owner), for others may be able to write in it as well. Of
// what root wrote, in earlier versions, it is the directory's owner. `said` is null: none can be read, or it is a link.
struct RunHeader {
    json said;
    struct stat owner{};
};
RunHeader run_header(const storage::Descriptor& directory);
json header_in(const storage::Descriptor& directory);

// The user that cluster://<run name>/run.json names, read without following a link. None: there is no such directory.
// Empty: the directory is there, and nobody can be made out as its user.
std::optional<std::string> user_on_disk(const Head& head, const std::string& run_name);

// The users of the runs that are recorded at this place, and whom run.json names where the head keeps the directory.
// Empty: nothing is known to be there.
std::set<std::string> users_at(const Head& head, const std::string& run_name, const std::string& storage_path);

// Refuses (unauthorised) what is done with the directory of a run that belongs to somebody else, or that several users
// have shared. An admin may. Directories that only agents see are judged by the agent, from run.json.
Status may_use_directory(const Head& head, const Caller& caller, const std::string& run_name,
                         const std::string& storage_path);

// Has this person sent the blob himself, or is an admin? Who only knows a hash learns nothing by it. What an admin
// submits may name anybody's.
std::string blob_setting(const std::string& sha256, const std::string& user);
bool has_blob(const Head& head, const Caller& caller, const std::string& sha256);

// May this person read `path` below cluster://? The run's user and admins; also true for what is not there.
bool may_read_stored(const Head& head, const Caller& caller, const std::string& path);

}  // namespace rtrain::head
