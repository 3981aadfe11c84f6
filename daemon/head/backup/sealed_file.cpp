// See sealed_file.hpp.
#include "daemon/head/backup/sealed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crypto/seal.hpp"
#include "base/write_all.hpp"

namespace rtrain::head {
namespace {

constexpr std::string_view sealed_magic = "rtrain-backup 1\n";
constexpr std::size_t salt_bytes = 16, header_bytes = 52, log2_n_at = 16, salt_at = 20, file_salt_at = 36;
// bounds of scrypt's cost (log2 of N); they limit the memory for a foreign header to 1 GiB
constexpr unsigned log2_n_least = 14, log2_n_most = 20;
constexpr std::size_t frame_most = 2 * piece_bytes;

Error file_failure(const std::string& doing, const std::string& path) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    const std::string message = doing + " " + path + ": " + std::strerror(errno);
    if (errno == ENOENT) return {ErrorCode::not_found, message, "rtrain head backup FILE makes a backup"};
    return {full ? ErrorCode::full : ErrorCode::io, message,
            full ? "make room on the disk of " + path : "check the path, its permissions and its disk"};
}

Error no_memory() {
    return {ErrorCode::full, "there is not enough memory to make a key of the passphrase",
            "the key needs up to 1 GiB for a moment; end other programs, or use a larger machine"};
}

std::string nonce_of(std::uint64_t number, char last) {
    std::string nonce(crypto::nonce_bytes, '\0');
    for (std::size_t i = 0; i < 8; ++i) nonce[10 - i] = static_cast<char>(number >> (8 * i) & 0xff);
    nonce.back() = last;
    return nonce;
}

std::string key_of_file(const MasterKey& master, std::string_view header) {
    return crypto::derived_key(master.key, header.substr(file_salt_at), "rtrain backup file");
}

std::string length_text(std::size_t length) {
    std::string text(4, '\0');
    for (std::size_t i = 0; i < 4; ++i) text[i] = static_cast<char>(length >> (8 * i) & 0xff);
    return text;
}

std::size_t length_in(std::string_view text) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= std::size_t{static_cast<unsigned char>(text[i])} << (8 * i);
    return length;
}

}  // namespace

Result<MasterKey> new_master_key(const std::string& secret) {
    MasterKey master{.salt = crypto::random_bytes(salt_bytes), .key = ""};
    auto key = crypto::passphrase_key(secret, master.salt, master.log2_n);
    if (!key) return no_memory();
    master.key = std::move(*key);
    return master;
}

Result<SealedWriter> SealedWriter::begin(storage::Descriptor file, std::string path, const MasterKey& master) {
    SealedWriter writer(std::move(file), std::move(path));
    writer.header_ = std::string(sealed_magic) + static_cast<char>(master.log2_n) + std::string(3, '\0') + master.salt +
                     crypto::random_bytes(salt_bytes);
    RTRAIN_CHECK(writer.header_.size() == header_bytes);
    writer.key_ = key_of_file(master, writer.header_);
    if (Status written = writer.write_bytes(writer.header_); !written) return written.error();
    return writer;
}

Status SealedWriter::write_bytes(std::string_view bytes) {
    const int fault = storage::write_all(file_.number(), bytes);
    if (fault == 0) return Done{};
    errno = fault;
    return file_failure("writing", path_);
}

Status SealedWriter::write(char kind, std::string_view content, char last) {
    const std::string nonce = nonce_of(number_++, last);
    const std::string frame =
        crypto::sealed({.key = key_, .nonce = nonce, .beside = header_}, kind + std::string(content));
    RTRAIN_CHECK(frame.size() <= frame_most);
    return write_bytes(length_text(frame.size()) + frame);
}

Status SealedWriter::put(char kind, std::string_view content) { return write(kind, content, 0); }

