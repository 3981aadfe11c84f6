// Sealed files: every change of a byte, a frame or a length is found, and a wrong passphrase opens nothing.
#include "daemon/head/backup/sealed_file.hpp"

#include <fcntl.h>

#include "base/crypto/seal.hpp"
#include "base/hex.hpp"
#include "daemon/head/backup/archive.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

const std::string secret = "correct horse battery";

MasterKey quick_key() {
    MasterKey master{.log2_n = 14, .salt = std::string(16, 's'), .key = ""};
    master.key = *crypto::passphrase_key(secret, master.salt, master.log2_n);
    return master;
}

using Written = std::vector<std::pair<char, std::string>>;

void write_sealed(const std::string& path, const Written& frames) {
    auto writer = SealedWriter::begin(storage::Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)),
                                      path, quick_key());
    REQUIRE(writer.ok());
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) REQUIRE(writer->put(frames[i].first, frames[i].second).ok());
    REQUIRE(writer->end(frames.back().first, frames.back().second).ok());
}

// Reads all frames. Returns the code of the first error; nullopt: all are sound.
std::optional<ErrorCode> fault_of(const std::string& path, Written* out = nullptr, const std::string& by = secret) {
    auto reader = SealedReader::open(path, by);
    if (!reader) return reader.error().code;
    while (true) {
        auto frame = reader->next();
        if (!frame) return frame.error().code;
        if (!*frame) return std::nullopt;
        if (out != nullptr) out->emplace_back((*frame)->kind, (*frame)->content);
    }
}

}  // namespace

TEST_CASE("a passphrase's key is that of RFC 7914, a derived one of RFC 5869") {
    // RFC 7914, section 12: the third vector has 64 bytes, of which the first 32 are the key of 32 bytes.
    CHECK(storage::hex(*crypto::passphrase_key("pleaseletmein", "SodiumChloride", 14)) ==
          "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2");
    std::string salt, info;
    for (int i = 0; i <= 0x0c; ++i) salt += static_cast<char>(i);
    for (int i = 0xf0; i <= 0xf9; ++i) info += static_cast<char>(i);
    // RFC 5869, test case 1: the first 32 of 42 bytes.
    CHECK(storage::hex(crypto::derived_key(std::string(22, '\x0b'), salt, info)) ==
          "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST_CASE("frames are read as they were written") {
    const Folder folder;
    const std::string path = folder.path + "/b";
    const Written frames{{'h', "facts"}, {'d', std::string(piece_bytes, 'x')}, {'e', ""}};
    write_sealed(path, frames);
    Written read;
    CHECK_FALSE(fault_of(path, &read).has_value());
    CHECK(read == frames);
    CHECK(bytes_of_file(path).find("facts") == std::string::npos);
    CHECK(fault_of(path, nullptr, "incorrect horse batt") == ErrorCode::unauthorised);
    CHECK(is_sealed_backup(path));
}

TEST_CASE("each changed byte and each cut of a sealed file is found") {
    const Folder folder;
    const std::string path = folder.path + "/b";
    write_sealed(path, {{'h', "facts"}, {'f', "a file"}, {'d', "bytes"}, {'e', ""}});
    const std::string whole = bytes_of_file(path);
    for (std::size_t at = 17; at < whole.size(); at += 3) {
        if (at >= 20 && at < 36 && at > 22) continue;  // each byte of the salt takes a scrypt of its own
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        write_to_file(path, changed);
        CAPTURE(at);
        CHECK(fault_of(path).has_value());
    }
    for (std::size_t size = 0; size < whole.size(); size += 5) {
        write_to_file(path, whole.substr(0, size));
        CAPTURE(size);
        CHECK(fault_of(path).has_value());
    }
    write_to_file(path, whole + "x");
    CHECK(fault_of(path) == ErrorCode::damaged);
}

TEST_CASE("frames that are left out, moved or of another file are found") {
    const Folder folder;
    const std::string path = folder.path + "/b", other = folder.path + "/other";
    write_sealed(path, {{'h', "facts"}, {'d', "one"}, {'d', "two"}, {'e', ""}});
    write_sealed(other, {{'h', "facts"}, {'d', "uno"}, {'d', "two"}, {'e', ""}});
    const std::string whole = bytes_of_file(path), foreign = bytes_of_file(other);
    const std::size_t first = 52 + 4 + 22, frame = 4 + 20;  // one kind, the content, and a tag of 16
    const std::string a = whole.substr(first, frame), b = whole.substr(first + frame, frame);
    const std::string head = whole.substr(0, first), tail = whole.substr(first + 2 * frame);
    REQUIRE(head + a + b + tail == whole);
    for (const std::string& text : {head + b + a + tail, head + a + tail, head + a + a + tail, head + a + b,
                                    head + a + b + tail + tail, head + foreign.substr(first, frame) + b + tail}) {
        write_to_file(path, text);
        CHECK(fault_of(path) == ErrorCode::damaged);
    }
}

TEST_CASE("a header that asks for much memory is refused before any is taken") {
    const Folder folder;
    const std::string path = folder.path + "/b";
    write_sealed(path, {{'h', "facts"}, {'e', ""}});
    std::string whole = bytes_of_file(path);
    for (const char cost : {'\0', '\x0d', '\x15', '\x3f'}) {
        whole[16] = cost;
        write_to_file(path, whole);
        CHECK(fault_of(path) == ErrorCode::invalid);
    }
}

TEST_CASE("a path in a backup leads nowhere but below the target") {
    for (const char* fine : {"state.db", "logs/1/attempt-000001/rank-00000.out", "a..b", ".hidden"})
        CHECK(is_clean_path(fine));
    for (const char* wrong : {"", "/etc/passwd", "..", "a/../../b", "a//b", "./a", "a/", "a/.", "a\nb"})
        CHECK_FALSE(is_clean_path(wrong));
    const Folder folder;
    const std::string path = folder.path + "/b";
    const auto read = [&](const Written& frames) {
        write_sealed(path, frames);
        std::optional<MasterKey> master = quick_key();
        const auto totals = read_archive(path, secret, master, {});
        return totals ? std::string() : totals.error().message;
    };
    const std::pair<char, std::string> begin{'h', "{}"}, end{'e', R"({"files":1})"};
    CHECK(read({begin, {'f', R"({"path":"a/b"})"}, end}).empty());
    CHECK(read({begin, {'f', R"({"path":"../b"})"}, end}).find("leads out") != std::string::npos);
    CHECK(read({begin, {'f', R"({"path":"b"})"}, {'f', R"({"path":"b"})"}, end}).find("twice") != std::string::npos);
    CHECK(read({begin, end}).find("number of files") != std::string::npos);
    CHECK(read({{'f', R"({"path":"b"})"}, end}).find("order") != std::string::npos);
    CHECK(read({begin, {'d', "no zstd"}, end}).find("unpacked") != std::string::npos);
}
