// Makes texts for people: suggests the word that they probably meant, and shows their own text without control
// characters.

#include <algorithm>
#include <numeric>

#include "base/hex.hpp"
#include "storage/job_spec/value.hpp"

namespace rtrain::spec {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Returns the number of insertions, deletions, replacements and swaps of neighbours between two words. Ignores case.
std::size_t edits(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = last;
        last = row;
    }
    return last[b.size()];
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
    if (word.empty() || word.size() > 64) return "";
    std::string best;
    std::size_t best_edits = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : known) {
        const std::size_t count = edits(word, last_part(candidate));
        if (count < best_edits) {
            best_edits = count;
            best = candidate;
        }
    }
    return best;
}

std::string did_you_mean(const std::string& word) { return word.empty() ? "" : "did you mean \"" + word + "\"?"; }

std::string shown(std::string_view text) {
    constexpr std::size_t most = 60;
    constexpr std::string_view digits = storage::hex_digits;
    std::string out = "\"";
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (i >= most && (c & 0xC0U) != 0x80U) {
            out += "...";
            break;
        }
        if (c < 0x20 || c == 0x7f) {
            out += std::string("\\x") + digits[c >> 4] + digits[c & 15];
            continue;
        }
        out += text[i];
    }
    return out + '"';
}

void Tree::add(Problem problem) {
    if (problems.size() < problems_most)
        problems.push_back(std::move(problem));
    else
        ++problems_more;
}

void add_count(Problems& problems, std::size_t more) {
    if (more > 0) problems.push_back({"", 0, 0, "and " + std::to_string(more) + " more problems", ""});
}

std::string below(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }
std::string below(const std::string& path, std::size_t index) { return path + "[" + std::to_string(index) + "]"; }

}  // namespace rtrain::spec
