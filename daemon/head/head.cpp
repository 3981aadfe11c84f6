// Starts a head from its options: directories, state, identity, then the loop. Errors name the step that failed.
#include "daemon/head/head.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "daemon/head/parts.hpp"
#include "daemon/net/loop/descriptors.hpp"

namespace rtrain {
namespace {

namespace fs = std::filesystem;

// The number of connections that should be possible. Each node and each person's command needs one. Strangers may
// use the rest, which costs some 60 KiB each.
constexpr std::uint64_t connections_wanted = 8'192, other_descriptors = 256;

Status make_directory(const std::string& path, mode_t mode) {
    std::error_code failed;
    fs::create_directories(path, failed);
    if (!failed && ::chmod(path.c_str(), mode) == 0) return Done{};
    const std::string message = "creating " + path + ": " + (failed ? failed.message() : std::strerror(errno));
    if (failed == std::errc::no_space_on_device)
        return Error{ErrorCode::full, message, "make room on the disk of " + path};
    return Error{ErrorCode::io, message, "choose another directory with --data, or correct the permissions"};
}

Status make_directories(const HeadOptions& options) {
    std::error_code ignored;  // removes unfinished uploads that an earlier head has left
    fs::remove_all(options.data_dir + "/tmp", ignored);
    for (const char* name : {"", "/tmp", "/secrets", "/blobs", "/logs"})
        if (auto status = make_directory(options.data_dir + name, 0700); !status) return status;
    // Other accounts cannot read a new storage root: users read their runs' files through the head. A directory that
    // the operator has made keeps its mode.
    if (!fs::exists(options.storage_root, ignored))
        if (auto status = make_directory(options.storage_root, 0700); !status) return status;
    const std::string uploads = options.storage_root + "/.uploads";
    if (auto status = make_directory(uploads, 0700); !status) return status;
    std::vector<fs::path> cut_off;  // blobs and whole files that were cut off; an upload in pieces can continue
    for (fs::directory_iterator at(uploads, ignored), end; !ignored && at != end; at.increment(ignored))
        if (at->path().extension() == ".whole") cut_off.push_back(at->path());
    for (const fs::path& file : cut_off) fs::remove(file, ignored);
    return Done{};
}

// Parses RTRAIN_QUARANTINE: "off", or failures/runs/hours such as 3/2/1. Returns nullopt for the core's default.
Result<std::optional<QuarantinePolicy>> quarantine_policy() {
    const char* given = std::getenv("RTRAIN_QUARANTINE");
    const std::string text = given == nullptr ? "" : given;
    if (text.empty()) return std::optional<QuarantinePolicy>();
    if (text == "off") return std::optional(QuarantinePolicy{.failures = 0});
    unsigned failures = 0, runs = 0, hours = 0;
    int read = 0;
    const int fields = std::sscanf(text.c_str(), "%5u/%5u/%4u%n", &failures, &runs, &hours, &read);
    const bool whole = fields == 3 && static_cast<std::size_t>(read) == text.size();
    if (!whole || failures == 0 || runs == 0 || hours == 0)
        return Error{ErrorCode::usage, "RTRAIN_QUARANTINE: \"" + text + "\" is not failures/runs/hours",
                     "for example 3/2/1 (the default), or off"};
    return std::optional(QuarantinePolicy{.failures = failures, .runs = runs, .window = {hours * 3'600'000LL}});
}

std::optional<std::string> variable(const std::string& name) {
    const char* given = std::getenv(name.c_str());
    return given == nullptr ? std::nullopt : std::optional<std::string>(given);
}

}  // namespace

Status serve_head(const HeadOptions& wished, const std::function<void(const HeadListening&)>& ready) {
    HeadOptions options = wished;
    if (options.storage_root.empty()) options.storage_root = options.data_dir + "/storage";
    head::DiskReserve reserve(options.data_dir);
    reserve.make_room_for_start();
    if (auto status = make_directories(options); !status) return status;
    auto traces = head::trace_settings(variable);
    if (!traces) return traces.error();
    auto journal = state::SqliteJournal::open(options.data_dir);  // fails if a second head uses this directory
    if (!journal) return journal.error();
    (*journal)->when_full([&reserve] { return reserve.give_up(); });
    const bool first_start = (*journal)->setting("cluster_id").value_or("").empty();
    auto identity = head::open_identity(options.data_dir, first_start || options.new_authority
                                                              ? head::MissingAuthority::is_made
                                                              : head::MissingAuthority::is_refused);
    if (!identity) return identity.error();

    head::Head head({std::move(options), std::move(*journal), std::move(*identity), std::move(*traces), reserve});
    const std::uint64_t descriptors = std::max(net::raise_descriptor_limit(), 2 * other_descriptors);
    if (auto opened = head.open(); !opened) return opened;
    if (auto listening = head.listen(std::min(connections_wanted, descriptors - other_descriptors)); !listening)
        return listening;
    const auto started = head.announce();
    if (!started) return started.error();
    const auto quarantine = quarantine_policy();
    if (!quarantine) return quarantine.error();
    head.begin(*quarantine, [&] { ready(*started); });
    return head.serve();
}

}  // namespace rtrain
