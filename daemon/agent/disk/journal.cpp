#include "daemon/agent/disk/journal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {

Journal::Journal(std::string folder) : folder_(std::move(folder)) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, none)) {
        const std::uint64_t number = std::strtoull(entry.path().stem().c_str(), nullptr, 10);
        if (number == 0 || entry.path() != file(number)) continue;
        files_.try_emplace(number);
        number_ = std::max(number_, number);
    }
    ++number_;
}

Journal::~Journal() { close(); }

std::string Journal::file(std::uint64_t number) const {
    char name[32];
    std::snprintf(name, sizeof name, "/%08llu.jsonl", static_cast<unsigned long long>(number));
    return folder_ + name;
}

void Journal::close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

// Writes a row. Removes a partly written row, since the next row would be appended to it.
Status Journal::write(const std::string& line) {
    const std::string path = file(number_);
    const auto failed = [&](int why) { return Error{ErrorCode::io, path + ": " + std::strerror(why), ""}; };
    if (descriptor_ < 0) {
        if (Status status = make_directory(folder_, 0700); !status) return status;
        descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (descriptor_ < 0) return failed(errno);
    }
    const ssize_t written = ::write(descriptor_, line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) return Done{};
    const int why = written < 0 ? errno : ENOSPC;
    if (written > 0 && ::ftruncate(descriptor_, ::lseek(descriptor_, 0, SEEK_END) - written) != 0) close();
    return failed(why);
}

// Adds a row. After a row that is in memory alone, the later rows of the same file are kept in memory too, in order.
Status Journal::add(const std::string& line) {
    const std::lock_guard lock(state_);
    std::string& unwritten = files_[number_];
    Status written = unwritten.empty() ? write(line) : Status(Done{});
    if (!written || !unwritten.empty()) unwritten += line;
    return written;
}

Status Journal::deliver(const Append& append) {
    const std::lock_guard lock(delivering_);
    std::map<std::uint64_t, std::string> all;
    {
        const std::lock_guard lock(state_);
        all = files_;
        close();
        ++number_;
    }
    for (const auto& [number, unwritten] : all) {
        std::error_code none;
        std::string lines;
        if (std::filesystem::exists(file(number), none)) {
            auto read = read_whole(file(number));
            if (!read) return read.error();
            lines = std::move(*read);
        }
        if (Status appended = append(lines + unwritten); !appended) return appended;
        ::unlink(file(number).c_str());
        const std::lock_guard lock(state_);
        files_.erase(number);
    }
    return Done{};
}

bool Journal::empty() const {
    const std::lock_guard lock(state_);
    return files_.empty();
}

}  // namespace rtrain::agent
