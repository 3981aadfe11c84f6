// Computes the restricted Damerau-Levenshtein distance: the number of letters to insert, delete, replace or swap with a
// neighbour.
#include "cmd/text/suggest.hpp"

#include <algorithm>

namespace rtrain::cmd {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
    // A known word is near if at most a third of the word differs, or one letter. Any other suggestion would be a
    // guess.
    std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
    std::string nearest;
    for (const std::string& candidate : known) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    if (!nearest.empty() || word.size() < 2) return nearest;
    for (const std::string& candidate : known)
        if (candidate.starts_with(word)) return candidate;
    return nearest;
}

}  // namespace rtrain::cmd
