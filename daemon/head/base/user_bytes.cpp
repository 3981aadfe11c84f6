// See user_bytes.hpp.
#include "daemon/head/base/user_bytes.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace rtrain::head {
namespace {

std::string size_text(std::int64_t bytes) {
    constexpr double kib = 1 << 10, mib = 1 << 20;
    char text[48];
    const auto size = static_cast<double>(bytes);
    if (size < mib)
        std::snprintf(text, sizeof text, "%.1f KiB", size / kib);
    else
        std::snprintf(text, sizeof text, "%.1f MiB", size / mib);
    return text;
}

// A place where bytes are stored.
struct Where {
    std::int64_t KeptBytes::* bytes;
    const char* words;
};
constexpr Where kept_where[] = {{&KeptBytes::memory, "memory"},
                                {&KeptBytes::database, "state database"},
                                {&KeptBytes::files, "files"},
                                {&KeptBytes::storage, "storage (cluster://)"}};

// Returns the three kinds with the most bytes at the place.
std::string largest(const UserBytes::Account& account, const Where& where) {
    constexpr std::size_t shown = 3;
    std::vector<std::pair<std::int64_t, Kept>> kinds;
    for (const auto& [kind, bytes] : account.kinds)
        if (bytes.*where.bytes > 0) kinds.emplace_back(bytes.*where.bytes, kind);
    std::sort(kinds.rbegin(), kinds.rend());
    std::string text;
    for (std::size_t i = 0; i < std::min(shown, kinds.size()); ++i)
        text += (i == 0 ? "" : ", ") + std::string(to_text(kinds[i].second)) + " " + size_text(kinds[i].first);
    return text.empty() ? "" : " (" + text + ")";
}

Error over(const std::string& user, Kept kind, const Where& where, std::int64_t more, std::int64_t most,
           const UserBytes::Account& account) {
    return {ErrorCode::full,
            "user " + user + " has " + size_text(account.sum.*where.bytes) + " in the head's " + where.words +
                largest(account, where) + "; " + size_text(more) + " of " + to_text(kind) +
                " more would pass the limit of " + size_text(most),
            std::string("remove runs that have ended (rtrain runs rm") +
                (where.bytes == &KeptBytes::storage ? " --files" : "") +
                "), or ask an admin for more (rtrain access quota " + user + ")"};
}

}  // namespace

const char* to_text(Kept kind) {
    switch (kind) {
        case Kept::runs:
            return "runs";
        case Kept::attempts:
            return "attempts";
        case Kept::checkpoints:
            return "checkpoints";
        case Kept::submissions:
            return "submissions";
        case Kept::events:
            return "events";
        case Kept::reports:
            return "reports";
        case Kept::audit:
            return "audit";
        case Kept::values:
            return "values";
        case Kept::archives:
            return "archives";
        case Kept::uploads:
            return "uploads";
        case Kept::logs:
            return "logs";
        case Kept::stored:
            return "stored files";
    }
    return "";
}

KeptBytes& KeptBytes::operator+=(const KeptBytes& more) {
    memory += more.memory;
    database += more.database;
    files += more.files;
    storage += more.storage;
    return *this;
}

void UserBytes::limit_all(KeptBytes limit) {
    std::lock_guard held(guard_);
    limit_ = limit;
}

void UserBytes::limit(const std::string& user, const std::optional<KeptBytes>& own) {
    std::lock_guard held(guard_);
    if (own)
        own_limits_[user] = *own;
    else
        own_limits_.erase(user);
}

KeptBytes UserBytes::limit_of(const std::string& user) const {
    std::lock_guard held(guard_);
    const auto own = own_limits_.find(user);
    return own == own_limits_.end() ? limit_ : own->second;
}

std::map<std::string, KeptBytes> UserBytes::own_limits() const {
    std::lock_guard held(guard_);
    return own_limits_;
}

void UserBytes::no_room(std::optional<Error> for_files, std::optional<Error> for_rows) {
    std::lock_guard held(guard_);
    no_room_for_files_ = std::move(for_files);
    no_room_for_rows_ = std::move(for_rows);
}

bool UserBytes::scarce_for_files() const {
    std::lock_guard held(guard_);
    return no_room_for_files_.has_value();
}

bool UserBytes::scarce_for_rows() const {
    std::lock_guard held(guard_);
    return no_room_for_rows_.has_value();
}

void UserBytes::begin(RunId run, const std::string& user) {
    std::lock_guard held(guard_);
    runs_.try_emplace(run, OfRun{user, {}});
}

void UserBytes::put(RunId run, Kept kind, KeptBytes now, std::uint64_t part) {
    std::lock_guard held(guard_);
    const auto of_run = runs_.find(run);
    if (of_run == runs_.end()) return;
    KeptBytes& before = of_run->second.parts[{kind, part}];
    KeptBytes change = -before;
    count(of_run->second.user, kind, change += now);
    before = now;
    if (now == KeptBytes{}) of_run->second.parts.erase({kind, part});
}

void UserBytes::add(RunId run, Kept kind, KeptBytes more) {
    std::lock_guard held(guard_);
    const auto of_run = runs_.find(run);
    if (of_run == runs_.end()) return;
    of_run->second.parts[{kind, 0}] += more;
    count(of_run->second.user, kind, more);
}

