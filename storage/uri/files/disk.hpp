// What a file system must be asked for so that a write is durable when the call returns, and whole or not at all.
// Inside of storage/uri only.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage::disk {

// "writing /mnt/a/b: no space left on device (0 bytes of 1048576 free there)", as ErrorCode::full; others as io.
Error failure(const std::string& doing, const std::string& path, int error_number);

// A file that is written beside its place and takes it only when it is complete and on the disk. Removed otherwise.
class Aside {
  public:
    static Result<Aside> begin(const std::string& target);               // the target's directory exists
    static Result<Aside> begin(Place place, const std::string& target);  // `target`: for messages
    Aside(Aside&& other) noexcept = default;
    ~Aside();
    int number() const { return file_.number(); }
    const std::string& target() const { return target_; }
    Status replace();           // sync, rename over the target, sync the directory
    Status replace_unsynced();  // the same without the syncs: whole while the machine stays up
    Result<bool> take_place();  // the same, but false when the target exists

  private:
    struct Name {  // empty after a move
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

// Returns a name that is not to be guessed: who may write there cannot have put another file in its place. Empty: the
// kernel has no chance.
std::string random_name();
bool is_temporary(std::string_view file_name);  // written by an Aside that has not taken its place
std::string directory_of(const std::string& path);
Status write_all(int descriptor, std::string_view bytes, const std::string& path);
Status sync(int descriptor, const std::string& path);
Status sync(int descriptor, const std::string& path, std::int64_t bytes, const Progress& progress);  // told of it
Status sync_directory(const std::string& directory);
Status sync_directory(const Descriptor& directory);
Status make_directories(const std::string& directory);  // each new one is on the disk when this returns
// The whole content: shared blocks where the file system can, else copied in the kernel, else through memory. Of a file
// that grows meanwhile, what it had at the beginning: whoever writes on and on fills no disk with copies of it.
// `bytes`: the copy has so many, or is an error.
Status copy_contents(const Descriptor& source, const std::string& from, Aside& to, const Progress& progress,
                     std::optional<std::int64_t> bytes = {});
// A regular file for reading, never waited for: `opened` by whoever calls, with these flags.
inline constexpr int reading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
Result<std::int64_t> size_of(const Descriptor& opened, const std::string& path);  // refuses what is no regular file

}  // namespace rtrain::storage::disk
