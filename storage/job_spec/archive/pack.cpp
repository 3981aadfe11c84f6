// Packs a working directory into one archive that is named by its content. Names are sorted, without times and owners,
// so the same files always give the same hash.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "storage/job_spec/archive/failure.hpp"
#include "storage/job_spec/archive/tar.hpp"
#include "storage/job_spec/archive/walk.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t bytes_most = 2LL << 30, bytes_most_unnamed = 100LL << 20;
class Packer {
  public:
    Packer(std::string top, TarWriter& out, NamedBy named_by)
        : top_(std::move(top)), out_(out), unnamed_(named_by == NamedBy::nobody) {}

    Status add(const WalkEntry& entry) {
        if (entry.type == fs::file_type::directory)
            return out_.begin({.path = entry.path + "/", .type = TarType::directory, .mode = 0755});
        if (entry.type == fs::file_type::symlink)
            return out_.begin({.path = entry.path, .type = TarType::link, .mode = 0777, .target = entry.target});
        return add_file(entry.path, entry.source.string());
    }
    std::uint32_t files() const { return files_; }

  private:
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

    Status add_file(const std::string& path, const std::string& local) {
        std::ifstream stream(local, std::ios::binary | std::ios::ate);
        if (!stream) {
            Error error = failure("reading", local, errno);
            error.next = "make it readable, or name it in .rtrainignore";
            return error;
        }
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
    for (const WalkEntry& entry : walked.entries)
        if (auto added = packer.add(entry); !added) return added.error();
    if (auto finished = (*out)->finish(); !finished) return finished.error();
    return PackedCode{.file = file,
                      .sha256 = (*out)->sha256(),
                      .bytes = (*out)->bytes(),
                      .files = packer.files(),
                      .secrets = std::move(walked.secrets),
                      .left_out = std::move(walked.left_out)};
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
    Result<Walk> walked = walk_directory(directory, named_by);
    if (!walked) return walked.error();
    // true for the needed file itself, and for a linked directory on the way to it
    const auto is_needed = [&](const WalkEntry& entry) {
        return entry.path == needed || (entry.type == fs::file_type::symlink && needed.starts_with(entry.path + "/"));
    };
    if (!needed.empty() && std::none_of(walked->entries.begin(), walked->entries.end(), is_needed))
        return Error{ErrorCode::invalid,
                     "the entrypoint names " + needed +
                         ", which does not travel along: .gitignore, .rtrainignore or the " +
                         "rules for secrets leave it out",
                     "change that, or say working_dir: . (secrets travel then) or working_dir: null (nothing does)"};
    fs::create_directories(to_directory, failed);
    const std::string aside = to_directory + "/.packing-" + std::to_string(::getpid()) + ".tar.zst";
    auto packed = pack_into(aside, directory, std::move(*walked), named_by);
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
