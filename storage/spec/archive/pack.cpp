// A working directory as one archive that is named by its content: sorted names, no times, no owners, so that the same
// files always give the same hash.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/spec/archive/failure.hpp"
#include "storage/spec/archive/ignore.hpp"
#include "storage/spec/archive/tar.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t bytes_most = 2LL << 30, bytes_most_unnamed = 100LL << 20;
// Both lists of rules come before those of any file. _package.py in runtime/python has them too.
constexpr const char* always_ignored =
    ".git\n.venv\n__pycache__\n.ipynb_checkpoints\n.mypy_cache\n.pytest_cache\n.ruff_cache\n";
constexpr const char* secret_files =
    ".env\n.env.*\n*.env\n.envrc\n.ssh\n.aws\n.azure\n.kube\n.gnupg\n.docker\n.config/gcloud\n.netrc\n.pgpass\n"
    ".npmrc\n.pypirc\n.git-credentials\n.htpasswd\ncredentials.json\n*.pem\n*.key\n*.p12\n*.pfx\n*.jks\n*.keystore\nid_"
    "rsa*\n"
    "id_dsa*\nid_ed25519*\nid_ecdsa*\n!*.pub\n";

struct Found {
    std::string path;  // relative
    fs::file_type type = fs::file_type::none;
};

std::string text_of(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

struct Walk {
    IgnoreRules rules, secret_rules;
    std::vector<Found> entries;
    std::vector<std::string> secrets;  // left out
};

// Everything that is not ignored, sorted, directories before what is in them.
Status find_below(const fs::path& top, const std::string& base, Walk& walked) {
    IgnoreRules& rules = walked.rules;
    const fs::path directory = base.empty() ? top : top / base;
    rules.add_git(base, text_of(directory / ".gitignore"));
    rules.add_rtrain(base, text_of(directory / ".rtrainignore"));
    std::error_code failed;
    std::vector<std::string> names;
    for (fs::directory_iterator walk(directory, failed), end; !failed && walk != end; walk.increment(failed))
        names.push_back(walk->path().filename().string());
    if (failed) return failure("reading", directory.string(), failed.value());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        const std::string path = base.empty() ? name : base + "/" + name;
        const fs::file_type type = fs::symlink_status(top / path, failed).type();
        const bool is_directory = type == fs::file_type::directory;
        const FileKind kind = is_directory ? FileKind::directory : FileKind::file;
        if (rules.ignored(path, kind)) continue;
        if (walked.secret_rules.ignored(path, kind)) {
            walked.secrets.push_back(path);
            continue;
        }
        walked.entries.push_back({path, type});
        if (is_directory)
            if (auto done = find_below(top, path, walked); !done) return done;
    }
    return Done{};
}

Status check_link(const std::string& path, const std::string& target) {
    const fs::path place = (fs::path(path).parent_path() / target).lexically_normal();
    if (!fs::path(target).is_absolute() && !place.string().starts_with("..")) return Done{};
    return Error{ErrorCode::invalid, "working_dir: the link " + path + " -> " + target + " leads out of the directory",
                 "add it to .rtrainignore, and give the program that path instead"};
}

class Packer {
  public:
    Packer(std::string top, TarWriter& out, NamedBy named_by)
        : top_(std::move(top)), out_(out), unnamed_(named_by == NamedBy::nobody) {}

    Status add(const Found& entry) {
        if (entry.type == fs::file_type::directory)
            return out_.begin({.path = entry.path + "/", .type = TarType::directory, .mode = 0755});
        if (entry.type == fs::file_type::symlink) return add_link(entry.path);
        if (entry.type == fs::file_type::regular) return add_file(entry.path);
        return Error{ErrorCode::invalid, "working_dir: " + entry.path + " is neither a file nor a directory nor a link",
                     "add it to .rtrainignore"};
    }
    std::uint32_t files() const { return files_; }

  private:
    Status add_link(const std::string& path) {
        std::error_code failed;
        const std::string target = fs::read_symlink(top_ + "/" + path, failed).string();
        if (failed) return failure("reading", top_ + "/" + path, failed.value());
        if (auto fine = check_link(path, target); !fine) return fine;
        return out_.begin({.path = path, .type = TarType::link, .mode = 0777, .target = target});
    }