void UserBytes::forget(RunId run) {
    std::lock_guard held(guard_);
    const auto of_run = runs_.find(run);
    if (of_run == runs_.end()) return;
    for (const auto& [part, bytes] : of_run->second.parts) count(of_run->second.user, part.first, -bytes);
    runs_.erase(of_run);
}

std::string UserBytes::user_of(RunId run) const {
    std::lock_guard held(guard_);
    const auto of_run = runs_.find(run);
    return of_run == runs_.end() ? "" : of_run->second.user;
}

void UserBytes::put(const std::string& user, Kept kind, const std::string& name, KeptBytes now) {
    std::lock_guard held(guard_);
    KeptBytes& before = named_[{kind, name}][user];
    KeptBytes change = -before;
    count(user, kind, change += now);
    before = now;
}

void UserBytes::add(const std::string& user, Kept kind, KeptBytes more) {
    std::lock_guard held(guard_);
    beside_[{kind, user}] += more;
    count(user, kind, more);
}

void UserBytes::forget(Kept kind, const std::string& name) {
    std::lock_guard held(guard_);
    const auto named = named_.find({kind, name});
    if (named == named_.end()) return;
    for (const auto& [user, bytes] : named->second) count(user, kind, -bytes);
    named_.erase(named);
}

void UserBytes::clear(Kept kind) {
    std::lock_guard held(guard_);
    for (auto at = beside_.lower_bound({kind, ""}); at != beside_.end() && at->first.first == kind;) {
        count(at->first.second, kind, -at->second);
        at = beside_.erase(at);
    }
}

void UserBytes::count(const std::string& user, Kept kind, const KeptBytes& more) {
    if (more == KeptBytes{}) return;
    Account& account = accounts_[user];
    account.sum += more;
    if ((account.kinds[kind] += more) == KeptBytes{}) account.kinds.erase(kind);
    if (account.kinds.empty()) accounts_.erase(user);
}

Status UserBytes::may_add(const std::string& user, Kept kind, const KeptBytes& more) const {
    std::lock_guard held(guard_);
    return room_for(user, kind, more);
}

Status UserBytes::reserve(const std::string& user, Kept kind, const KeptBytes& more) {
    std::lock_guard held(guard_);
    const Status may = room_for(user, kind, more);
    if (!may) return may;
    beside_[{kind, user}] += more;
    count(user, kind, more);
    return may;
}

void UserBytes::limit_streams_of_all(std::size_t most) {
    std::lock_guard held(guard_);
    streams_limit_ = most;
}

void UserBytes::limit_streams(const std::string& user, std::optional<std::size_t> own) {
    std::lock_guard held(guard_);
    if (own)
        own_streams_limits_[user] = *own;
    else
        own_streams_limits_.erase(user);
}

std::optional<std::size_t> UserBytes::own_streams_limit(const std::string& user) const {
    std::lock_guard held(guard_);
    const auto own = own_streams_limits_.find(user);
    return own == own_streams_limits_.end() ? std::nullopt : std::optional(own->second);
}

std::size_t UserBytes::streams_limit_of(const std::string& user) const {
    const auto own = own_streams_limit(user);
    std::lock_guard held(guard_);
    return own.value_or(streams_limit_);
}

std::shared_ptr<const void> UserBytes::open_stream(const std::string& user) {
    const std::size_t most = streams_limit_of(user);
    std::lock_guard held(guard_);
    auto& known = streams_[user];
    if (!known) known = std::make_shared<std::atomic<std::size_t>>(0);
    const auto open = known;  // a shared copy, which may outlive this object, as a stream may
    if (*open >= most) return nullptr;
    ++*open;
    return {open.get(), [open](const void*) { --*open; }};
}

std::size_t UserBytes::streams_of(const std::string& user) const {
    std::lock_guard held(guard_);
    const auto known = streams_.find(user);
    return known == streams_.end() ? 0 : known->second->load();
}

Status UserBytes::room_for(const std::string& user, Kept kind, const KeptBytes& more) const {
    if (more.files > 0 && no_room_for_files_) return *no_room_for_files_;
    if (more.database > 0 && no_room_for_rows_) return *no_room_for_rows_;
    return compare(user, kind, more);
}

Status UserBytes::within_limit(const std::string& user, Kept kind, const KeptBytes& more) const {
    std::lock_guard held(guard_);
    return compare(user, kind, more);
}

Status UserBytes::compare(const std::string& user, Kept kind, const KeptBytes& more) const {
    const auto own = own_limits_.find(user);
    const KeptBytes& most = own == own_limits_.end() ? limit_ : own->second;
    const auto known = accounts_.find(user);
    const Account account = known == accounts_.end() ? Account{} : known->second;
    for (const Where& where : kept_where)
        if (const std::int64_t bytes = more.*where.bytes;
            bytes > 0 && account.sum.*where.bytes + bytes > most.*where.bytes)
            return over(user, kind, where, bytes, most.*where.bytes, account);
    return Done{};
}

UserBytes::Account UserBytes::of(const std::string& user) const {
    std::lock_guard held(guard_);
    const auto known = accounts_.find(user);
    return known == accounts_.end() ? Account{} : known->second;
}

std::map<std::string, UserBytes::Account> UserBytes::all() const {
    std::lock_guard held(guard_);
    return accounts_;
}

}  // namespace rtrain::head
