// Tar, zstd and SHA-256 in one pass. tar.hpp says why libarchive is not used.

#include "storage/job_spec/archive/tar.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/crypto/digest.hpp"
#include "base/write_all.hpp"

namespace rtrain::spec {
namespace {

constexpr std::size_t block = 512;
constexpr int compression_level = 3;

void octal(char* field, std::size_t width, std::uint64_t value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%0*llo", static_cast<int>(width) - 1,
                  static_cast<unsigned long long>(value));
    std::memcpy(field, text.data(), width - 1);
}

// Returns a ustar header of 512 bytes. If the name is too long, the header has its beginning only, and a pax record
// before the header contains the whole name.
std::string ustar(const std::string& name, const TarEntry& entry, char type) {
    std::string head(block, '\0');
    const auto put = [&](std::size_t at, std::string_view text, std::size_t most) {
        head.replace(at, std::min(most, text.size()), text.substr(0, most));
    };
    put(0, name, 100);
    octal(&head[100], 8, entry.mode);
    octal(&head[108], 8, 0);
    octal(&head[116], 8, 0);
    octal(&head[124], 12, static_cast<std::uint64_t>(entry.bytes));
    octal(&head[136], 12, 0);
    put(148, "        ", 8);
    head[156] = type;
    put(157, entry.target, 100);
    put(257, std::string_view("ustar\00000", 8), 8);
    octal(&head[329], 8, 0);
    octal(&head[337], 8, 0);
    unsigned sum = 0;
    for (const char c : head) sum += static_cast<unsigned char>(c);
    octal(&head[148], 7, sum);
    head[154] = '\0';
    return head;
}

std::string padded(std::string bytes) {
    bytes.resize((bytes.size() + block - 1) / block * block, '\0');
    return bytes;
}

// Returns a pax record such as "27 path=some/long/name ". The number is the record's length, including the number
// itself.
std::string pax_record(const std::string& key, const std::string& value) {
    const std::string rest = " " + key + "=" + value + "\n";
    std::size_t size = rest.size() + 1;
    while (std::to_string(size).size() + rest.size() != size) size = std::to_string(size).size() + rest.size();
    return std::to_string(size) + rest;
}

}  // namespace

std::string tar_header(const TarEntry& entry) {
    std::string records;
    if (entry.path.size() > 100) records += pax_record("path", entry.path);
    if (entry.target.size() > 100) records += pax_record("linkpath", entry.target);
    std::string out;
    if (!records.empty()) {
        // Names may not be UTF-8, so this record declares them as bytes.
        records = pax_record("hdrcharset", "BINARY") + records;
        out = ustar("pax", {.mode = 0644, .bytes = static_cast<std::int64_t>(records.size())}, 'x') + padded(records);
    }
    return out + ustar(entry.path, entry, static_cast<char>(entry.type));
}

struct TarWriter::Codec {
    std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd{ZSTD_createCCtx(), &ZSTD_freeCCtx};
    crypto::Sha256 digest;
    std::vector<char> room = std::vector<char>(ZSTD_CStreamOutSize());
};

TarWriter::TarWriter(std::string file, int descriptor)
    : file_(std::move(file)), descriptor_(descriptor), codec_(std::make_unique<Codec>()) {
    RTRAIN_CHECK(codec_->zstd != nullptr);
    ZSTD_CCtx_setParameter(codec_->zstd.get(), ZSTD_c_compressionLevel, compression_level);
    ZSTD_CCtx_setParameter(codec_->zstd.get(), ZSTD_c_checksumFlag, 1);
}

TarWriter::~TarWriter() { ::close(descriptor_); }

Result<std::unique_ptr<TarWriter>> TarWriter::create(const std::string& file) {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) return Error{ErrorCode::io, "writing " + file + ": " + std::strerror(errno), ""};
    return std::unique_ptr<TarWriter>(new TarWriter(file, descriptor));
}

Status TarWriter::compress(std::string_view bytes, Last last) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (std::size_t left = 1; left != 0;) {
        ZSTD_outBuffer out{codec_->room.data(), codec_->room.size(), 0};
        left = ZSTD_compressStream2(codec_->zstd.get(), &out, &in, last == Last::yes ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left) != 0)
            return Error{ErrorCode::internal, "compressing " + file_ + ": " + ZSTD_getErrorName(left), ""};
        const std::string_view compressed{codec_->room.data(), out.pos};
        if (const int error = storage::write_all(descriptor_, compressed); error != 0)
            return Error{error == ENOSPC || error == EDQUOT ? ErrorCode::full : ErrorCode::io,
                         "writing " + file_ + ": " + std::strerror(error), ""};
        codec_->digest.add(compressed);
        bytes_ += static_cast<std::int64_t>(out.pos);
        if (last == Last::no) left = in.pos < in.size ? 1 : 0;
    }
    return Done{};
}

Status TarWriter::pad() {
    const auto over = static_cast<std::size_t>(entry_bytes_) % block;
    entry_bytes_ = 0;
    return over == 0 ? Status(Done{}) : compress(std::string(block - over, '\0'), Last::no);
}

Status TarWriter::begin(const TarEntry& entry) {
    if (auto padded_one = pad(); !padded_one) return padded_one;
    return compress(tar_header(entry), Last::no);
}

Status TarWriter::write(std::string_view bytes) {
    entry_bytes_ += static_cast<std::int64_t>(bytes.size());
    return compress(bytes, Last::no);
}

Status TarWriter::finish() {
    if (auto padded_one = pad(); !padded_one) return padded_one;
    if (auto ended = compress(std::string(2 * block, '\0'), Last::yes); !ended) return ended;
    sha256_ = codec_->digest.hex();
    return Done{};
}

}  // namespace rtrain::spec
