// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractListModel>
#include <optional>
#include <vector>

#include "ui/models/action_catalogue.h"

namespace piper::ui {

/// How well a text holds the letters of a pattern in their order.
struct FuzzyMatch {
    int score = 0;               ///< higher is better; letters at word starts and in a row count
    std::vector<int> positions;  ///< of the letters found, in order
};
/// Without regard to case. Blanks divide the pattern into words that are each looked for anywhere.
/// Nothing where a word's letters are not all there; an empty pattern is everywhere.
[[nodiscard]] std::optional<FuzzyMatch> fuzzyMatch(const QString& pattern, const QString& text);

/// The actions that a typed pattern finds, best first: "Section: Text".
class CommandPaletteModel : public QAbstractListModel {
    Q_OBJECT
public:
    enum Role { SectionRole = Qt::UserRole, TextRole, KeysRole, PossibleRole, PositionsRole };

    explicit CommandPaletteModel(const ActionCatalogue& catalogue, QObject* parent = nullptr);

    void setPattern(const QString& pattern);
    void run(int row) const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;

private:
    struct Found {
        std::size_t entry = 0;
        FuzzyMatch match;
    };
    [[nodiscard]] QString labelOf(std::size_t entry) const;

    const ActionCatalogue& m_catalogue;
    std::vector<Found> m_found;
};

}  // namespace piper::ui
