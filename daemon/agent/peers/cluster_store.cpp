// The Store of cluster://, through the head's /v1/storage. Each unexpected answer of the head becomes an Error with the
// path and the head's message.

#include "daemon/agent/peers/cluster_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/json_text.hpp"
#include "base/percent.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;
constexpr std::int64_t piece_bytes = 8 << 20;
constexpr int tries_per_piece = 6;
// Doubles with each try, since the head may still be writing the piece.
constexpr std::chrono::milliseconds pause_first{100};
constexpr std::size_t connections_kept = 4;
constexpr std::int64_t answer_most_ms = 20'000;  // the head may write a piece to a slow disk

std::string encoded(std::string_view path) { return storage::percent_encoded(path, storage::Slash::kept); }

ErrorCode code_of(int status) {
    switch (status) {
        case 401:
        case 403:
            return ErrorCode::unauthorised;
        case 404:
            return ErrorCode::not_found;
        case 409:
        case 412:
            return ErrorCode::conflict;
        case 503:
            return ErrorCode::unreachable;
        case 504:
            return ErrorCode::timed_out;
        case 507:
            return ErrorCode::full;
        default:
            return ErrorCode::io;
    }
}

// Returns the head's answer as an Error about `doing path`.
Error refused(const std::string& doing, const std::string& path, const net::Response& answer) {
    const json body = parse_json(answer.body);
    Error error{.code = code_of(answer.status), .message = {}, .next = {}};
    std::string why = "status " + std::to_string(answer.status);
    if (body.is_object()) {
        if (const json text = body.value("message", json()); text.is_string()) why = text.get<std::string>();
        if (const json next = body.value("next", json()); next.is_string()) error.next = next.get<std::string>();
    }
    error.message = doing + " cluster://" + path + ": " + why;
    return error;
}

// A file that is read in pieces. The destructor closes it.
class LocalFile {
  public:
    static Result<std::unique_ptr<LocalFile>> open(const std::string& path) {
        const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) return Error{ErrorCode::io, "reading " + path + ": " + std::strerror(errno), ""};
        return std::unique_ptr<LocalFile>(new LocalFile(descriptor, path));
    }
    ~LocalFile() { ::close(descriptor_); }
    LocalFile(const LocalFile&) = delete;
    LocalFile& operator=(const LocalFile&) = delete;

    Result<std::string> piece(std::int64_t offset, std::int64_t bytes) const {
        std::string out(static_cast<std::size_t>(bytes), '\0');
        std::size_t have = 0;
        while (have < out.size()) {
            const ssize_t got =
                ::pread(descriptor_, out.data() + have, out.size() - have, offset + static_cast<off_t>(have));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return Error{ErrorCode::io, "reading " + path_ + ": " + std::strerror(errno), ""};
            if (got == 0)
                return Error{ErrorCode::io, path_ + " became shorter while it was uploaded",
                             "do not write into a reported checkpoint"};
            have += static_cast<std::size_t>(got);
        }
        return out;
    }

  private:
    LocalFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
    int descriptor_;
    std::string path_;
};

class ClusterStore final : public storage::Store {
  public:
    explicit ClusterStore(net::Endpoint head) : head_(std::move(head)) {
        head_.answer_timeout_ms = std::min(head_.answer_timeout_ms, answer_most_ms);
    }

    Result<bool> create(const std::string& path, const std::string& bytes) override {
        auto answer =
            request({.method = "PUT", .target = target(path), .body = bytes, .headers = {{"if-none-match", "*"}}});
        if (!answer) return answer.error();
        if (answer->status == 412) return false;
        if (answer->status >= 300) return refused("creating", path, *answer);
        return true;
    }

    Status put(const std::string& path, const std::string& bytes) override {
        return expect_done("writing", path, {.method = "PUT", .target = target(path), .body = bytes});
    }

    Result<std::string> get(const std::string& path, std::int64_t most) override {
        auto answer = request({.target = target(path)});
        if (!answer) return answer.error();
        if (answer->status != 200) return refused("reading", path, *answer);
        if (static_cast<std::int64_t>(answer->body.size()) > most) return storage::too_large(path, most);
        return std::move(answer->body);
    }

