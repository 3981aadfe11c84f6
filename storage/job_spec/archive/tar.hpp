// Writes a tar archive through zstd and hashes the output. Used inside of storage/job_spec only. It does not use
// libarchive, because the static library would add four compression libraries, libxml2 and nettle to the binary; its
// reader does not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rtrain::spec {

enum class TarType : char {
    file = '0',
    hard_link = '1',
    link = '2',
    character_device = '3',
    directory = '5',
    fifo = '6'
};
struct TarEntry {
    std::string path;
    TarType type = TarType::file;
    unsigned mode = 0644;
    std::int64_t bytes = 0;
    std::string target;  // target of a link
};
// Returns the blocks that precede an entry's content: a ustar header, and pax records for values that do not fit into
// it. They contain no times and no owners.
std::string tar_header(const TarEntry& entry);

class TarWriter {
  public:
    static Result<std::unique_ptr<TarWriter>> create(const std::string& file);
    ~TarWriter();
    TarWriter(const TarWriter&) = delete;
    Status begin(const TarEntry& entry);   // begins an entry; requires that the entry before it is complete
    Status write(std::string_view bytes);  // appends bytes to the content of the current entry
    Status finish();
    std::string sha256() const { return sha256_; }  // hash of the whole file; valid after finish()
    std::int64_t bytes() const { return bytes_; }

  private:
    struct Codec;
    TarWriter(std::string file, int descriptor);
    enum class Last { no, yes };
    Status compress(std::string_view bytes, Last last);
    Status pad();

    std::string file_, sha256_;
    int descriptor_;
    std::unique_ptr<Codec> codec_;
    std::int64_t bytes_ = 0, entry_bytes_ = 0;
};

}  // namespace rtrain::spec
