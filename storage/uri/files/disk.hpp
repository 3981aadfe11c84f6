// Writes that are durable when the call returns, and that happen as a whole or not at all. Used inside of storage/uri
// only.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage::disk {

// Returns "writing /mnt/a/b: no space left on device (0 bytes of 1048576 free there)" as ErrorCode::full; other faults
// as io.
Error failure(const std::string& doing, const std::string& path, int error_number);

// A file that is written beside its place. It takes its place when it is complete and on the disk. Otherwise it is
// removed.
class Aside {
  public:
    static Result<Aside> begin(const std::string& target);               // requires that the target's directory exists
    static Result<Aside> begin(Place place, const std::string& target);  // `target` is used in messages
    Aside(Aside&& other) noexcept = default;
    ~Aside();
    int number() const { return file_.number(); }
    const std::string& target() const { return target_; }
    Status replace();           // syncs the file, renames it over the target, and syncs the directory
    Status replace_unsynced();  // like replace(), but without syncs: the file is whole unless the machine loses power
    Result<bool> take_place();  // like replace(), but returns false if the target exists

  private:
    struct Name {  // the file's temporary name; empty after the object was moved from
        std::string text;
        explicit Name(std::string t) : text(std::move(t)) {}
        Name(Name&& other) noexcept : text(std::move(other.text)) { other.text.clear(); }
    };
    Aside(Descriptor file, Place place, std::string name, std::string target)
        : file_(std::move(file)), place_(std::move(place)), name_(std::move(name)), target_(std::move(target)) {}
    Descriptor file_;
    Place place_;
    Name name_;
    std::string target_;
};

// Returns a random file name, so that nobody with write permission can create a file of that name beforehand. Returns
// an empty text if the kernel gives no random bytes.
std::string random_name();
bool is_temporary(std::string_view file_name);  // true for a file that an Aside writes and that has not taken its place
std::string directory_of(const std::string& path);
Status write_all(int descriptor, std::string_view bytes, const std::string& path);
Status sync(int descriptor, const std::string& path);
// writes the opened file to the disk (fsync), and reports the progress to `progress`
Status sync(int descriptor, const std::string& path, std::int64_t bytes, const Progress& progress);
Status sync_directory(const std::string& directory);
Status sync_directory(const Descriptor& directory);
// makes the directory and its missing parents; each new one is on the disk at return
Status make_directories(const std::string& directory);
// Copies the whole content: by shared blocks if the file system can, else inside of the kernel, else through memory. A
// growing file is copied up to its size at the begin, so that a writer that continues fills no disk with copies.
// `bytes`: the size that the copy must have.
Status copy_contents(const Descriptor& source, const std::string& from, Aside& to, const Progress& progress,
                     std::optional<std::int64_t> bytes = {});
// Flags of open(2) for reading a regular file. Opening with them never waits.
inline constexpr int reading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
// size of an opened file; fails for anything but a regular file
Result<std::int64_t> size_of(const Descriptor& opened, const std::string& path);

}  // namespace rtrain::storage::disk
