// Checks whether a checkpoint equals what was committed. Files are hashed again before anything is restored from them.
// A damaged checkpoint is reported, and the one before it is used.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "storage/checkpoint/layout.hpp"
#include "storage/checkpoint/listing.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

class Scratch {  // A local directory for downloaded files of a remote store.
  public:
    Scratch() {
        std::error_code failed;
        std::string text = (fs::temp_directory_path(failed) / "rtrain-verify-XXXXXX").string();
        if (::mkdtemp(text.data()) != nullptr) path_ = text;
    }
    ~Scratch() {
        std::error_code failed;
        if (!path_.empty()) fs::remove_all(path_, failed);
    }
    Scratch(const Scratch&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

Result<std::string> hash_in_place(Store& store, const std::string& path) {
    const auto file = store.open(path);
    return file ? hash_opened(*file, store.local_path(path)) : file.error();
}

// Returns true if a local copy of the file was placed at `target` and equals what was committed. Removes a wrong copy.
bool put_from_nearer(const NearerCopies& nearer, const ManifestFile& file, const std::string& target) {
    if (!nearer.put || !nearer.put(file, target)) return false;
    const auto hash = hash_file(target);
    if (hash && *hash == file.sha256) return true;
    std::error_code failed;
    fs::remove(target, failed);
    if (nearer.refused) nearer.refused(file);
    return false;
}

// Writes the file to `target`, from a local copy or from the store, and returns its hash.
Result<std::string> bring(Store& store, const std::string& path, const ManifestFile& file, const std::string& target,
                          const NearerCopies& nearer) {
    std::error_code failed;
    fs::create_directories(fs::path(target).parent_path(), failed);
    if (failed) return Error{ErrorCode::io, "making the directory of " + target + ": " + failed.message(), ""};
    if (put_from_nearer(nearer, file, target)) return file.sha256;
    auto got = store.get_file(path, target, {});
    if (!got && got.error().code == ErrorCode::full && nearer.make_room) {
        nearer.make_room();
        got = store.get_file(path, target, {});
    }
    if (!got) return got.error();
    return hash_file(target);
}

Result<std::string> hash_stored(Store& store, const std::string& path, const ManifestFile& file,
                                const CheckedFiles& files) {
    if (store.local()) return hash_in_place(store, path);
    if (!files.keep_in.empty()) return bring(store, path, file, files.keep_in + "/" + file.path, files.nearer);
    const Scratch scratch;
    if (scratch.path().empty())
        return Error{ErrorCode::io, "verifying " + path + ": no directory for temporary files", "set TMPDIR"};
    const std::string local = scratch.path() + "/file";
    if (auto got = store.get_file(path, local, {}); !got) return got.error();
    return hash_file(local);
}

std::map<std::string, std::int64_t> files_below(const Listing& listing, const std::string& directory) {
    std::map<std::string, std::int64_t> files;
    for (const StoreEntry& entry : listing.files)
        if (entry.path.starts_with(directory + "/")) files[entry.path.substr(directory.size() + 1)] = entry.bytes;
    files.erase(std::string(manifest_name));
    return files;
}

// Returns the fault of a file; empty if the file equals what was committed.
Result<std::string> fault_of(Store& store, const std::string& directory, const ManifestFile& file,
                             const std::map<std::string, std::int64_t>& present, const CheckedFiles& files) {
    const auto seen = present.find(file.path);
    if (seen == present.end()) return file.path + ": missing";
    if (seen->second != file.bytes)
        return file.path + ": " + std::to_string(seen->second) + " bytes, committed were " + std::to_string(file.bytes);
    const auto hash = hash_stored(store, directory + "/" + file.path, file, files);
    if (!hash && hash.error().code == ErrorCode::not_found) return file.path + ": missing";
    if (!hash) return hash.error();
    if (*hash != file.sha256)
        return file.path + ": content has changed (sha256 " + hash->substr(0, 12) + ", committed was " +
               file.sha256.substr(0, 12) + ")";
    return std::string{};
}

const CommittedCheckpoint* find(const Listing& listing, const std::string& directory) {
    for (const CommittedCheckpoint& committed : listing.checkpoints)
        if (committed.manifest.directory == directory) return &committed;
    return nullptr;
}

Error not_committed(const std::string& run_name, const std::string& directory) {
    return {ErrorCode::not_found, "run " + run_name + " has no committed checkpoint " + directory,
            "rtrain checkpoints list shows those there are"};
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
    return text;
}

// Writes one file to `target`, unless a file with the right hash is already there.
Status fetch_file(Store& store, const std::string& path, const ManifestFile& file, const std::string& target,
                  const NearerCopies& nearer) {
    std::error_code failed;
    if (fs::file_size(target, failed) == static_cast<std::uintmax_t>(file.bytes) && !failed)
        if (const auto hash = hash_file(target); hash && *hash == file.sha256) return Done{};
    const auto hash = bring(store, path, file, target, nearer);
    if (!hash) return hash.error();
    if (*hash == file.sha256) return Done{};
    fs::remove(target, failed);
    return Error{ErrorCode::damaged, path + ": content has changed since it was committed",
                 "rtrain checkpoints verify names what else is damaged"};
}

}  // namespace

Result<std::vector<std::string>> file_faults(Store& store, const std::string& run_name,
                                             const CommittedCheckpoint& committed, const Listing& listing,
                                             const CheckedFiles& files) {
    if (!committed.damage.empty())
        return std::vector<std::string>{std::string(manifest_name) + ": " + committed.damage};
    const std::string directory = run_name + "/" + committed.manifest.directory;
    const auto present = files_below(listing, directory);
    std::vector<std::string> faults;
    for (const ManifestFile& file : committed.manifest.files) {
        auto fault = fault_of(store, directory, file, present, files);
        if (!fault) return fault.error();
        if (!fault->empty()) faults.push_back(std::move(*fault));
    }
    std::error_code ignored;  // Files that cannot be removed here are hashed before they are used.
    if (!faults.empty() && !files.keep_in.empty()) fs::remove_all(files.keep_in, ignored);
    return faults;
}

Result<std::vector<std::string>> verify_checkpoint(Store& store, const std::string& run_name,
                                                   const std::string& directory) {
    const auto listing = read_listing(store, run_name);
    if (!listing) return listing.error();
    const CommittedCheckpoint* committed = find(*listing, directory);
    if (committed == nullptr) return not_committed(run_name, directory);
    auto faults = file_faults(store, run_name, *committed, *listing);
    if (!faults || !committed->damage.empty()) return faults;
    for (const auto& [path, bytes] : files_below(*listing, run_name + "/" + directory)) {
        const auto& files = committed->manifest.files;
        if (std::none_of(files.begin(), files.end(), [&](const ManifestFile& file) { return file.path == path; }))
            faults->push_back(path + ": not in the manifest");
    }
    return faults;
}

Result<SoundCheckpoint> newest_sound_of(Store& store, const std::string& run_name, const Listing& listing,
                                        const CheckedFiles& files) {
    SoundCheckpoint answer;
    for (auto committed = listing.checkpoints.rbegin(); committed != listing.checkpoints.rend(); ++committed) {
        if (!committed->live) continue;
        const auto faults = file_faults(store, run_name, *committed, listing, files);
        if (!faults) return faults.error();
        if (faults->empty()) {
            answer.manifest = committed->manifest;
            return answer;
        }
        answer.damaged.push_back(committed->manifest.directory + ": " + joined(*faults));
    }
    return answer;
}

Result<SoundCheckpoint> newest_sound(Store& store, const std::string& run_name) {
    const auto listing = read_listing(store, run_name);
    if (!listing) return listing.error();
    return newest_sound_of(store, run_name, *listing);
}

Status delete_checkpoint(Store& store, const std::string& run_name, const std::string& directory) {
    const auto owner = owner_of(store, run_name, directory);
    if (!owner && owner.error().code == ErrorCode::not_found)
        return Error{ErrorCode::invalid, "\"" + directory + "\" is not the name of a checkpoint", ""};
    if (!owner && owner.error().code != ErrorCode::damaged) return owner.error();
    if (auto removed = store.remove(manifest_path(run_name, directory)); !removed) return removed;
    return store.remove_tree(run_name + "/" + directory);
}

Result<std::string> fetch_checkpoint(Store& store, const std::string& run_name, const std::string& directory,
                                     const std::string& to_local, const Progress& progress,
                                     const NearerCopies& nearer) {
    const auto text = store.get(manifest_path(run_name, directory));
    if (!text) return text.error().code == ErrorCode::not_found ? not_committed(run_name, directory) : text.error();
    const auto manifest = decode_manifest(*text);
    if (!manifest)
        return Error{manifest.error().code, "checkpoint " + directory + ": " + manifest.error().message,
                     manifest.error().next};
    const std::string top = run_name + "/" + directory;
    std::int64_t done = 0;
    for (const ManifestFile& file : manifest->files) {
        const std::string path = top + "/" + file.path;
        if (store.local()) {
            const auto hash = hash_in_place(store, path);
            if (!hash && hash.error().code != ErrorCode::not_found) return hash.error();
            if (!hash || *hash != file.sha256)
                return Error{ErrorCode::damaged,
                             "checkpoint " + directory + ": " + file.path +
                                 (hash ? ": content has changed since it was committed" : ": missing"),
                             "the next attempt goes on from the one before it"};
        } else if (auto fetched = fetch_file(store, path, file, to_local + "/" + file.path, nearer); !fetched) {
            return fetched.error();
        }
        done += file.bytes;
        if (progress) progress(done, manifest->bytes());
    }
    return store.local() ? store.local_path(top) : to_local;
}

}  // namespace rtrain::storage
