// Small files, and the attempts and news that stay on disk when the agent ends.
#include "daemon/agent/disk/node_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/write_all.hpp"
#include "daemon/agent/base/log.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

std::string key_text(AttemptKey key) { return std::to_string(key.run) + "-" + std::to_string(key.incarnation); }

Error failed(const std::string& doing, const std::string& path, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, doing + " " + path + ": " + std::strerror(error),
            full ? "make room on this file system" : ""};
}

Status write_all(int descriptor, std::string_view bytes, const std::string& path) {
    if (const int error = storage::write_all(descriptor, bytes); error != 0) return failed("writing", path, error);
    return Done{};
}

}  // namespace

std::string rank_text(std::uint32_t rank) {
    char text[24];
    std::snprintf(text, sizeof text, "rank-%05u", rank);
    return text;
}

std::string NodeFiles::attempt(AttemptKey key) const { return attempts() + "/" + key_text(key); }
std::string NodeFiles::worker(AttemptKey key, std::uint32_t rank) const { return attempt(key) + "/" + rank_text(rank); }
std::string NodeFiles::log(AttemptKey key, std::uint32_t rank, const std::string& stream) const {
    return logs(key) + "/" + rank_text(rank) + "." + stream;
}
std::string NodeFiles::scratch(AttemptKey key) const { return scratch_dir + "/" + key_text(key); }

Status write_whole(const std::string& path, const std::string& bytes, std::uint32_t mode, Durable durable) {
    const std::string aside = path + ".new";
    ::unlink(aside.c_str());  // left by a process that died meanwhile; a link there is not followed
    const int descriptor =
        ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, static_cast<mode_t>(mode));
    if (descriptor < 0) return failed("creating", aside, errno);
    Status written = write_all(descriptor, bytes, aside);
    if (written && durable == Durable::yes && ::fsync(descriptor) != 0) written = failed("syncing", aside, errno);
    ::close(descriptor);
    if (!written) ::unlink(aside.c_str());  // frees the space on a full disk
    if (!written) return written;
    if (::rename(aside.c_str(), path.c_str()) != 0) return failed("renaming to", path, errno);
    if (durable == Durable::no) return Done{};
    const std::string folder = std::filesystem::path(path).parent_path();
    const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return failed("opening", folder, errno);
    const bool synced = ::fsync(directory) == 0;
    const int error = errno;
    ::close(directory);
    if (!synced) return failed("syncing", folder, error);
    return Done{};
}

Result<std::string> read_whole(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                     "reading " + path + ": " + std::strerror(errno), ""};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

Status make_directory(const std::string& path, std::uint32_t mode) {
    if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) == 0) return Done{};
    if (errno == ENOENT) {
        if (Status above = make_directory(std::filesystem::path(path).parent_path(), mode); !above) return above;
        if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) == 0) return Done{};
    }
    if (errno != EEXIST) return failed("creating directory", path, errno);
    std::error_code unseen;
    if (!std::filesystem::is_directory(path, unseen)) return failed("creating directory", path, ENOTDIR);
    return Done{};
}

namespace {

template <class Names>
void remove_names(const std::string& directory, const Names& names_of) {
    auto parent = storage::open_top(directory);
    if (!parent) {
        if (parent.error().code != ErrorCode::not_found)
            warn("what is in " + directory + " stays: " + parent.error().message);
        return;
    }
    const std::vector<std::string> names = names_of(*parent);
    storage::Place place{std::move(*parent), ""};
    for (const std::string& name : names) {
        place.name = name;
        if (Status gone = storage::remove_all(place, storage::Rights::owners_first); !gone)
            warn(directory + "/" + name + " stays on this node: " + gone.error().message);
    }
}

}  // namespace

void remove_tree(const std::string& path) {
    const std::filesystem::path place = std::filesystem::absolute(path);
    remove_names(place.parent_path(), [&](const auto&) { return std::vector<std::string>{place.filename()}; });
}

void remove_all_but(const std::string& directory, const std::string& name) {
    remove_names(directory, [&](const storage::Descriptor& opened) {
        auto names = storage::names_in(opened);
        if (names) std::erase(*names, name);
        return names ? *names : std::vector<std::string>{};
    });
}

std::map<std::string, std::string> read_values(const std::string& path) {
    std::map<std::string, std::string> values;
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        const auto space = line.find(' ');
        if (space != std::string::npos) values[line.substr(0, space)] = line.substr(space + 1);
    }
    return values;
}

std::vector<SavedAttempt> kept_attempts(const NodeFiles& files, const std::string& file_name,
                                        std::vector<std::string>& damaged) {
    std::vector<SavedAttempt> attempts;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(files.attempts(), failed)) {
        const auto text = read_whole(entry.path().string() + "/" + file_name);
        if (!text) continue;
        auto saved = decode_saved_attempt(*text);
        if (saved)
            attempts.push_back(std::move(*saved));
        else
            damaged.push_back(entry.path().string() + ": " + saved.error().message);
    }
    return attempts;
}

Outbox::Outbox(Outbox&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      kept_(std::move(other.kept_)),
      next_(other.next_),
      dropped_(other.dropped_),
      torn_(other.torn_) {}

Outbox::~Outbox() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Outbox> Outbox::open(const std::string& path) {
    Outbox outbox(path);
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with("next ")) {
            outbox.next_ = std::max<std::uint64_t>(outbox.next_, std::strtoull(line.c_str() + 5, nullptr, 10));
            continue;
        }
        auto news = protocol::decode_news(line);
        if (!news) continue;  // a line that a crash cut off; it was never sent
        outbox.next_ = std::max(outbox.next_, news->seq + 1);
        outbox.kept_.emplace(news->seq, line + '\n');
    }
    if (Status fresh = outbox.rewrite(); !fresh) return fresh.error();
    return outbox;
}

std::map<std::uint64_t, protocol::News> Outbox::kept() const {
    std::map<std::uint64_t, protocol::News> news;
    for (const auto& [seq, line] : kept_) news.emplace(seq, protocol::decode_news(line).value());
    return news;
}

Status Outbox::keep(const protocol::News& news) {
    next_ = std::max(next_, news.seq + 1);
    const auto [line, fresh] = kept_.insert_or_assign(news.seq, protocol::encode_news(news) + '\n');
    if (torn_) return rewrite();
    const Status written = write_all(descriptor_, line->second, path_);
    torn_ = !written;
    return written;
}

Status Outbox::drop(std::uint64_t up_to) {
    const std::size_t before = kept_.size();
    kept_.erase(kept_.begin(), kept_.upper_bound(up_to));
    dropped_ += before - kept_.size();
    if (torn_) return rewrite();
    if (dropped_ < 1'000 || dropped_ < kept_.size()) return Done{};
    return rewrite();
}

Status Outbox::mend() { return torn_ ? rewrite() : Done{}; }

Status Outbox::rewrite() {
    std::string all = "next " + std::to_string(next_) + "\n";
    for (const auto& [seq, line] : kept_) all += line;
    if (Status written = write_whole(path_, all, 0600, Durable::no); !written) return written;
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (descriptor_ < 0) return failed("opening", path_, errno);
    dropped_ = 0;
    torn_ = false;
    return Done{};
}

}  // namespace rtrain::agent
