// The safetensors format: 8 bytes of little-endian header length, a JSON header {name: {dtype, shape, data_offsets}},
// the bytes. https://github.com/huggingface/safetensors#format
#include "runtime/torch/tensor_files.hpp"

#include <ATen/ATen.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

namespace rtrain::ddp {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and this code copies bytes as they lie");

using Json = nlohmann::ordered_json;
constexpr std::uint64_t header_bytes_max = 100'000'000;  // as in the reference implementation

struct Kind {
    const char* name;
    at::ScalarType type;
};
constexpr std::array kinds = {Kind{"F64", at::kDouble},    Kind{"F32", at::kFloat}, Kind{"F16", at::kHalf},
                              Kind{"BF16", at::kBFloat16}, Kind{"I64", at::kLong},  Kind{"I32", at::kInt},
                              Kind{"I16", at::kShort},     Kind{"I8", at::kChar},   Kind{"U8", at::kByte},
                              Kind{"BOOL", at::kBool}};

[[noreturn]] void broken(const std::string& path, const std::string& why) {
    throw std::runtime_error(path + ": " + why +
                             "; use another checkpoint (`rtrain checkpoints verify` names damaged ones)");
}

std::string name_of(at::ScalarType type, const std::string& tensor) {
    for (const Kind& kind : kinds) {
        if (kind.type == type) return kind.name;
    }
    throw std::runtime_error("the tensor '" + tensor + "' has a type that safetensors cannot hold (" +
                             at::toString(type) + "); convert it before it is saved");
}

at::ScalarType type_named(const std::string& name, const std::string& path) {
    for (const Kind& kind : kinds) {
        if (name == kind.name) return kind.type;
    }
    broken(path, "it holds a tensor of type " + name + ", which is not read here");
}

void write_file(const std::string& path, const std::vector<std::pair<const char*, std::size_t>>& pieces) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    for (const auto& [bytes, size] : pieces) file.write(bytes, static_cast<std::streamsize>(size));
    file.close();
    if (!file)
        throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno) + "; is there room on the disk?");
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
    return text;
}

struct Entry {
    at::ScalarType type{};
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;
};

// Each value of the header is checked, because a checkpoint may come from anywhere.
Entry read_entry(const Json& value, std::uint64_t data_bytes, const std::string& path, const std::string& name) {
    Entry entry;
    try {
        entry.type = type_named(value.at("dtype").get<std::string>(), path);
        entry.shape = value.at("shape").get<std::vector<std::int64_t>>();
        entry.begin = value.at("data_offsets").at(0).get<std::uint64_t>();
        entry.end = value.at("data_offsets").at(1).get<std::uint64_t>();
    } catch (const Json::exception& error) {
        broken(path, "the header's entry '" + name + "' is not as safetensors writes it: " + error.what());
    }
    std::uint64_t bytes = at::elementSize(entry.type);
    bool sound = true;
    for (const std::int64_t side : entry.shape) {
        sound = sound && side >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(side), &bytes);
    }
    if (!sound || entry.begin > entry.end || entry.end > data_bytes || entry.end - entry.begin != bytes) {
        broken(path, "the tensor '" + name + "' does not fit its bytes");
    }
    return entry;
}

std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    if (!file) broken(path, "it cannot be read, or is shorter than a header");
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path, error);
    if (error || header_bytes > header_bytes_max || size < 8 + header_bytes)
        broken(path, "its header is cut off or too long");
    std::string header(header_bytes, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header_bytes));
    const Json entries = Json::parse(header, nullptr, false);
    if (!file || !entries.is_object()) broken(path, "its header is not a JSON object");

    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, value] : entries.items()) {
        if (name == "__metadata__") continue;
        const Entry entry = read_entry(value, size - 8 - header_bytes, path, name);
        at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.type));
        file.seekg(static_cast<std::streamoff>(8 + header_bytes + entry.begin));
        file.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(entry.end - entry.begin));
        if (!file) broken(path, "the bytes of '" + name + "' are cut off");
        tensors.emplace(name, std::move(tensor));
    }
    return tensors;
}

}  // namespace

void save_tensors(const std::string& directory, const std::string& name, const TensorFiles& files) {
    if (!Json::parse(files.values_json, nullptr, false).is_object()) {
        throw std::runtime_error("the values beside the tensors of '" + name +
                                 "' are not one JSON object: " + files.values_json);
    }
    Json header = Json::object();
    std::vector<at::Tensor> whole;
    std::uint64_t offset = 0;
    for (const auto& [key, tensor] : files.tensors) {
        whole.push_back(tensor.detach().to(at::kCPU).contiguous());
        const std::uint64_t bytes = whole.back().nbytes();
        header[key] = {{"dtype", name_of(tensor.scalar_type(), key)},
                       {"shape", whole.back().sizes().vec()},
                       {"data_offsets", {offset, offset + bytes}}};
        offset += bytes;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data
    const std::uint64_t length = text.size();
    std::vector<std::pair<const char*, std::size_t>> pieces = {{reinterpret_cast<const char*>(&length), sizeof length},
                                                               {text.data(), text.size()}};
    for (const at::Tensor& tensor : whole)
        pieces.emplace_back(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    std::filesystem::create_directories(directory);
    const std::string stem = directory + "/" + name;
    write_file(stem + ".safetensors", pieces);
    write_file(stem + ".json", {{files.values_json.data(), files.values_json.size()}});
}

TensorFiles load_tensors(const std::string& directory, const std::string& name) {
    const std::string stem = directory + "/" + name;
    TensorFiles files{.tensors = read_tensors(stem + ".safetensors"), .values_json = read_file(stem + ".json")};
    if (!Json::parse(files.values_json, nullptr, false).is_object())
        broken(stem + ".json", "it is not one JSON object");
    return files;
}

}  // namespace rtrain::ddp
