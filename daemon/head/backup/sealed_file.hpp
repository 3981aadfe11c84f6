// A file of encrypted frames. README.md has the format. Each frame is authenticated together with its number and the
// file's header, and the last frame is marked. So a changed, moved, missing or foreign frame is detected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::head {

inline constexpr std::size_t piece_bytes = std::size_t{1} << 20;  // the most bytes of a file in one frame

// The key that is derived from a passphrase or a key file with one salt.
struct MasterKey {
    unsigned log2_n = 17;
    std::string salt, key;
};
Result<MasterKey> new_master_key(const std::string& secret);

struct Frame {
    char kind = 0;
    std::string content;
};

class SealedWriter {
  public:
    // Writes the header. `path` is for messages.
    static Result<SealedWriter> begin(storage::Descriptor file, std::string path, const MasterKey& master);
    Status put(char kind, std::string_view content);
    Status end(char kind, std::string_view content);  // writes the last frame; the file is durable at return

  private:
    SealedWriter(storage::Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
    Status write(char kind, std::string_view content, char last);
    Status write_bytes(std::string_view bytes);
    storage::Descriptor file_;
    std::string path_, header_, key_;
    std::uint64_t number_ = 0;
};

class SealedReader {
  public:
    // Errors: not_found, invalid (the file is no backup), unauthorised (the passphrase does not decrypt the first
    // frame).
    static Result<SealedReader> open(const std::string& path, const std::string& secret,
                                     const std::optional<MasterKey>& known = {});
    // Returns the next frame; nullopt after the last one. Error damaged: the file was changed or is cut off.
    Result<std::optional<Frame>> next();
    const MasterKey& master() const { return master_; }

  private:
    SealedReader(storage::Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
    Result<std::string> read_bytes(std::size_t count);  // returns `count` bytes; fewer only at the end of the file
    Result<Frame> read_frame();
    Error damaged() const;
    storage::Descriptor file_;
    std::string path_, header_, key_;
    MasterKey master_;
    std::optional<Frame> first_;
    std::uint64_t number_ = 0;
    bool ended_ = false;
};

bool is_sealed_backup(const std::string& path);  // true if the file begins as a backup does

}  // namespace rtrain::head
