// Converts NVML's product names to the short types that people write in specs. The rule:
//  1. words that name a brand are dropped (NVIDIA, Tesla, GeForce, Quadro, GRID);
//  2. the name is split at blanks and dashes, and the first word is the type: A100, H100, T4, L40S, GH200;
//  3. after RTX, GTX and TITAN the model is in the next words: they are joined, with Ti, SUPER, Ada and D.
#include <array>
#include <string_view>
#include <utility>

#include "daemon/agent/hardware/inventory.hpp"

namespace rtrain::agent {
namespace {

constexpr std::array<std::string_view, 5> brands = {"NVIDIA", "Tesla", "GeForce", "Quadro", "GRID"};
constexpr std::array<std::string_view, 3> product_lines = {"RTX", "GTX", "TITAN"};
constexpr std::array<std::string_view, 4> suffixes = {"Ti", "SUPER", "Ada", "D"};

template <std::size_t Size>
bool is_one_of(const std::array<std::string_view, Size>& words, std::string_view word) {
    for (std::string_view known : words)
        if (known == word) return true;
    return false;
}

std::vector<std::string> words_of(const std::string& name) {
    std::vector<std::string> words;
    std::string word;
    for (char c : name + " ") {
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter) word += c;
        if ((c == ' ' || c == '-' || c == '_' || c == '/') && !word.empty()) words.push_back(std::exchange(word, {}));
    }
    return words;
}

}  // namespace

std::string short_gpu_type(const std::string& nvml_name) {
    std::vector<std::string> words = words_of(nvml_name);
    std::size_t at = 0;
    while (at + 1 < words.size() && is_one_of(brands, words[at])) ++at;
    if (at >= words.size()) return "GPU";
    std::string type = words[at];
    if (!is_one_of(product_lines, type)) return type;
    if (++at < words.size()) type += words[at];
    if (at < words.size() && words[at] == "PRO" && ++at < words.size()) type += words[at];
    while (++at < words.size() && is_one_of(suffixes, words[at])) type += words[at];
    return type;
}

}  // namespace rtrain::agent
