// Fuzzes code archives of strangers: whatever an archive contains, nothing is written outside of its directory.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>

#include "storage/job_spec/job.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t block = 512, checksum_at = 148, checksum_bytes = 8, magic_at = 257;

// Gives each block that looks like a header a valid checksum, since mutations would otherwise not pass that check.
void mend_checksums(std::string& tar) {
    for (std::size_t at = 0; at + block <= tar.size(); at += block) {
        if (std::memcmp(&tar[at + magic_at], "ustar", 5) != 0) continue;
        std::memset(&tar[at + checksum_at], ' ', checksum_bytes);
        unsigned sum = 0;
        for (std::size_t i = 0; i < block; ++i) sum += static_cast<unsigned char>(tar[at + i]);
        std::snprintf(&tar[at + checksum_at], checksum_bytes, "%06o", sum);
    }
}

const std::string& workshop() {
    static const std::string made = [] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit most{.rlim_cur = 4 << 20, .rlim_max = 4 << 20};
        ::setrlimit(RLIMIT_FSIZE, &most);
        std::string name = fs::is_directory("/dev/shm") ? "/dev/shm/fuzz-archive-XXXXXX" : "/tmp/fuzz-archive-XXXXXX";
        fuzz::promise(::mkdtemp(name.data()) != nullptr, "there is a place to unpack to");
        static const struct Remover {
            std::string path;
            ~Remover() { fs::remove_all(path); }
        } at_the_end{name};
        fs::create_directory(name + "/code");
        return name;
    }();
    return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string tar(fuzz::text_of(data, size));
    mend_checksums(tar);
    const std::string file = workshop() + "/given", folder = workshop() + "/code";
    const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fuzz::promise(out >= 0 && ::write(out, tar.data(), tar.size()) == static_cast<ssize_t>(tar.size()), "writing");
    ::close(out);
    const bool whole = spec::unpack_archive(file, folder + "/target").ok();
    std::size_t made = 0;
    for (const auto& entry : fs::directory_iterator(folder)) made += entry.path().filename() == "target" ? 1 : 100;
    fuzz::promise(made == (whole ? 1u : 0u), "the target is there or it is not, and nothing is beside it");
    for (const auto& entry : fs::directory_iterator(workshop()))
        fuzz::promise(entry.path() == file || entry.path() == folder, "nothing is above the target");
    if (!whole) return 0;
    const std::string root = fs::canonical(folder + "/target").string() + "/";
    for (const auto& entry : fs::recursive_directory_iterator(folder + "/target"))
        if (entry.is_symlink())
            fuzz::promise((fs::weakly_canonical(entry.path()).string() + "/").starts_with(root), "links stay inside");
    fs::remove_all(folder + "/target");
    return 0;
}
