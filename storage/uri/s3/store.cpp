// The Store of a bucket, or of a prefix in it. An object appears as a whole and for all readers at once, so unfinished
// files need no names of their own. A bucket cannot append, so a journal is a sequence of objects.

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/base64.hpp"
#include "base/crypto/digest.hpp"
#include "base/hex.hpp"
#include "base/percent.hpp"
#include "storage/uri/files/path.hpp"
#include "storage/uri/s3/s3.hpp"
#include "storage/uri/s3/transfer.hpp"
#include "storage/uri/s3/xml.hpp"

namespace rtrain::storage {
namespace {

using namespace s3;
constexpr std::size_t longest_key = 1'024, deleted_at_once = 1'000, segment_bytes = 64 << 10;
constexpr const char* writer_header = "x-amz-meta-rtrain-writer";

std::string random_name() {
    std::array<unsigned char, 12> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return std::to_string(::getpid());
    return hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// The answer is not valid S3 XML (for example a proxy's HTML page or a truncated body). It must not be read as an empty
// listing.
Error no_answer(const std::string& doing, const std::string& key) {
    return {ErrorCode::unreachable, doing + " " + key + ": the answer is not one of S3's",
            "is a proxy between this machine and the object store?"};
}

std::string error_xml(Element& error) {
    return "<Error><Code>" + xml_text(error["Code"]) + "</Code><Message>" + xml_text(error["Message"]) +
           "</Message></Error>";
}

// Returns the name of the `number`th successor of "metrics-000001.jsonl". A name without a number gets one: "m.jsonl"
// -> "m-000002.jsonl".
std::string segment_name(const std::string& path, std::uint64_t number) {
    if (number == 1) return path;
    const auto slash = path.rfind('/'), dot = path.rfind('.');
    const std::size_t stem_end = dot == path.npos || (slash != path.npos && dot < slash) ? path.size() : dot;
    std::string stem = path.substr(0, stem_end);
    std::uint64_t first = 1;
    if (stem.size() > 7 && stem[stem.size() - 7] == '-' &&
        stem.find_first_not_of("0123456789", stem.size() - 6) == stem.npos) {
        first = std::stoull(stem.substr(stem.size() - 6));
        stem.resize(stem.size() - 7);
    }
    std::string digits = std::to_string(first + number - 1);
    if (digits.size() < 6) digits.insert(0, 6 - digits.size(), '0');
    return stem + "-" + digits + path.substr(stem_end);
}

// Servers at which exactly one of several creators was observed to succeed. Each server is tested once per process.
std::mutex exclusive_mutex;
std::set<std::string> exclusive;

class S3Store final : public Store {
  public:
    S3Store(std::unique_ptr<Client> client, std::string prefix)
        : client_(std::move(client)), prefix_(std::move(prefix)) {}

    Result<bool> create(const std::string& path, const std::string& bytes) override {
        if (auto fine = check(path); !fine) return fine.error();
        if (auto proved = prove_exclusive(); !proved) return proved.error();
        return create_object(key_of(path), bytes);
    }

    Status put(const std::string& path, const std::string& bytes) override {
        if (auto fine = check(path); !fine) return fine;
        return good({.method = "PUT", .key = key_of(path), .doing = "writing", .body = {.memory = bytes}});
    }

    Result<std::string> get(const std::string& path, std::int64_t most) override {
        if (auto fine = check(path); !fine) return fine.error();
        std::string bytes;
        const auto room = [&](std::string_view piece) {
            bytes += piece;
            return static_cast<std::int64_t>(bytes.size()) <= most;
        };
        const auto answer = client_->expect_good(
            {.key = key_of(path), .doing = "reading", .sink = room, .begin = [&] { bytes.clear(); }});
        if (static_cast<std::int64_t>(bytes.size()) > most) return too_large(path, most);
        if (!answer) return answer.error();
        return bytes;
    }

    Status append(const std::string& path, const std::string& bytes) override;

    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const Progress& progress) override {
        if (auto fine = check(path); !fine) return fine;
        if (auto sent = upload(*client_, local, key_of(path), progress); !sent) return sent;
        if (may_move) ::unlink(local.c_str());
        return Done{};
    }

    Status get_file(const std::string& path, const std::string& local, const Progress& progress) override {
        if (auto fine = check(path); !fine) return fine;
        return download(*client_, key_of(path), local, progress);
    }

    Result<std::vector<StoreEntry>> list(const std::string& prefix) override;
    Status remove(const std::string& path) override {
        if (auto fine = check(path); !fine) return fine;
        const ObjectRequest request{.method = "DELETE", .key = key_of(path), .doing = "removing"};
        auto answer = client_->send(request);
        if (!answer) return answer.error();
        if (answer->good() || element(answer->body, "Code") == "NoSuchKey") return Done{};
        return client_->refused(request, *answer);
    }
    Status remove_tree(const std::string& path) override;

    bool local() const override { return false; }
    std::string local_path(const std::string& path) override {
        RTRAIN_CHECK(false, client_->shown(key_of(path)) + " has no local path");
        return {};
    }

  private:
    std::string key_of(const std::string& path) const {
        if (prefix_.empty() || path.empty()) return prefix_ + path;
        return prefix_ + "/" + path;
    }

    Status check(const std::string& path) const {
        if (auto fine = check_path(path); !fine) return fine;
        if (const std::size_t length = key_of(path).size(); length > longest_key)
            return Error{
                ErrorCode::invalid,
                client_->shown(key_of(path)) + ": a key of " + std::to_string(length) + " bytes; S3 allows 1024",
                "use shorter names"};
        return Done{};
    }

    Status good(const ObjectRequest& request) {
        auto answer = client_->expect_good(request);
        if (!answer) return answer.error();
        return Done{};
    }

    // The writer's name identifies our own object if an earlier try was carried out and its answer was lost.
    Result<bool> create_object(const std::string& key, const std::string& bytes) {
        const std::string writer = random_name();
        const ObjectRequest request{.method = "PUT",
                                    .key = key,
                                    .doing = "creating",
                                    .headers = {{"if-none-match", "*"}, {writer_header, writer}},
                                    .body = {.memory = bytes}};
        auto answer = client_->send(request);
        if (!answer) return answer.error();
        if (answer->good()) return true;
        if (answer->status != 412) return client_->refused(request, *answer);
        if (answer->tries == 1) return false;
        auto there = client_->expect_good({.method = "HEAD", .key = key, .doing = "reading"});
        if (!there) return there.error();
        return there->header(writer_header) == writer;
    }

    Status prove_exclusive();
    Status race_for_a_name();
    Result<std::vector<std::pair<std::string, std::int64_t>>> objects(const std::string& key_prefix);
    Status remove_objects(const std::vector<std::string>& keys);

    struct Journal {
        std::uint64_t segment = 0;
        std::string content;
    };
    std::unique_ptr<Client> client_;
    std::string prefix_;  // prefix of all keys, without a '/' at its end; empty: the whole bucket
    std::mutex journal_mutex_;
    std::map<std::string, Journal> journals_;
};

Status S3Store::prove_exclusive() {
    const std::string place = client_->server() + " " + client_->shown("");
    const std::lock_guard lock(exclusive_mutex);
    if (exclusive.contains(place)) return Done{};
    if (auto raced = race_for_a_name(); !raced) return raced;
    exclusive.insert(place);
    return Done{};
}

// Three creations of one name at the same time: at a server that ignores the condition more than one succeeds.
Status S3Store::race_for_a_name() {
    const std::string key = key_of(".rtrain-probe-exclusive-" + random_name());
    std::array<std::optional<Result<bool>>, 3> outcomes;
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < outcomes.size(); ++i)
        others.emplace_back([&, i] { outcomes[i] = create_object(key, std::to_string(i)); });
    outcomes[0] = create_object(key, "0");
    for (std::thread& other : others) other.join();
    const Status removed = good({.method = "DELETE", .key = key, .doing = "removing"});
    std::size_t winners = 0;
    for (const auto& outcome : outcomes) {
        if (!*outcome) return outcome->error();
        winners += **outcome ? 1 : 0;
    }
    if (winners == 1) return removed;
    return Error{
        ErrorCode::invalid,
        "the object store at " + client_->server() + " let " + std::to_string(winners) + " of " +
            std::to_string(outcomes.size()) + " writers create " + client_->shown(key) +
            ": it does not keep `If-None-Match: *`, without which two clusters could write one run",
        "use a newer version of that server (Amazon S3, Ceph RGW and MinIO have it), a shared directory, or no "
        "storage_path at all"};
}

Result<std::vector<std::pair<std::string, std::int64_t>>> S3Store::objects(const std::string& key_prefix) {
    std::vector<std::pair<std::string, std::int64_t>> listed;
    ObjectRequest request{.doing = "listing",
                          .query = {{"list-type", "2"}, {"prefix", key_prefix}, {"encoding-type", "url"}}};
    for (;;) {
        auto answer = client_->expect_good(request);
        if (!answer) return answer.error();
        if (!is_answer(answer->body, "ListBucketResult")) return no_answer("listing", key_prefix);
        const bool encoded = element(answer->body, "EncodingType") == "url";
        for (Element& object : elements(answer->body, "Contents")) {
            std::string key = object["Key"];
            if (encoded) key = percent_decoded(key, Plus::space).value_or(key);
            listed.emplace_back(key, std::strtoll(object["Size"].c_str(), nullptr, 10));
        }
        const std::string more = element(answer->body, "NextContinuationToken");
        if (element(answer->body, "IsTruncated") != "true" || more.empty()) return listed;
        request.query["continuation-token"] = more;
    }
}

Result<std::vector<StoreEntry>> S3Store::list(const std::string& prefix) {
    if (!prefix.empty())
        if (auto fine = check(prefix); !fine) return fine.error();
    const std::string below = key_of(prefix).empty() ? "" : key_of(prefix) + "/";
    auto listed = objects(below);
    if (!listed) return listed.error();
    std::vector<StoreEntry> entries;
    const std::size_t skipped = prefix_.empty() ? 0 : prefix_.size() + 1;
    for (const auto& [key, bytes] : *listed)  // Consoles create keys that end in '/' to show directories.
        if (key.size() > skipped && !key.ends_with('/')) entries.push_back({key.substr(skipped), bytes});
    if (entries.empty() && !prefix.empty()) {
        const ObjectRequest request{.method = "HEAD", .key = key_of(prefix), .doing = "reading"};
        auto answer = client_->send(request);
        if (!answer) return answer.error();
        if (answer->good())
            entries.push_back({prefix, std::strtoll(answer->header("content-length").c_str(), nullptr, 10)});
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    return entries;
}

Status S3Store::remove_objects(const std::vector<std::string>& keys) {
    std::string body = "<Delete><Quiet>true</Quiet>";
    for (const std::string& key : keys) body += "<Object><Key>" + xml_text(key) + "</Key></Object>";
    body += "</Delete>";
    const ObjectRequest request{.method = "POST",
                                .doing = "removing objects of",
                                .query = {{"delete", ""}},
                                .headers = {{"content-md5", base64_encode(crypto::md5(body))}},
                                .body = {.memory = body}};
    auto answer = client_->expect_good(request);
    if (!answer) return answer.error();
    if (!answer->body.empty() && !is_answer(answer->body, "DeleteResult")) return no_answer("removing", keys.front());
    for (Element& error : elements(answer->body, "Error"))
        if (error["Code"] != "NoSuchKey")
            return client_->refused({.key = error["Key"], .doing = "removing"},
                                    {.status = 403, .headers = {}, .body = error_xml(error)});
    return Done{};
}

Status S3Store::remove_tree(const std::string& path) {
    if (auto fine = check(path); !fine) return fine;
    auto entries = list(path);
    if (!entries) return entries.error();
    std::vector<std::string> keys;
    for (const StoreEntry& entry : *entries) keys.push_back(key_of(entry.path));
    for (std::size_t at = 0; at < keys.size(); at += deleted_at_once) {
        const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end = begin + static_cast<std::ptrdiff_t>(std::min(deleted_at_once, keys.size() - at));
        if (Status gone = remove_objects({begin, end}); !gone) return gone;
    }
    return abort_uploads(*client_, key_of(path) + "/");
}

// A journal is a sequence of objects: metrics-000001.jsonl, metrics-000002.jsonl and so on. Each append rewrites the
// last object until it has 64 KiB. A new writer, whose predecessor died, begins a new object.
Status S3Store::append(const std::string& path, const std::string& bytes) {
    if (auto fine = check(path); !fine) return fine;
    const std::lock_guard lock(journal_mutex_);
    Journal& journal = journals_[path];
    const bool fresh = journal.segment == 0 || journal.content.size() >= segment_bytes;
    if (!fresh) {
        const std::string content = journal.content + bytes;
        Status written = good({.method = "PUT",
                               .key = key_of(segment_name(path, journal.segment)),
                               .doing = "writing",
                               .body = {.memory = content}});
        if (written) journal.content = content;
        return written;
    }
    for (;;) {
        auto created = create_object(key_of(segment_name(path, journal.segment + 1)), bytes);
        if (!created) return created.error();
        ++journal.segment;
        journal.content = bytes;
        if (*created) return Done{};
    }
}

}  // namespace

Result<std::unique_ptr<Store>> open_s3_store(const std::string& root,
                                             const std::function<std::string(const std::string&)>& variables) {
    auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme != Scheme::s3)
        return Error{ErrorCode::invalid, "storage " + root + ": it does not begin with s3://", ""};
    const auto slash = uri->path.find('/');
    const std::string bucket = uri->path.substr(0, slash),
                      prefix = slash == uri->path.npos ? "" : uri->path.substr(slash + 1);
    if (!prefix.empty())
        if (Status fine = check_path(prefix); !fine)
            return Error{ErrorCode::invalid, "storage " + root + ": " + fine.error().message, ""};
    auto client = Client::open(bucket, variables);
    if (!client) return Error{client.error().code, root + ": " + client.error().message, client.error().next};
    return std::unique_ptr<Store>(new S3Store(std::move(*client), prefix));
}

Result<std::unique_ptr<Store>> open_s3_store(const std::string& root) { return open_s3_store(root, &process_variable); }

void end_s3_requests_at(std::optional<std::chrono::steady_clock::time_point> when) { http::end_requests_at(when); }

}  // namespace rtrain::storage
