// Counts the stored bytes of each user from the records and the files, and checks the free space on the disk.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "daemon/head/access/quotas.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/base/limits.hpp"
#include "daemon/head/parts.hpp"
#include "daemon/head/view/record_bytes.hpp"

namespace rtrain::head {
namespace {

// Returns the limit of one user below cluster://. A file system without a reported size has no limit.
std::int64_t storage_limit(const std::string& root) {
    constexpr std::int64_t unknown = std::int64_t{1} << 50, quarters = 4;
    const auto disk = disk_size(root);
    return disk ? static_cast<std::int64_t>(disk->whole) / quarters * limits::user_quarters_of_storage : unknown;
}

// Returns the limit of one user. On a small disk it is a fraction of the space beyond the reserve.
KeptBytes limit_on(const std::string& directory) {
    KeptBytes limit{.memory = limits::user_memory, .database = limits::user_database, .files = limits::user_files};
    const auto disk = disk_size(directory);
    if (!disk) return limit;
    const DiskReserve::Sizes reserve = DiskReserve::sizes_on(disk->whole);
    const auto part =
        static_cast<std::int64_t>(disk->whole - reserve.for_users - reserve.file) / limits::user_part_of_disk;
    limit.database = std::min(limit.database, part);
    limit.files = std::min(limit.files, part);
    return limit;
}

std::map<RunId, std::string> users_of_runs(const Cluster& cluster) {
    std::map<RunId, std::string> users;
    for (const auto& [id, run] : cluster.runs) users[id] = run.user;
    return users;
}

void count_beside(UserBytes& bytes, const state::KeptRows& rows) {
    for (const auto& [user, size] : rows.events) bytes.add(user, Kept::events, {.database = size});
    for (const auto& [user, size] : rows.audit) bytes.add(user, Kept::audit, {.database = size});
}

}  // namespace

Status Head::count_kept() {
    KeptBytes limit = options_.user_limit.value_or(limit_on(options_.data_dir));
    if (limit.storage == 0) limit.storage = storage_limit(options_.storage_root);
    bytes_.limit_all(limit);
    bytes_.limit_streams_of_all(options_.user_streams);
    recall_quotas(bytes_, journal_->settings(quota_prefix));
    head::follow(bytes_, events_.cluster());
    const auto rows = journal_->kept_rows(users_of_runs(events_.cluster()));
    if (!rows) return rows.error();
    count_beside(bytes_, *rows);
    const auto reports = journal_->report_bytes();
    if (!reports) return reports.error();
    for (const auto& [run, size] : *reports) bytes_.add(run, Kept::reports, {.database = size});
    submissions_.count(*journal_);
    blobs_.count();
    count_values();
    return Done{};
}

void Head::count_values() {
    std::error_code none;
    for (const auto& [id, run] : events_.cluster().runs)
        for (std::filesystem::directory_iterator at(values_directory(options_, id), none), end; !none && at != end;
             at.increment(none)) {
            std::error_code gone;
            const auto size = at->file_size(gone);
            if (!gone) bytes_.add(id, Kept::values, {.files = static_cast<std::int64_t>(size)});
        }
}

// Counts the events of users again, on the pool, after events were pruned. Changes that are committed meanwhile are
// counted the next day.
void Head::count_rows() {
    loop_.offload([&journal = *journal_, users = users_of_runs(events_.cluster())] { return journal.kept_rows(users); },
                  [](const Error& error) { return Result<state::KeptRows>(error); },
                  [this](const Result<state::KeptRows>& rows) {
                      if (!rows)
                          return (void)std::fprintf(stderr, "rtrain head: events and audit are counted tomorrow: %s\n",
                                                    rows.error().message.c_str());
                      bytes_.clear(Kept::events);
                      bytes_.clear(Kept::audit);
                      count_beside(bytes_, *rows);
                  });
}

void Head::look_at_disk() {
    events_.behind_commits([this] {
        const auto unused = static_cast<std::uint64_t>(journal_->unused_bytes());
        const DiskReserve::Room room = reserve_.look(unused);
        loop_.post([this, room] {
            const bool before = bytes_.scarce();
            bytes_.no_room(room.files, room.rows);
            if (const bool now = bytes_.scarce(); now != before)
                std::fprintf(stderr, "rtrain head: %s\n",
                             now ? (room.files ? room.files : room.rows)->message.c_str()
                                 : "there is room again for users' data");
            loop_.after(limits::disk_look_ms, [this] { look_at_disk(); });
        });
    });
}

}  // namespace rtrain::head
