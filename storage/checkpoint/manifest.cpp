// The manifest of a checkpoint. It is written last, and its existence is the commit: without it no reader sees the
// directory. It contains a hash of itself, so that damage is detected.

#include <algorithm>
#include <limits>

#include "base/crypto/digest.hpp"
#include "base/json_text.hpp"
#include "storage/checkpoint/layout.hpp"

namespace rtrain::storage {
namespace {

using nlohmann::json;

json fields(const Manifest& manifest) {
    json files = json::array();
    for (const ManifestFile& file : manifest.files)
        files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}, {"rank", file.rank}});
    return {{"schema_version", 1},
            {"directory", manifest.directory},
            {"attempt", manifest.attempt},
            {"report", manifest.report},
            {"world_size", manifest.world_size},
            {"wall_ms", manifest.wall_ms},
            {"bytes", manifest.bytes()},
            {"metrics", embedded(manifest.metrics_json)},
            {"files", std::move(files)}};
}

std::string own_hash(json value) {
    value.erase("manifest_sha256");
    return crypto::sha256_hex(json_text(value));
}

// Throws json::exception if a field is missing or has another type.
Manifest from_fields(const json& value) {
    Manifest manifest{.directory = value.at("directory").get<std::string>(),
                      .attempt = integer_in<std::uint32_t>(value.at("attempt")),
                      .report = integer_in<std::uint64_t>(value.at("report")),
                      .world_size = integer_in<std::uint32_t>(value.at("world_size")),
                      .wall_ms = integer_in<std::int64_t>(value.at("wall_ms")),
                      .metrics_json = extracted(value.at("metrics"))};
    for (const json& file : value.at("files"))
        manifest.files.push_back({.path = file.at("path").get<std::string>(),
                                  .bytes = integer_in<std::int64_t>(file.at("bytes")),
                                  .sha256 = file.at("sha256").get<std::string>(),
                                  .rank = integer_in<std::uint32_t>(file.at("rank"))});
    return manifest;
}

Error damaged(const std::string& why) { return {ErrorCode::damaged, "the manifest is damaged: " + why, ""}; }

}  // namespace

std::int64_t Manifest::bytes() const {
    std::int64_t sum = 0;
    for (const ManifestFile& file : files) sum += file.bytes;
    return sum;
}

std::string encode(const Manifest& manifest) {
    json value = fields(manifest);
    value["manifest_sha256"] = own_hash(value);
    return file_text(value);
}

Result<Manifest> decode_manifest(const std::string& text) {
    const json value = parse_json(text);
    if (!value.is_object()) return damaged("its " + std::to_string(text.size()) + " bytes are not a JSON object");
    const json version = value.value("schema_version", json(1));
    if (!version.is_number_integer()) return damaged("its schema_version is not a whole number");
    if (version != json(1))
        return Error{ErrorCode::invalid,
                     "the manifest has version " + json_text(version) + "; this rtrain reads version 1",
                     "use the rtrain that wrote it, or a newer one"};
    if (value.value("manifest_sha256", json()) != json(own_hash(value))) return damaged("its own hash differs");
    try {
        Manifest manifest = from_fields(value);
        std::int64_t room = std::numeric_limits<std::int64_t>::max();
        for (const ManifestFile& file : manifest.files) {
            if (!safe_relative(file.path)) return damaged("file name \"" + file.path + "\" would leave the checkpoint");
            if (file.bytes < 0 || file.bytes > room)
                return damaged("file \"" + file.path + "\" has an impossible size");
            room -= file.bytes;
        }
        return manifest;
    } catch (const json::exception& wrong) { return damaged(wrong.what()); }
}

Status write_manifest(Store& store, const std::string& run_name, const Manifest& manifest) {
    const DirectoryClaim claim{.attempt = manifest.attempt, .report = manifest.report};
    if (Status ours = check_owner(store, run_name, manifest.directory, claim); !ours) return ours;
    const std::string text = encode(manifest);
    if (static_cast<std::int64_t>(text.size()) > whole_most)
        return Error{ErrorCode::invalid,
                     "the manifest of " + manifest.directory + " would have more than " +
                         std::to_string(whole_most >> 20) + " MiB: " + std::to_string(manifest.files.size()) + " files",
                     "put fewer files into a checkpoint, or shorter metrics into a report"};
    const auto created = store.create(manifest_path(run_name, manifest.directory), text);
    if (!created) {  // A store also returns `conflict` while another request writes the same name, which is temporary.
        Error error = created.error();
        if (error.code == ErrorCode::conflict) error.code = ErrorCode::unreachable;
        return error;
    }
    if (*created) return Done{};
    // The manifest exists already. Equal content means that this commit is repeated because its answer was lost. Any
    // other content is a second commit under one name.
    const auto there = store.get(manifest_path(run_name, manifest.directory));
    if (!there) return there.error();
    auto seen = decode_manifest(*there);
    if (!seen) return seen.error();
    Manifest same_time = manifest;
    same_time.wall_ms = seen->wall_ms;
    if (encode(*seen) == encode(same_time)) return Done{};
    return Error{ErrorCode::conflict,
                 "checkpoint " + run_name + "/" + manifest.directory + " is committed already, with other files",
                 "give each checkpoint of an attempt a name of its own"};
}

}  // namespace rtrain::storage
