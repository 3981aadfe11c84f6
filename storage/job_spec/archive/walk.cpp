#include "storage/job_spec/archive/walk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "storage/job_spec/archive/failure.hpp"
#include "storage/job_spec/archive/ignore.hpp"
#include "storage/job_spec/archive/links.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t walked_most = 1'000'000;  // the most files of an archive
// Both lists of rules apply before the rules of any file. _package.py in runtime/python has the same lists.
constexpr const char* always_ignored =
    ".git\n.venv\n__pycache__\n.ipynb_checkpoints\n.mypy_cache\n.pytest_cache\n.ruff_cache\n";
constexpr const char* secret_files =
    ".env\n.env.*\n*.env\n.envrc\n.ssh\n.aws\n.azure\n.kube\n.gnupg\n.docker\n.config/gcloud\n.netrc\n.pgpass\n"
    ".npmrc\n.pypirc\n.git-credentials\n.htpasswd\ncredentials.json\n*.pem\n*.key\n*.p12\n*.pfx\n*.jks\n*.keystore\nid_"
    "rsa*\n"
    "id_dsa*\nid_ed25519*\nid_ecdsa*\n!*.pub\n";

// Returns the text of an ignore file; "" if it is no plain file, such as a pipe that is never written to.
std::string text_of(const fs::path& file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return {};
    struct stat status{};
    std::string text;
    if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
        std::string piece(64 << 10, '\0');
        for (ssize_t got = 0; (got = ::read(descriptor, piece.data(), piece.size())) > 0;)
            text.append(piece, 0, static_cast<std::size_t>(got));
    }
    ::close(descriptor);
    return text;
}

std::string special(fs::file_type type) {
    if (type == fs::file_type::fifo) return "is a FIFO";
    if (type == fs::file_type::socket) return "is a socket";
    if (type == fs::file_type::block || type == fs::file_type::character) return "is a device";
    return "is neither a file, a folder nor a link";
}

bool is_environment(const fs::path& folder) {
    std::error_code failed;
    return fs::is_regular_file(folder / "pyvenv.cfg", failed) || fs::is_directory(folder / "conda-meta", failed);
}

class Walker {
  public:
    Walker(const std::string& directory, NamedBy named_by) : bounds_(link_bounds(directory)) {
        rules_.add_first(always_ignored);
        hidden_rules_.add_first(always_ignored);
        if (named_by == NamedBy::nobody) secret_rules_.add_first(secret_files);
        folders_.push_back({.path = "", .real = bounds_.top});
    }

    Result<Walk> list() {
        if (Status done = list_folder(bounds_.top, ""); !done) return done.error();
        leave_out_unsound_links();
        return std::move(walk_);
    }

  private:
    Status list_folder(const fs::path& folder, const std::string& base) {
        rules_.add_git(base, text_of(folder / ".gitignore"));
        rules_.add_rtrain(base, text_of(folder / ".rtrainignore"));
        std::error_code failed;
        std::vector<std::string> names;
        for (fs::directory_iterator walk(folder, failed), end; !failed && walk != end; walk.increment(failed))
            names.push_back(walk->path().filename().string());
        if (failed) return unreadable(folder, failed.value());
        std::sort(names.begin(), names.end());
        for (const std::string& name : names)
            if (Status done = take(folder / name, base.empty() ? name : base + "/" + name); !done) return done;
        return Done{};
    }

    static Error unreadable(const fs::path& place, int error_number) {
        Error error = failure("reading", place.string(), error_number);
        error.next = "make it readable, or name it in .rtrainignore";
        return error;
    }

    Status take(const fs::path& place, const std::string& path) {
        std::error_code failed;
        const fs::file_type type = fs::symlink_status(place, failed).type();
        const FileKind kind = type == fs::file_type::directory ? FileKind::directory : FileKind::file;
        if (rules_.ignored(path, kind)) return Done{};
        if (secret_rules_.ignored(path, kind)) {
            walk_.secrets.push_back(path);
            return Done{};
        }
        return type == fs::file_type::symlink ? take_link(place, path) : add(place, path, type);
    }

    Status add(const fs::path& place, const std::string& path, fs::file_type type) {
        if (type != fs::file_type::directory && type != fs::file_type::regular) {
            walk_.left_out.push_back(path + " " + special(type));
            return Done{};
        }
        if (walk_.entries.size() >= walked_most)
            return Error{ErrorCode::full, "working_dir has more than " + std::to_string(walked_most) + " files",
                         "name what stays behind in .rtrainignore"};
        walk_.entries.push_back({.path = path, .type = type, .source = place, .target = ""});
        return type == fs::file_type::directory ? list_folder(place, path) : Status(Done{});
    }

    Status take_link(const fs::path& place, const std::string& path) {
        const LinkFate fate = fate_of_link(path, place, bounds_, folders_);
        switch (fate.kind) {
            case LinkFate::Kind::left_out:
                walk_.left_out.push_back(path + " " + fate.why);
                return Done{};
            case LinkFate::Kind::kept:
                walk_.entries.push_back(
                    {.path = path, .type = fs::file_type::symlink, .source = place, .target = fate.target});
                return Done{};
            case LinkFate::Kind::followed:
                return follow(path, fate);
        }
        return Done{};
    }

    // Follows a link. The link and its target have different paths, and the ignore rules for either path apply.
    Status follow(const std::string& path, const LinkFate& fate) {
        std::error_code failed;
        const fs::file_type type = fs::symlink_status(fate.real, failed).type();
        const bool is_folder = type == fs::file_type::directory;
        if (is_folder && rules_.ignored(path, FileKind::directory)) return Done{};
        if (fits(secret_rules_, fate.real, is_folder) || secret_rules_.ignored(path, FileKind::directory)) {
            walk_.secrets.push_back(path);
            return Done{};
        }
        if (fits(hidden_rules_, fate.real, is_folder) || (is_folder && is_environment(fate.real))) {
            walk_.left_out.push_back(path + " -> " + fate.target + " leads to what never travels");
            return Done{};
        }
        folders_.push_back({.path = path, .real = fate.real});
        const Status done = add(fate.real, path, type);
        folders_.pop_back();
        return done;
    }

    // Returns true if the rules match a file of the repository, or a folder on the way to it.
    bool fits(const IgnoreRules& rules, const fs::path& real, bool is_folder) const {
        fs::path way;
        const fs::path inside = real.lexically_relative(bounds_.repository);
        for (const fs::path& part : inside) {
            way /= part;
            const FileKind kind = way != inside || is_folder ? FileKind::directory : FileKind::file;
            if (rules.ignored(way.string(), kind)) return true;
        }
        return false;
    }

    void leave_out_unsound_links() {
        std::map<std::string, std::string> links;
        for (const WalkEntry& entry : walk_.entries)
            if (entry.type == fs::file_type::symlink) links[entry.path] = entry.target;
        const std::set<std::string> unsound = unsound_links(links);
        for (const std::string& path : unsound)
            walk_.left_out.push_back(path + " -> " + links[path] + " leads out by way of other links, or in a circle");
        std::erase_if(walk_.entries, [&](const WalkEntry& entry) { return unsound.contains(entry.path); });
    }

    LinkBounds bounds_;
    IgnoreRules rules_, secret_rules_, hidden_rules_;
    // the top of the directory, and the followed folders on the way to the present one
    std::vector<ListedFolder> folders_;
    Walk walk_;
};

}  // namespace

Result<Walk> walk_directory(const std::string& directory, NamedBy named_by) {
    return Walker(directory, named_by).list();
}

}  // namespace rtrain::spec
