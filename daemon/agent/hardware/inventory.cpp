// Computes the node's offer from hardware and options. Pure: does not read the machine.
#include "daemon/agent/hardware/inventory.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace rtrain::agent {
namespace {

constexpr std::uint32_t gpus_limit = 1'024;
constexpr std::string_view type_prefix = "accelerator_type:";

std::vector<std::string> split(const std::string& text, char mark) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0;;) {
        std::size_t end = text.find(mark, begin);
        parts.push_back(text.substr(begin, end - begin));
        if (end == std::string::npos) return parts;
        begin = end + 1;
    }
}

Error wrong_flag(const std::string& flag, const std::string& value, const std::string& why,
                 const std::string& example) {
    return {ErrorCode::usage, flag + " " + value + ": " + why, "for example " + flag + " " + example};
}

bool is_resource_name(std::string_view name) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-";
    return !name.empty() && name.size() <= 128 && name.find_first_not_of(allowed) == std::string_view::npos;
}

// "16Gi" is 16 x 2^30 bytes. parse_amount refuses a fraction of a byte.
Result<Amount> parse_memory(const std::string& text) {
    static constexpr std::array<std::pair<std::string_view, std::int64_t>, 8> suffixes{{{"Ki", 1LL << 10},
                                                                                        {"Mi", 1LL << 20},
                                                                                        {"Gi", 1LL << 30},
                                                                                        {"Ti", 1LL << 40},
                                                                                        {"K", 1'000},
                                                                                        {"M", 1'000'000},
                                                                                        {"G", 1'000'000'000},
                                                                                        {"T", 1'000'000'000'000}}};
    std::string_view number = text;
    std::int64_t factor = 1;
    for (const auto& [suffix, value] : suffixes)
        if (factor == 1 && number.ends_with(suffix)) {
            number.remove_suffix(suffix.size());
            factor = value;
        }
    Result<Amount> amount = parse_amount(number);
    if (!amount) return amount.error();
    if (amount->ticks > std::numeric_limits<std::int64_t>::max() / factor)
        return Error{ErrorCode::usage, "it is more memory than 64 bits can count", ""};
    return Amount{amount->ticks * factor};
}

// Returns the devices that a batch system assigned, by CUDA's rules: indices or uuid prefixes, up to the first entry
// that is neither.
std::vector<GpuDevice> visible(const std::vector<GpuDevice>& all, const std::optional<std::string>& choice) {
    if (!choice) return all;
    std::vector<GpuDevice> chosen;
    for (const std::string& entry : split(*choice, ',')) {
        auto match = std::find_if(all.begin(), all.end(), [&](const GpuDevice& device) {
            return entry == std::to_string(device.index) ||
                   (entry.starts_with("GPU-") && device.uuid.starts_with(entry));
        });
        if (match == all.end()) break;
        chosen.push_back(*match);
    }
    return chosen;
}

std::string most_frequent_type(const std::vector<GpuDevice>& devices) {  // the first one of equally frequent types
    std::map<std::string, int> count;
    for (const GpuDevice& device : devices) ++count[device.type];
    std::string best;
    for (const GpuDevice& device : devices)
        if (best.empty() || count[device.type] > count[best]) best = device.type;
    return best;
}

Status keep_first_gpus(std::vector<GpuDevice>& devices, Amount amount) {
    std::int64_t count = amount.ticks / Amount::per_unit;
    if (units(count) != amount)
        return wrong_flag("--resources", "GPU=" + to_text(amount), "a node has whole GPUs", "GPU=2");
    if (count > static_cast<std::int64_t>(devices.size()))
        return wrong_flag("--resources", "GPU=" + to_text(amount),
                          "this node has " + std::to_string(devices.size()) + " (for tests: --fake-gpus 8xA100)",
                          "GPU=0");
    devices.resize(static_cast<std::size_t>(count));
    return Done{};
}

void offer_accelerators(Inventory& inventory, const InventoryOptions& options) {
    if (inventory.devices.empty()) return;
    if (!options.accelerator_type.empty())
        for (GpuDevice& device : inventory.devices) device.type = options.accelerator_type;
    inventory.accelerator_type = most_frequent_type(inventory.devices);
    inventory.labels["accelerator_type"] = inventory.accelerator_type;
    for (const GpuDevice& device : inventory.devices)  // a node with several kinds offers each of them
        inventory.total.try_emplace(std::string(type_prefix) + device.type, units(1));
    inventory.gpu_model = inventory.devices.front().name;
}

}  // namespace

Result<Resources> parse_resources(const std::string& text) {
    Resources resources;
    const std::string example = "CPU=8,memory=16Gi,custom=2";
    if (text.empty()) return resources;
    std::string wrong;  // collects all problems
    const auto add_problem = [&wrong](const std::string& why) { wrong += (wrong.empty() ? "" : "; ") + why; };
    for (const std::string& part : split(text, ',')) {
        const std::size_t equals = part.find('=');
        const std::string name = part.substr(0, equals);
        if (equals == std::string::npos) {
            add_problem("\"" + part + "\" is not NAME=AMOUNT");
            continue;
        }
        if (!is_resource_name(name)) add_problem("\"" + name + "\" is not a resource's name");
        const std::string amount_text = part.substr(equals + 1);
        Result<Amount> amount = name == memory_key ? parse_memory(amount_text) : parse_amount(amount_text);
        if (!amount)
            add_problem(name + ": " + amount.error().message);
        else if (!resources.emplace(name, *amount).second)
            add_problem(name + " is given twice");
    }
    if (const auto far = out_of_bounds(resources); far && wrong.empty()) add_problem(*far);
    if (!wrong.empty()) return wrong_flag("--resources", text, wrong, example);
    return resources;
}

Result<std::vector<GpuDevice>> parse_fake_gpus(const std::string& text) {
    std::vector<GpuDevice> devices;
    if (text.empty()) return devices;
    std::size_t mark = text.find('x');
    std::string count = text.substr(0, mark), type = mark == std::string::npos ? "" : text.substr(mark + 1);
    bool digits = !count.empty() && count.size() <= 4 && count.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || !is_resource_name(type) || std::stoul(count) > gpus_limit)
        return wrong_flag("--fake-gpus", text, "it is not COUNTxTYPE with a count of at most 1024", "8xA100");
    for (std::uint32_t index = 0; index < std::stoul(count); ++index) {
        GpuDevice device;
        device.index = index;
        device.uuid = "FAKE-" + std::to_string(index);
        device.name = "fake " + type;
        device.type = type;
        device.fake = true;
        devices.push_back(std::move(device));
    }
    return devices;
}

