// What a file system must be asked for so that a write is durable when the call returns, and whole or not at all.
// Inside of storage/uri only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "storage/uri/descriptor.hpp"
#include "storage/uri/store.hpp"

namespace rtrain::storage::disk {

// "writing /mnt/a/b: no space left on device (0 bytes of 1048576 free there)", as ErrorCode::full; others as io.
Error failure(const std::string& doing, const std::string& path, int error_number);

// A file that is written beside its place and takes it only when it is complete and on the disk. Removed otherwise.
class Aside {
  public:
    static Result<Aside> begin(const std::string& target);  // the target's directory exists
    Aside(Aside&& other) noexcept = default;
    ~Aside();
    int number() const { return file_.number(); }
    const std::string& target() const { return target_; }
    Status replace();           // sync, rename over the target, sync the directory
    Result<bool> take_place();  // the same, but false when the target exists

  private:
    struct Path {  // empty after a move
        std::string text;
        explicit Path(std::string t) : text(std::move(t)) {}
        Path(Path&& other) noexcept : text(std::move(other.text)) { other.text.clear(); }
    };
    Aside(Descriptor file, std::string path, std::string target)
        : file_(std::move(file)), path_(std::move(path)), target_(std::move(target)) {}
    Descriptor file_;
    Path path_;
    std::string target_;
};

bool is_temporary(std::string_view file_name);  // written by an Aside that has not taken its place
std::string directory_of(const std::string& path);
Status write_all(int descriptor, std::string_view bytes, const std::string& path);
Status sync(int descriptor, const std::string& path);
Status sync(int descriptor, const std::string& path, std::int64_t bytes, const Progress& progress);  // told of it
Status sync_directory(const std::string& directory);
Status make_directories(const std::string& directory);  // each new one is on the disk when this returns
// The whole content: shared blocks where the file system can, else copied in the kernel, else through memory.
Status copy_contents(const std::string& from, Aside& to, const Progress& progress);

}  // namespace rtrain::storage::disk