    Status append(const std::string& path, const std::string& bytes) override {
        return expect_done("appending to", path,
                           {.method = "PUT", .target = target(path) + "?append=1", .body = bytes});
    }

    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const storage::Progress& progress) override {
        std::error_code failed;
        const auto total = static_cast<std::int64_t>(std::filesystem::file_size(local, failed));
        if (failed) return Error{ErrorCode::io, "reading " + local + ": " + failed.message(), ""};
        auto file = LocalFile::open(local);
        if (!file) return file.error();
        if (auto sent = upload(**file, path, total, progress); !sent) return sent;
        if (may_move) std::filesystem::remove(local, failed);
        return Done{};
    }

    Status get_file(const std::string& path, const std::string& local, const storage::Progress& progress) override {
        auto answer = request({.target = target(path), .save_to = local});
        if (!answer) return answer.error();
        if (answer->status != 200) return refused("reading", path, *answer);
        std::error_code failed;
        const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(local, failed));
        if (failed) return Error{ErrorCode::io, "writing " + local + ": " + failed.message(), ""};
        if (progress) progress(bytes, bytes);
        return Done{};
    }

    Result<std::vector<storage::StoreEntry>> list(const std::string& prefix) override {
        auto answer = request({.target = target(prefix) + "?list=1"});
        if (!answer) return answer.error();
        if (answer->status == 404) return std::vector<storage::StoreEntry>{};
        if (answer->status != 200) return refused("listing", prefix, *answer);
        const json body = parse_json(answer->body);
        if (!body.is_object() || !body.contains("items"))
            return Error{ErrorCode::io, "listing cluster://" + prefix + ": the head's answer is not a list", ""};
        std::vector<storage::StoreEntry> entries;
        for (const json& item : body["items"]) {
            const json name = item.is_object() ? item.value("path", json()) : json();
            const json bytes = item.is_object() ? item.value("bytes", json()) : json();
            if (!name.is_string() || !bytes.is_number_unsigned())
                return Error{ErrorCode::io, "listing cluster://" + prefix + ": the head's answer is not a list", ""};
            entries.push_back({name.get<std::string>(), bytes.get<std::int64_t>()});
        }
        std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
        return entries;
    }

    Status remove(const std::string& path) override { return expect_gone(path, ""); }
    Status remove_tree(const std::string& path) override { return expect_gone(path, "?tree=1"); }
    bool local() const override { return false; }
    std::string local_path(const std::string& path) override {
        RTRAIN_CHECK(false, "cluster://" + path + " has no local path");
        return {};
    }

  private:
    static std::string target(const std::string& path) { return "/v1/storage/" + encoded(path); }

    // Connections are kept: a TLS handshake costs more than a small file.
    Result<net::Response> request(const net::Call& call) const {
        std::unique_ptr<net::Client> client;
        {
            const std::lock_guard lock(idle_mutex_);
            if (!idle_.empty()) {
                client = std::move(idle_.back());
                idle_.pop_back();
            }
        }
        if (!client) client = std::make_unique<net::Client>(head_);
        auto answer = client->call(call);
        if (answer) {
            const std::lock_guard lock(idle_mutex_);
            if (idle_.size() < connections_kept) idle_.push_back(std::move(client));
        }
        return answer;
    }

    Status expect_done(const std::string& doing, const std::string& path, const net::Call& call) const {
        auto answer = request(call);
        if (!answer) return answer.error();
        if (answer->status >= 300) return refused(doing, path, *answer);
        return Done{};
    }

    Status expect_gone(const std::string& path, const std::string& query) const {
        auto answer = request({.method = "DELETE", .target = target(path) + query});
        if (!answer) return answer.error();
        if (answer->status >= 300 && answer->status != 404) return refused("removing", path, *answer);
        return Done{};
    }

    // The part of this upload that is on the head's disk, and whether the file is in its place. Returns nullopt if the
    // head does not report it.
    struct Present {
        std::int64_t bytes = 0;
        bool done = false;
    };
    std::optional<Present> present(const std::string& path, const std::string& id) const {
        const auto answer = request({.target = target(path) + "?upload=" + id});
        if (!answer || answer->status != 200) return std::nullopt;
        const json body = parse_json(answer->body);
        const json bytes = body.is_object() ? body.value("bytes", json()) : json();
        if (!bytes.is_number_unsigned()) return std::nullopt;
        return Present{bytes.get<std::int64_t>(), body.value("done", json()) == json(true)};
    }

    Status upload(const LocalFile& file, const std::string& path, std::int64_t total,
                  const storage::Progress& progress) const {
        // Random, since a repeated number would continue another upload.
        const std::string id = security::random_hex(12);
        std::int64_t offset = 0;
        int tries = 0;
        for (;;) {
            const std::int64_t bytes = std::min(piece_bytes, total - offset);
            auto piece = file.piece(offset, bytes);
            if (!piece) return piece.error();
            const std::string query =
                "?upload=" + id + "&offset=" + std::to_string(offset) + "&total=" + std::to_string(total);
            // Bytes that leave this node show progress; they count once the head has answered.
            auto answer = request({.method = "PUT",
                                   .target = target(path) + query,
                                   .body = *piece,
                                   .on_progress = [&](std::uint64_t, std::uint64_t) {
                                       if (progress) progress(offset, total);
                                   }});
            if (!answer || answer->status == 409) {  // the connection broke, or the head has another offset, which is
                                                     // requested next
                if (++tries >= tries_per_piece) return answer ? refused("uploading", path, *answer) : answer.error();
                std::this_thread::sleep_for(pause_first * (1 << tries));
                const auto there = present(path, id);
                if (there && there->done) return Done{};
                if (there) offset = std::min(there->bytes, total);
                // The head has all bytes, but the file is not in its place: a piece without bytes moves it there.
                continue;
            }
            if (answer->status >= 300) return refused("uploading", path, *answer);
            offset += bytes;
            tries = 0;
            if (progress) progress(offset, total);
            if (offset == total) return Done{};
        }
    }

    net::Endpoint head_;
    mutable std::mutex idle_mutex_;
    mutable std::vector<std::unique_ptr<net::Client>> idle_;
};

}  // namespace

std::unique_ptr<storage::Store> open_cluster_store(net::Endpoint head) {
    return std::make_unique<ClusterStore>(std::move(head));
}

}  // namespace rtrain::agent