Status SealedWriter::end(char kind, std::string_view content) {
    if (Status written = write(kind, content, 1); !written) return written;
    if (::fsync(file_.number()) != 0 || file_.close() != 0) return file_failure("writing", path_);
    return Done{};
}

Error SealedReader::damaged() const {
    return {ErrorCode::damaged,
            path_ + " was changed or is cut off: frame " + std::to_string(number_ + 1) + " is not as it was written",
            "use another backup"};
}

Result<std::string> SealedReader::read_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    std::size_t done = 0;
    while (done < count) {
        const ssize_t got = ::read(file_.number(), bytes.data() + done, count - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_failure("reading", path_);
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
}

Result<SealedReader> SealedReader::open(const std::string& path, const std::string& secret,
                                        const std::optional<MasterKey>& known) {
    SealedReader reader(storage::Descriptor(::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC)), path);
    if (!reader.file_.open()) return file_failure("opening", path);
    Result<std::string> header = reader.read_bytes(header_bytes);
    if (!header) return header.error();
    const bool begins = header->size() == header_bytes && header->starts_with(sealed_magic);
    const unsigned log2_n = begins ? static_cast<unsigned char>((*header)[log2_n_at]) : 0;
    if (log2_n < log2_n_least || log2_n > log2_n_most)
        return Error{ErrorCode::invalid, path + " is no backup of rtrain, or of a newer version",
                     "name the file that `rtrain head backup` wrote; one that --state-only made is for `rtrain head "
                     "restore-backup`"};
    reader.header_ = std::move(*header);
    reader.master_ = {.log2_n = log2_n, .salt = reader.header_.substr(salt_at, salt_bytes), .key = ""};
    if (known && known->salt == reader.master_.salt && known->log2_n == log2_n) reader.master_ = *known;
    if (reader.master_.key.empty()) {
        auto key = crypto::passphrase_key(secret, reader.master_.salt, log2_n);
        if (!key) return no_memory();
        reader.master_.key = std::move(*key);
    }
    reader.key_ = key_of_file(reader.master_, reader.header_);
    Result<Frame> first = reader.read_frame();
    if (!first && first.error().code == ErrorCode::damaged)
        return Error{ErrorCode::unauthorised,
                     "the passphrase or key file does not open " + path + ", or its beginning was changed",
                     "give the one that the backup was made with"};
    if (!first) return first.error();
    reader.first_ = std::move(*first);
    return reader;
}

Result<Frame> SealedReader::read_frame() {
    Result<std::string> length = read_bytes(4);
    if (!length) return length.error();
    const std::size_t size = length->size() == 4 ? length_in(*length) : 0;
    if (size <= crypto::tag_bytes || size > frame_most) return damaged();
    const Result<std::string> bytes = read_bytes(size);
    if (!bytes) return bytes.error();
    if (bytes->size() != size) return damaged();
    for (const char last : {'\0', '\1'}) {
        const std::string nonce = nonce_of(number_, last);
        auto text = crypto::unsealed({.key = key_, .nonce = nonce, .beside = header_}, *bytes);
        if (!text) continue;
        ++number_;
        ended_ = last == 1;
        return Frame{.kind = text->front(), .content = text->substr(1)};
    }
    return damaged();
}

Result<std::optional<Frame>> SealedReader::next() {
    if (first_) return std::exchange(first_, std::nullopt);
    if (!ended_) {
        Result<Frame> frame = read_frame();
        if (!frame) return frame.error();
        return std::optional(std::move(*frame));
    }
    Result<std::string> more = read_bytes(1);
    if (!more) return more.error();
    if (!more->empty()) return damaged();
    return std::optional<Frame>();
}

bool is_sealed_backup(const std::string& path) {
    const storage::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    char begin[sealed_magic.size()] = {};
    return file.open() && ::pread(file.number(), begin, sizeof begin, 0) == static_cast<ssize_t>(sizeof begin) &&
           std::string_view(begin, sizeof begin) == sealed_magic;
}

}  // namespace rtrain::head
