// See backup_place.hpp.
#include "daemon/head/files/backup_place.hpp"

#include <sstream>

namespace rtrain::head {
namespace {

struct Mount {
    std::string root, point, options;
};

bool holds(const std::string& point, const std::string& path) {
    return point == "/" || path == point || path.starts_with(point + "/");
}

// Returns the mount that contains `path`. If several lines have one place, the last line counts, since it hides the
// others.
Mount mount_of(const std::string& path, const std::string& mounts) {
    Mount mount;
    std::istringstream lines(mounts);
    for (std::string line; std::getline(lines, line);) {
        std::string id, parent, device;
        Mount candidate;
        std::istringstream(line) >> id >> parent >> device >> candidate.root >> candidate.point >> candidate.options;
        if (holds(candidate.point, path) && candidate.point.size() >= mount.point.size()) mount = candidate;
    }
    return mount;
}

}  // namespace

Status check_backup_place(const std::string& path, const std::string& mounts, const std::string& data_dir) {
    const Mount mount = mount_of(path, mounts);
    const bool own = mount.root.find("/systemd-private-") != std::string::npos;
    const bool read_only = mount.options == "ro" || mount.options.starts_with("ro,");
    if (!own && !read_only) return Done{};
    return Error{
        ErrorCode::conflict,
        own ? "the head's service has a " + mount.point + " of its own: nobody else would find " + path
            : "the head's service may not write " + path + ": " + mount.point + " is read-only for it",
        "on the head's machine: rtrain head backup FILE --data " + data_dir + "; or name a file below " + data_dir};
}

}  // namespace rtrain::head
