#include "storage/job_spec/archive/links.hpp"

#include <cstdlib>
#include <deque>
#include <optional>

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
constexpr int hops_most = 40;  // the most links that are followed for one path, as in the kernel
using Parts = std::vector<std::string>;

Parts parts_of(const fs::path& path) {
    Parts parts;
    for (const fs::path& part : path)
        if (!part.empty() && part != "." && part != "/") parts.push_back(part.string());
    return parts;
}

bool is_below(const fs::path& path, const fs::path& folder) {
    const std::string above = folder == "/" ? "/" : folder.string() + "/";
    return path == folder || path.string().starts_with(above);
}

// Returns true if a link with this relative target stays within the folder `base` of the archive.
bool stays_in(const std::string& base, const std::string& path, const std::string& target) {
    std::size_t depth = parts_of(fs::path(path).parent_path()).size() - parts_of(base).size();
    for (const std::string& part : parts_of(target)) {
        if (part != "..")
            ++depth;
        else if (depth-- == 0)
            return false;
    }
    return true;
}

LinkFate left_out(const std::string& target, const std::string& why) {
    return {.kind = LinkFate::Kind::left_out, .target = target, .why = "-> " + target + " " + why};
}

// Returns the target of a relative link to the file at `real`, if that lies inside of one of the folders; nullopt
// otherwise.
std::optional<std::string> inner_target(const std::string& path, const fs::path& real,
                                        const std::vector<ListedFolder>& folders) {
    for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
        if (!is_below(real, folder->real)) continue;
        fs::path there("/" + folder->path);
        if (real != folder->real) there /= real.lexically_relative(folder->real);
        return there.lexically_relative(fs::path("/" + path).parent_path()).string();
    }
    return std::nullopt;
}

// Resolves a path through the links of an archive. Returns nullopt if the path leads out of the archive, or in a
// circle.
class Resolver {
  public:
    explicit Resolver(const std::map<std::string, std::string>& links) : links_(links) {}

    bool stays_inside(const std::string& link) {
        std::deque<std::string> todo;
        for (const std::string& part : parts_of(link)) todo.push_back(part);
        std::string place;
        for (int hops = 0; !todo.empty();) {
            const std::string part = todo.front();
            todo.pop_front();
            if (part == "..") {
                if (place.empty()) return false;
                place = fs::path(place).parent_path().string();
                continue;
            }
            const std::string next = place.empty() ? part : place + "/" + part;
            const auto link_there = links_.find(next);
            if (link_there == links_.end()) {
                place = next;
                continue;
            }
            if (++hops > hops_most) return false;
            const Parts target = parts_of(link_there->second);
            todo.insert(todo.begin(), target.begin(), target.end());
        }
        return true;
    }

  private:
    const std::map<std::string, std::string>& links_;
};

}  // namespace

LinkBounds link_bounds(const fs::path& directory) {
    std::error_code failed;
    const fs::path top = fs::canonical(directory, failed);
    const char* home = std::getenv("HOME");
    const fs::path home_folder = home == nullptr ? fs::path() : fs::weakly_canonical(home, failed);
    for (fs::path folder = top; folder.has_relative_path(); folder = folder.parent_path())
        if (fs::exists(fs::symlink_status(folder / ".git", failed)))
            return {.top = top, .repository = folder == home_folder ? top : folder};
    return {.top = top, .repository = top};
}

LinkFate fate_of_link(const std::string& path, const fs::path& place, const LinkBounds& bounds,
                      const std::vector<ListedFolder>& folders) {
    std::error_code failed;
    const fs::path target = fs::read_symlink(place, failed);
    if (failed) return left_out("?", "cannot be read: " + failed.message());
    if (!target.is_absolute() && stays_in(folders.back().path, path, target.string()))
        return {.kind = LinkFate::Kind::kept, .target = target.string()};
    const fs::path real = fs::canonical(place, failed);
    if (failed) return left_out(target.string(), "leads out, and not to a file or folder: " + failed.message());
    if (const auto inner = inner_target(path, real, folders)) return {.kind = LinkFate::Kind::kept, .target = *inner};
    if (!is_below(real, bounds.repository))
        return left_out(target.string(), "leads out of " + bounds.repository.string());
    for (const ListedFolder& folder : folders)
        if (is_below(folder.real, real)) return left_out(target.string(), "leads to a folder that holds the link");
    return {.kind = LinkFate::Kind::followed, .target = target.string(), .real = real};
}

std::set<std::string> unsound_links(const std::map<std::string, std::string>& links) {
    Resolver resolver(links);
    std::set<std::string> unsound;
    for (const auto& [path, target] : links)
        if (!resolver.stays_inside(path)) unsound.insert(path);
    return unsound;
}

}  // namespace rtrain::spec
