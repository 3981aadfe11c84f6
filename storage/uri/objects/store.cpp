// The Store of a bucket, or of a prefix in it. An object appears as a whole and for all readers at once, so unfinished
// files need no names of their own. A bucket cannot append, so a journal is a sequence of objects.

#include "storage/uri/objects/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "storage/uri/files/path.hpp"
#include "storage/uri/objects/transfer.hpp"

namespace rtrain::storage {
namespace {

using namespace objects;
constexpr std::size_t segment_bytes = 64 << 10;

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

class ObjectStore final : public Store {
  public:
    ObjectStore(std::unique_ptr<Client> client, std::unique_ptr<Protocol> protocol, std::string prefix)
        : client_(std::move(client)), protocol_(std::move(protocol)), prefix_(std::move(prefix)) {}

    Result<bool> create(const std::string& path, const std::string& bytes) override {
        if (auto fine = check(path); !fine) return fine.error();
        if (auto proved = prove_exclusive(); !proved) return proved.error();
        return create_object(key_of(path), bytes);
    }

    Status put(const std::string& path, const std::string& bytes) override {
        if (auto fine = check(path); !fine) return fine;
        return put_object(key_of(path), bytes);
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
        if (auto sent = upload(*client_, *protocol_, local, key_of(path), progress); !sent) return sent;
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
        return protocol_->remove(*client_, {key_of(path)});
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

    Status check(const std::string& path) const;
    Status put_object(const std::string& key, const std::string& bytes);
    Result<bool> create_object(const std::string& key, const std::string& bytes);
    Status prove_exclusive();
    Status race_for_a_name();
    Result<std::vector<Object>> objects_below(const std::string& key_prefix);

    struct Journal {
        std::uint64_t segment = 0;
        std::string content;
    };
    std::unique_ptr<Client> client_;
    std::unique_ptr<Protocol> protocol_;
    std::string prefix_;  // prefix of all keys, without a '/' at its end; empty: the whole bucket
    std::mutex journal_mutex_;
    std::map<std::string, Journal> journals_;
};

Status ObjectStore::check(const std::string& path) const {
    if (auto fine = check_path(path); !fine) return fine;
    const std::string key = key_of(path);
    const Traits& traits = protocol_->traits();
    if (key.size() > traits.longest_key)
        return Error{ErrorCode::invalid,
                     client_->shown(key) + ": a key of " + std::to_string(key.size()) + " bytes; " + traits.kind +
                         " allows " + std::to_string(traits.longest_key),
                     "use shorter names"};
    if (const char* fault = protocol_->fault_of_key(key); fault != nullptr)
        return Error{ErrorCode::invalid, client_->shown(key) + ": " + traits.kind + " accepts no name that " + fault,
                     "use another name"};
    return Done{};
}

Status ObjectStore::put_object(const std::string& key, const std::string& bytes) {
    auto answer = client_->expect_good({.method = "PUT",
                                        .key = key,
                                        .doing = "writing",
                                        .headers = protocol_->put_headers(),
                                        .body = {.memory = bytes}});
    if (!answer) return answer.error();
    return Done{};
}

// The writer's name identifies our own object if an earlier try was carried out and its answer was lost.
Result<bool> ObjectStore::create_object(const std::string& key, const std::string& bytes) {
    const std::string writer = random_name(), writer_header = protocol_->traits().writer_header;
    ObjectRequest request{.method = "PUT",
                          .key = key,
                          .doing = "creating",
                          .headers = protocol_->put_headers(),
                          .body = {.memory = bytes}};
    for (const auto& condition : protocol_->headers_of_absence()) request.headers.push_back(condition);
    request.headers.emplace_back(writer_header, writer);
    auto answer = client_->send(request);
    if (!answer) return answer.error();
    if (answer->good()) return true;
    if (!protocol_->exists_already(*answer)) return client_->refused(request, *answer);
    if (answer->tries == 1) return false;
    auto there = client_->expect_good({.method = "HEAD", .key = key, .doing = "reading"});
    if (!there) return there.error();
    return there->header(writer_header) == writer;
}

Status ObjectStore::prove_exclusive() {
    const std::string place = client_->server() + " " + client_->shown("");
    const std::lock_guard lock(exclusive_mutex);
    if (exclusive.contains(place)) return Done{};
    if (auto raced = race_for_a_name(); !raced) return raced;
    exclusive.insert(place);
    return Done{};
}

// Three creations of one name at the same time: at a server that ignores the condition more than one succeeds.
Status ObjectStore::race_for_a_name() {
    const std::string key = key_of(".rtrain-probe-exclusive-" + random_name());
    std::array<std::optional<Result<bool>>, 3> outcomes;
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < outcomes.size(); ++i)
        others.emplace_back([&, i] { outcomes[i] = create_object(key, std::to_string(i)); });
    outcomes[0] = create_object(key, "0");
    for (std::thread& other : others) other.join();
    const Status removed = protocol_->remove(*client_, {key});
    std::size_t winners = 0;
    for (const auto& outcome : outcomes) {
        if (!*outcome) return outcome->error();
        winners += **outcome ? 1 : 0;
    }
    if (winners == 1) return removed;
    return Error{ErrorCode::invalid,
                 "the object store at " + client_->server() + " let " + std::to_string(winners) + " of " +
                     std::to_string(outcomes.size()) + " writers create " + client_->shown(key) +
                     ": it does not keep " + protocol_->traits().condition +
                     ", without which two clusters could write one run",
                 std::string(protocol_->traits().keepers) + ", a shared directory, or no storage_path at all"};
}

Result<std::vector<Object>> ObjectStore::objects_below(const std::string& key_prefix) {
    std::vector<Object> all;
    std::string from;
    for (;;) {
        auto page = protocol_->list(*client_, key_prefix, from);
        if (!page) return page.error();
        all.insert(all.end(), page->objects.begin(), page->objects.end());
        if (page->next.empty()) return all;
        from = page->next;
    }
}

Result<std::vector<StoreEntry>> ObjectStore::list(const std::string& prefix) {
    if (!prefix.empty())
        if (auto fine = check(prefix); !fine) return fine.error();
    const std::string below = key_of(prefix).empty() ? "" : key_of(prefix) + "/";
    auto listed = objects_below(below);
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

Status ObjectStore::remove_tree(const std::string& path) {
    if (auto fine = check(path); !fine) return fine;
    auto entries = list(path);
    if (!entries) return entries.error();
    std::vector<std::string> keys;
    for (const StoreEntry& entry : *entries) keys.push_back(key_of(entry.path));
    if (Status gone = protocol_->remove(*client_, keys); !gone) return gone;
    return protocol_->abort_uploads(*client_, key_of(path) + "/");
}

// A journal is a sequence of objects: metrics-000001.jsonl, metrics-000002.jsonl and so on. Each append rewrites the
// last object until it has 64 KiB. A new writer, whose predecessor died, begins a new object.
Status ObjectStore::append(const std::string& path, const std::string& bytes) {
    if (auto fine = check(path); !fine) return fine;
    const std::lock_guard lock(journal_mutex_);
    Journal& journal = journals_[path];
    const bool fresh = journal.segment == 0 || journal.content.size() >= segment_bytes;
    if (!fresh) {
        const std::string content = journal.content + bytes;
        Status written = put_object(key_of(segment_name(path, journal.segment)), content);
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

Result<std::unique_ptr<Store>> open_object_store(const std::string& root, const std::string& bucket_and_prefix,
                                                 const OpenClient& open, std::unique_ptr<Protocol> protocol) {
    const auto slash = bucket_and_prefix.find('/');
    const std::string bucket = bucket_and_prefix.substr(0, slash),
                      prefix = slash == bucket_and_prefix.npos ? "" : bucket_and_prefix.substr(slash + 1);
    if (!prefix.empty())
        if (Status fine = check_path(prefix); !fine)
            return Error{ErrorCode::invalid, "storage " + root + ": " + fine.error().message, ""};
    auto client = open(bucket);
    if (!client) return Error{client.error().code, root + ": " + client.error().message, client.error().next};
    return std::unique_ptr<Store>(new ObjectStore(std::move(*client), std::move(protocol), prefix));
}

void end_bucket_requests_at(std::optional<std::chrono::steady_clock::time_point> when) { http::end_requests_at(when); }

}  // namespace rtrain::storage
