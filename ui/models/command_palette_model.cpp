// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/command_palette_model.h"

#include <algorithm>

namespace piper::ui {
namespace {

constexpr int kLetter = 1, kInARow = 10, kWordStart = 8;
constexpr int kNever = -1'000'000;

bool startsWord(const QString& text, qsizetype at) {
    return at == 0 || (text[at].isLetterOrNumber() && !text[at - 1].isLetterOrNumber());
}

/// Best way to find one word: by length of the found part, then by where its last letter is.
std::optional<FuzzyMatch> matchWord(const QString& word, const QString& text) {
    const auto letters = static_cast<std::size_t>(word.size());
    const auto places = static_cast<std::size_t>(text.size());
    // best[i][j]: letter i at place j; from[i][j]: the place of the letter before it.
    std::vector<std::vector<int>> best(letters, std::vector<int>(places, kNever));
    std::vector<std::vector<int>> from(letters, std::vector<int>(places, -1));
    for (std::size_t i = 0; i < letters; ++i) {
        int before = i == 0 ? 0 : kNever,
            before_at = -1;  // best of the letter before, further left
        for (std::size_t j = 0; j < places; ++j) {
            const auto at = static_cast<qsizetype>(j);
            if (word[static_cast<qsizetype>(i)].toLower() == text[at].toLower() &&
                before > kNever) {
                best[i][j] = before + kLetter + (startsWord(text, at) ? kWordStart : 0);
                from[i][j] = before_at;
                const int joined = i > 0 && j > 0 ? best[i - 1][j - 1] + kLetter + kInARow : kNever;
                if (joined >= best[i][j]) {
                    best[i][j] = joined;
                    from[i][j] = static_cast<int>(j) - 1;
                }
            }
            if (i > 0 && best[i - 1][j] > before) {
                before = best[i - 1][j];
                before_at = static_cast<int>(j);
            }
        }
    }
    const auto& last = best.back();
    const auto end = std::ranges::max_element(last);
    if (end == last.end() || *end <= kNever) return std::nullopt;
    FuzzyMatch out{*end, std::vector<int>(letters)};
    int at = static_cast<int>(end - last.begin());
    for (std::size_t i = letters; i-- > 0;) {
        out.positions[i] = at;
        at = from[i][static_cast<std::size_t>(at)];
    }
    return out;
}

}  // namespace

std::optional<FuzzyMatch> fuzzyMatch(const QString& pattern, const QString& text) {
    FuzzyMatch out;
    for (const QString& word : pattern.split(u' ', Qt::SkipEmptyParts)) {
        const std::optional<FuzzyMatch> found = matchWord(word, text);
        if (!found) return std::nullopt;
        out.score += found->score;
        out.positions.insert(out.positions.end(), found->positions.begin(), found->positions.end());
    }
    std::ranges::sort(out.positions);
    return out;
}

CommandPaletteModel::CommandPaletteModel(const ActionCatalogue& catalogue, QObject* parent)
    : QAbstractListModel(parent), m_catalogue(catalogue) {
    setPattern({});
}

QString CommandPaletteModel::labelOf(std::size_t entry) const {
    return m_catalogue.entry(entry).section + QStringLiteral(": ") + m_catalogue.entry(entry).text;
}

void CommandPaletteModel::setPattern(const QString& pattern) {
    beginResetModel();
    m_found.clear();
    for (std::size_t i = 0; i < m_catalogue.size(); ++i)
        if (std::optional<FuzzyMatch> match = fuzzyMatch(pattern, labelOf(i)))
            m_found.push_back({i, std::move(*match)});
    // Of two that match as well the shorter one is meant; what is not possible now comes last.
    std::ranges::stable_sort(m_found, [&](const Found& a, const Found& b) {
        const bool a_possible = m_catalogue.possible(a.entry);
        const bool b_possible = m_catalogue.possible(b.entry);
        if (a_possible != b_possible) return a_possible;
        if (a.match.score != b.match.score) return a.match.score > b.match.score;
        return !pattern.isEmpty() && labelOf(a.entry).size() < labelOf(b.entry).size();
    });
    endResetModel();
}

void CommandPaletteModel::run(int row) const {
    if (row < 0 || static_cast<std::size_t>(row) >= m_found.size()) return;
    m_catalogue.action(m_found[static_cast<std::size_t>(row)].entry)->trigger();
}

int CommandPaletteModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_found.size());
}

QVariant CommandPaletteModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const Found& found = m_found[static_cast<std::size_t>(index.row())];
    switch (role) {
        case Qt::DisplayRole:
            return labelOf(found.entry);
        case SectionRole:
            return m_catalogue.entry(found.entry).section;
        case TextRole:
            return m_catalogue.entry(found.entry).text;
        case KeysRole:
            return m_catalogue.keysText(found.entry);
        case PossibleRole:
            return m_catalogue.possible(found.entry);
        case PositionsRole:
            return QVariant::fromValue(
                QList<int>(found.match.positions.begin(), found.match.positions.end()));
        case Qt::AccessibleTextRole: {
            const QString keys = m_catalogue.keysText(found.entry);
            return labelOf(found.entry) + (keys.isEmpty() ? keys : QStringLiteral(", ") + keys);
        }
        default:
            return {};
    }
}

}  // namespace piper::ui