    Status count(const std::string& path, std::int64_t bytes) {
        ++files_;
        sum_ += bytes;
        if (bytes > biggest_bytes_) {
            biggest_bytes_ = bytes;
            biggest_ = path;
        }
        const std::int64_t most = unnamed_ ? bytes_most_unnamed : bytes_most;
        if (sum_ <= most) return Done{};
        return Error{ErrorCode::full,
                     (unnamed_ ? "the folder " + top_ + " travels along, and" : std::string("working_dir")) +
                         " has more than " + std::to_string(most >> 20) + " MiB; its biggest file so far is " +
                         biggest_ + " (" + std::to_string(biggest_bytes_ >> 20) + " MiB)",
                     std::string("list data in .rtrainignore, and keep it where every node can read it") +
                         (unnamed_ ? "; working_dir: . sends up to 2 GiB, working_dir: null nothing" : "")};
    }

    Status add_file(const std::string& path) {
        const std::string local = top_ + "/" + path;
        std::ifstream stream(local, std::ios::binary | std::ios::ate);
        if (!stream) return failure("reading", local, errno);
        const auto total = static_cast<std::int64_t>(stream.tellg());
        stream.seekg(0);
        if (auto counted = count(path, total); !counted) return counted;
        std::error_code failed;
        const bool executable = (fs::status(local, failed).permissions() & fs::perms::owner_exec) != fs::perms::none;
        if (auto begun = out_.begin({.path = path, .mode = executable ? 0755U : 0644U, .bytes = total}); !begun)
            return begun;
        std::vector<char> piece(256 << 10);
        for (std::int64_t left = total; left > 0;) {
            stream.read(piece.data(), std::min<std::int64_t>(left, static_cast<std::int64_t>(piece.size())));
            const auto got = stream.gcount();
            if (got <= 0) return Error{ErrorCode::io, local + " became shorter while it was packed", "submit again"};
            if (auto written = out_.write({piece.data(), static_cast<std::size_t>(got)}); !written) return written;
            left -= got;
        }
        return Done{};
    }

    std::string top_;
    TarWriter& out_;
    bool unnamed_;
    std::int64_t sum_ = 0, biggest_bytes_ = -1;
    std::uint32_t files_ = 0;
    std::string biggest_;
};

Result<PackedCode> pack_into(const std::string& file, const std::string& directory, Walk walked, NamedBy named_by) {
    auto out = TarWriter::create(file);
    if (!out) return out.error();
    Packer packer(directory, **out, named_by);
    for (const Found& entry : walked.entries)
        if (auto added = packer.add(entry); !added) return added.error();
    if (auto finished = (*out)->finish(); !finished) return finished.error();
    return PackedCode{.file = file,
                      .sha256 = (*out)->sha256(),
                      .bytes = (*out)->bytes(),
                      .files = packer.files(),
                      .secrets = std::move(walked.secrets)};
}

}  // namespace

Result<PackedCode> pack_directory(const std::string& directory, const std::string& to_directory, NamedBy named_by,
                                  const std::string& needed) {
    std::error_code failed;
    if (!fs::is_directory(directory, failed)) {
        const bool there = fs::exists(directory, failed);
        return Error{there ? ErrorCode::invalid : ErrorCode::not_found,
                     "working_dir " + directory + (there ? " is not a directory" : " does not exist"),
                     "it is relative to the job's file"};
    }
    Walk walked;
    walked.rules.add_first(always_ignored);
    if (named_by == NamedBy::nobody) walked.secret_rules.add_first(secret_files);
    if (auto done = find_below(directory, "", walked); !done) return done.error();
    const auto is_needed = [&](const Found& entry) {  // itself, or the linked directory through which it is named
        return entry.path == needed || (entry.type == fs::file_type::symlink && needed.starts_with(entry.path + "/"));
    };
    if (!needed.empty() && std::none_of(walked.entries.begin(), walked.entries.end(), is_needed))
        return Error{ErrorCode::invalid,
                     "the entrypoint names " + needed +
                         ", which does not travel along: .gitignore, .rtrainignore or the " +
                         "rules for secrets leave it out",
                     "change that, or say working_dir: . (secrets travel then) or working_dir: null (nothing does)"};
    fs::create_directories(to_directory, failed);
    const std::string aside = to_directory + "/.packing-" + std::to_string(::getpid()) + ".tar.zst";
    auto packed = pack_into(aside, directory, std::move(walked), named_by);
    if (!packed) {
        fs::remove(aside, failed);
        return packed;
    }
    packed->file = to_directory + "/" + packed->sha256 + ".tar.zst";
    fs::rename(aside, packed->file, failed);
    if (failed) return failure("writing", packed->file, failed.value());
    return packed;
}

}  // namespace rtrain::spec
