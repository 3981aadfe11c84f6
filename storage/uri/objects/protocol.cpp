// The parts that the protocols of object stores share.

#include "storage/uri/objects/protocol.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/base64.hpp"
#include "base/crypto/digest.hpp"
#include "base/hex.hpp"

namespace rtrain::storage::objects {
namespace {

constexpr std::size_t removed_at_once = 8;

template <class Digest>
Status add_body(const ObjectRequest& request, Digest& digest) {
    if (request.body.descriptor < 0) {
        digest.add(request.body.memory);
        return Done{};
    }
    std::int64_t offset = request.body.offset, bytes = request.body.bytes;
    std::vector<char> piece(256 << 10);
    while (bytes > 0) {
        const auto size =
            static_cast<std::size_t>(std::min<std::int64_t>(bytes, static_cast<std::int64_t>(piece.size())));
        const ssize_t got = ::pread(request.body.descriptor, piece.data(), size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{ErrorCode::io, "reading " + request.body_path + ": " + std::strerror(errno), ""};
        if (got == 0)
            return Error{ErrorCode::io, request.body_path + " became shorter while it was uploaded",
                         "do not write into a reported checkpoint"};
        digest.add({piece.data(), static_cast<std::size_t>(got)});
        offset += got;
        bytes -= got;
    }
    return Done{};
}

}  // namespace

ObjectRequest sending(const Source& source, const Part& part, const std::string& key) {
    return {.method = "PUT",
            .key = key,
            .doing = "writing",
            .body = {.descriptor = source.file.number(), .offset = part.offset, .bytes = part.bytes},
            .body_path = source.path};
}

std::string random_name() {
    std::array<unsigned char, 12> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return std::to_string(::getpid());
    return hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Status for_each_of(std::size_t count, std::size_t at_once, const std::function<Status(std::size_t)>& work) {
    std::mutex mutex;
    std::optional<Error> failed;
    std::size_t next = 0;
    const auto worker = [&] {
        for (;;) {
            std::unique_lock lock(mutex);
            if (failed || next == count) return;
            const std::size_t number = next++;
            lock.unlock();
            const Status done = work(number);
            lock.lock();
            if (!done && !failed) failed = done.error();
        }
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min(at_once, count); ++i) threads.emplace_back(worker);
    worker();
    for (std::thread& thread : threads) thread.join();
    if (failed) return *failed;
    return Done{};
}

Status remove_each(Client& client, const Protocol& protocol, const std::vector<std::string>& keys,
                   const Headers& headers) {
    return for_each_of(keys.size(), removed_at_once, [&](std::size_t number) -> Status {
        const ObjectRequest request{.method = "DELETE", .key = keys[number], .doing = "removing", .headers = headers};
        auto answer = client.send(request);
        if (!answer) return answer.error();
        if (answer->good() || protocol.is_absent(*answer)) return Done{};
        return client.refused(request, *answer);
    });
}

Error no_answer(Client& client, const Protocol& protocol, const std::string& doing, const std::string& key) {
    return {ErrorCode::unreachable,
            doing + " " + client.shown(key) + ": the answer is not one of " + protocol.traits().kind + "'s",
            "is a proxy between this machine and the object store?"};
}

Result<std::string> sha256_of_body(const ObjectRequest& request) {
    crypto::Sha256 digest;
    if (Status added = add_body(request, digest); !added) return added.error();
    return digest.hex();
}

Result<std::string> md5_of_body(const ObjectRequest& request) {
    crypto::Md5 digest;
    if (Status added = add_body(request, digest); !added) return added.error();
    return base64_encode(digest.bytes());
}

}  // namespace rtrain::storage::objects
