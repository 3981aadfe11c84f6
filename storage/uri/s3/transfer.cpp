// Transfers parts of files. A part is read from the file each time it is sent, so a repeated part needs no memory. A
// failed upload is aborted. `abort_uploads` finds uploads whose program died.

#include "storage/uri/s3/transfer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <optional>
#include <thread>

#include "storage/uri/files/disk.hpp"
#include "storage/uri/s3/xml.hpp"

namespace rtrain::storage::s3 {
namespace {

constexpr std::int64_t smallest_part = std::int64_t{16} << 20;
constexpr std::int64_t most_parts = 9'000;  // The servers' limit is 10,000.
constexpr int at_once = 4;

struct Part {
    std::size_t number = 0;  // counts from 0
    std::int64_t offset = 0, bytes = 0;
};

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
    std::optional<Error> failed;
    std::size_t next = 0;
    std::int64_t done = 0;
    const auto work = [&] {
        for (;;) {
            std::unique_lock lock(mutex);
            if (failed || next == parts.size()) return;
            const Part part = parts[next++];
            lock.unlock();
            const Status carried = carry(part);
            lock.lock();
            if (!carried) {
                if (!failed) failed = carried.error();
                return;
            }
            done += part.bytes;
            if (progress) progress(done, total);
        }
    };
    std::vector<std::thread> helpers;
    const std::size_t threads = std::min<std::size_t>(at_once, parts.size());
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failed) return *failed;
    return Done{};
}

struct Source {
    Descriptor file;
    std::string path;
    std::int64_t bytes = 0;
};

Result<Source> open_source(const std::string& local) {
    Source source{.file = Descriptor(::open(local.c_str(), O_RDONLY | O_CLOEXEC)), .path = local};
    if (!source.file.open()) return disk::failure("reading", local, errno);
    struct stat seen{};
    if (::fstat(source.file.number(), &seen) != 0) return disk::failure("reading", local, errno);
    if (!S_ISREG(seen.st_mode)) return Error{ErrorCode::io, "reading " + local + ": not a regular file", ""};
    source.bytes = static_cast<std::int64_t>(seen.st_size);
    return source;
}

// The ETag.
Result<std::string> put_part(Client& client, const Source& source, ObjectRequest request, const Part& part) {
    auto hash = sha256_hex(source.file.number(), part.offset, part.bytes, source.path);
    if (!hash) return hash.error();
    request.method = "PUT";
    request.doing = "writing";
    request.body = {.descriptor = source.file.number(), .offset = part.offset, .bytes = part.bytes};
    request.body_sha256 = *hash;
    auto answer = client.expect_good(request);
    if (!answer) return answer.error();
    return answer->header("etag");
}

class Multipart {
  public:
    Multipart(Client& client, std::string key) : client_(client), key_(std::move(key)) {}

    Status begin() {
        auto answer =
            client_.expect_good({.method = "POST", .key = key_, .doing = "writing", .query = {{"uploads", ""}}});
        if (!answer) return answer.error();
        id_ = element(answer->body, "UploadId");
        if (id_.empty())
            return Error{ErrorCode::io, "writing " + client_.shown(key_) + ": the server names no upload", ""};
        return Done{};
    }

    Status carry(const Source& source, const std::vector<Part>& parts, const Progress& progress) {
        tags_.resize(parts.size());
        return each_part(
            parts,
            [&](const Part& part) -> Status {
                const ObjectRequest request{
                    .key = key_, .query = {{"partNumber", std::to_string(part.number + 1)}, {"uploadId", id_}}};
                auto tag = put_part(client_, source, request, part);
                if (!tag) return tag.error();
                tags_[part.number] = *tag;
                return Done{};
            },
            progress, source.bytes);
    }

    Status complete(std::int64_t total) {
        std::string body = "<CompleteMultipartUpload>";
        for (std::size_t i = 0; i < tags_.size(); ++i)
            body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + xml_text(tags_[i]) +
                    "</ETag></Part>";
        body += "</CompleteMultipartUpload>";
        const ObjectRequest request{
            .method = "POST", .key = key_, .doing = "writing", .query = {{"uploadId", id_}}, .body = {.memory = body}};
        auto answer = client_.send(request);
        if (!answer) return answer.error();
        // The answer may begin well and report a failure at its end.
        if (answer->good() && answer->body.find("<Error>") == answer->body.npos) return Done{};
        if (answer->tries > 1 && element(answer->body, "Code") == "NoSuchUpload" && completed(total)) return Done{};
        return client_.refused(request, *answer);
    }

    // Tried once: a server that does not answer has failed the upload already. `abort_uploads` finds the rest.
    Status abort() {
        auto answer = client_.send({.method = "DELETE",
                                    .key = key_,
                                    .doing = "aborting the upload of",
                                    .query = {{"uploadId", id_}},
                                    .tries_most = 1});
        if (!answer) return answer.error();
        return Done{};
    }

  private:
    // An earlier try was carried out, and only its answer was lost.
    bool completed(std::int64_t total) {
        auto answer = client_.send({.method = "HEAD", .key = key_, .doing = "reading"});
        if (!answer || !answer->good()) return false;
        std::string tag = answer->header("etag");
        std::erase(tag, '"');
        return answer->header("content-length") == std::to_string(total) &&
               tag.ends_with("-" + std::to_string(tags_.size()));
    }

    Client& client_;
    std::string key_, id_;
    std::vector<std::string> tags_;
};

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

Status upload(Client& client, const std::string& local, const std::string& key, const Progress& progress) {
    auto source = open_source(local);
    if (!source) return source.error();
    const auto parts = parts_of(source->bytes);
    if (parts.size() <= 2) {  // not worth three further requests
        const auto tag = put_part(client, *source, {.key = key}, {0, 0, source->bytes});
        if (!tag) return tag.error();
        if (progress) progress(source->bytes, source->bytes);
        return Done{};
    }
    Multipart whole(client, key);
    if (Status begun = whole.begin(); !begun) return begun;
    Status sent = whole.carry(*source, parts, progress);
    if (sent) sent = whole.complete(source->bytes);
    if (sent) return sent;
    Error why = sent.error();
    if (Status aborted = whole.abort(); !aborted) why.message += " (its parts stay there until the run is removed)";
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

Status abort_uploads(Client& client, const std::string& key_prefix) {
    auto answer = client.expect_good({.doing = "listing", .query = {{"uploads", ""}, {"prefix", key_prefix}}});
    if (!answer) return answer.error();
    for (Element& open_upload : elements(answer->body, "Upload")) {
        const ObjectRequest request{.method = "DELETE",
                                    .key = open_upload["Key"],
                                    .doing = "aborting the upload of",
                                    .query = {{"uploadId", open_upload["UploadId"]}}};
        if (auto gone = client.send(request); !gone) return gone.error();
    }
    return Done{};
}

}  // namespace rtrain::storage::s3