Result<Inventory> assemble(const Hardware& hardware, const InventoryOptions& options) {
    Result<Resources> wishes = parse_resources(options.resources);
    if (!wishes) return wishes.error();
    Result<std::vector<GpuDevice>> fakes = parse_fake_gpus(options.fake_gpus);
    if (!fakes) return fakes.error();
    if (!options.accelerator_type.empty() && !is_resource_name(options.accelerator_type))
        return wrong_flag("--accelerator-type", options.accelerator_type, "it is not a short word", "A100");

    Inventory inventory;
    inventory.cpus = hardware.allowed_cpus;
    inventory.facts = hardware.facts;
    inventory.devices = fakes->empty() ? visible(hardware.gpus, options.visible_devices) : std::move(*fakes);
    if (auto wish = wishes->find(gpu_key); wish != wishes->end()) {
        if (Status kept = keep_first_gpus(inventory.devices, wish->second); !kept) return kept.error();
        wishes->erase(wish);
    }
    for (GpuDevice& device : inventory.devices)
        if (device.near_cpus.empty()) device.near_cpus = hardware.allowed_cpus;
    inventory.gpus = static_cast<std::uint32_t>(inventory.devices.size());
    inventory.total = {{std::string(cpu_key), hardware.cpus}, {std::string(memory_key), units(hardware.memory_bytes)}};
    offer_accelerators(inventory, options);
    for (const auto& [name, amount] : *wishes) inventory.total[name] = amount;
    if (Amount& memory = inventory.total[std::string(memory_key)]; options.reserve_memory > 0) {
        const Amount reserve = units(options.reserve_memory);
        if (memory <= reserve)
            return wrong_flag("--reserve-memory", to_text(reserve), "the node has " + to_text(memory) + " bytes",
                              "4GiB");
        memory = memory - reserve;
    }
    std::erase_if(inventory.total, [](const auto& entry) { return entry.second.ticks == 0; });
    for (const char* fact : {"hostname", "arch"})
        if (auto entry = hardware.facts.find(fact); entry != hardware.facts.end())
            inventory.labels[fact] = entry->second;
    return inventory;
}

}  // namespace rtrain::agent
