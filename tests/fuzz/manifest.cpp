// Manifests and ends of attempts: files on a storage path that others can write.
#include <nlohmann/json.hpp>

#include "base/crypto/digest.hpp"
#include "base/json_text.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;

namespace {

// Returns the manifest with a valid hash, since mutations would otherwise not pass that check.
std::string signed_anew(std::string_view text) {
    auto value = parse_json(text);
    if (!value.is_object()) return std::string(text);
    value.erase("manifest_sha256");
    value["manifest_sha256"] = crypto::sha256_hex(json_text(value));
    return json_text(value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input = fuzz::text_of(data, size);
    const std::uint8_t choice = fuzz::take_choice(input);
    const std::string text = choice % 4 ? signed_anew(input) : std::string(input);
    if (const auto manifest = storage::decode_manifest(text)) {
        for (const storage::ManifestFile& file : manifest->files) {
            fuzz::promise(!file.path.empty() && file.path.front() != '/', "a file's path is relative");
            fuzz::promise(("/" + file.path + "/").find("/../") == std::string::npos, "a file is in its checkpoint");
        }
        const auto again = storage::decode_manifest(storage::encode(*manifest));
        fuzz::promise(again.ok() && storage::encode(*again) == storage::encode(*manifest), "it is written as read");
    }
    if (const auto end = storage::decode_end(text, "end.json")) {
        const auto again = storage::decode_end(storage::encode(*end), "end.json");
        fuzz::promise(again.ok(), "an end is written as read");
    }
    return 0;
}
