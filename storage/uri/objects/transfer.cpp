// Transfers parts of files. A part is read from the file each time it is sent, so a repeated part needs no memory. A
// failed upload is aborted. `abort_uploads` finds uploads whose program died.

#include "storage/uri/objects/transfer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "storage/uri/files/disk.hpp"

namespace rtrain::storage::objects {
namespace {

constexpr std::int64_t smallest_part = std::int64_t{16} << 20;
constexpr std::int64_t most_parts = 9'000;  // The servers' limit is 10,000.
constexpr std::size_t parts_at_once = 4;

std::vector<Part> parts_of(std::int64_t total) {
    const std::int64_t size = std::max(smallest_part, (total + most_parts - 1) / most_parts);
    std::vector<Part> parts;
    for (std::int64_t offset = 0; offset < total; offset += size)
        parts.push_back({parts.size(), offset, std::min(size, total - offset)});
    return parts;
}

// Transfers all parts, a few at a time. After the first failure no further part begins.
Status each_part(const std::vector<Part>& parts, const std::function<Status(const Part&)>& carry,
                 const Progress& progress, std::int64_t total) {
    std::mutex mutex;
    std::int64_t done = 0;
    return for_each_of(parts.size(), parts_at_once, [&](std::size_t number) -> Status {
        if (Status carried = carry(parts[number]); !carried) return carried;
        const std::lock_guard lock(mutex);
        done += parts[number].bytes;
        if (progress) progress(done, total);
        return Done{};
    });
}

Result<Source> open_source(const std::string& local) {
    Source source{.file = Descriptor(::open(local.c_str(), O_RDONLY | O_CLOEXEC)), .path = local};
    if (!source.file.open()) return disk::failure("reading", local, errno);
    struct stat seen{};
    if (::fstat(source.file.number(), &seen) != 0) return disk::failure("reading", local, errno);
    if (!S_ISREG(seen.st_mode)) return Error{ErrorCode::io, "reading " + local + ": not a regular file", ""};
    source.bytes = static_cast<std::int64_t>(seen.st_size);
    return source;
}

struct Seen {
    std::int64_t bytes = 0;
    std::string tag;
};

Result<Seen> look_at(Client& client, const std::string& key) {
    auto answer = client.expect_good({.method = "HEAD", .key = key, .doing = "reading"});
    if (!answer) return answer.error();
    return Seen{std::strtoll(answer->header("content-length").c_str(), nullptr, 10), answer->header("etag")};
}

// Downloads one part into its place in the file.
Status get_part(Client& client, const std::string& key, const Seen& seen, const disk::Aside& to, const Part& part) {
    std::int64_t got = 0;
    int failed = 0;
    ObjectRequest request{.key = key, .doing = "reading"};
    request.headers = {
        {"range", "bytes=" + std::to_string(part.offset) + "-" + std::to_string(part.offset + part.bytes - 1)}};
    request.begin = [&] { got = 0; };
    request.sink = [&](std::string_view piece) {
        if (got + static_cast<std::int64_t>(piece.size()) > part.bytes) return false;  // not the requested range
        while (!piece.empty()) {
            const ssize_t written =
                ::pwrite(to.number(), piece.data(), piece.size(), static_cast<off_t>(part.offset + got));
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) failed = errno;
            if (written <= 0) return false;
            got += written;
            piece.remove_prefix(static_cast<std::size_t>(written));
        }
        return true;
    };
    auto answer = client.expect_good(request);
    if (failed != 0) return disk::failure("writing", to.target(), failed);
    if (!answer) return answer.error();
    if (got != part.bytes || answer->header("etag") != seen.tag)
        return Error{ErrorCode::io, "reading " + client.shown(key) + ": it changed while it was read", "try again"};
    return Done{};
}

}  // namespace

Status upload(Client& client, Protocol& protocol, const std::string& local, const std::string& key,
              const Progress& progress) {
    auto source = open_source(local);
    if (!source) return source.error();
    const auto parts = parts_of(source->bytes);
    if (parts.size() <= 2) {  // not worth three further requests
        ObjectRequest request = sending(*source, {0, 0, source->bytes}, key);
        request.headers = protocol.put_headers();
        if (auto sent = client.expect_good(request); !sent) return sent.error();
        if (progress) progress(source->bytes, source->bytes);
        return Done{};
    }
    const auto whole = protocol.upload(client, key);
    if (Status begun = whole->begin(parts.size()); !begun) return begun;
    const auto carry = [&](const Part& part) { return whole->send(*source, part); };
    Status sent = each_part(parts, carry, progress, source->bytes);
    if (sent) sent = whole->complete(source->bytes);
    if (sent) return sent;
    Error why = sent.error();
    if (Status aborted = whole->abort(); !aborted) why.message += " (its parts stay there until the run is removed)";
    return why;
}

Status download(Client& client, const std::string& key, const std::string& local, const Progress& progress) {
    const auto seen = look_at(client, key);
    if (!seen) return seen.error();
    if (Status status = disk::make_directories(disk::directory_of(local)); !status) return status;
    auto aside = disk::Aside::begin(local);
    if (!aside) return aside.error();
    const auto carry = [&](const Part& part) { return get_part(client, key, *seen, *aside, part); };
    if (Status got = each_part(parts_of(seen->bytes), carry, progress, seen->bytes); !got) return got;
    return aside->replace();
}

}  // namespace rtrain::storage::objects
