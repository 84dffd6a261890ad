// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QKeySequence>
#include <QList>
#include <QObject>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ui/models/preferences.h"

namespace piper::ui {

/// What keys do on a canvas.
enum class TimelineCommand {
    ZoomIn,
    ZoomOut,
    Earlier,
    Later,
    RowsUp,
    RowsDown,
    Fit,
    UndoZoom,
    NextEvent,
    PreviousEvent,
    Search,
    Mark,
    ClearMarks,
    Fold,
    FoldAll,
    Pin,
    Clear,
    Help
};

struct TimelineCommandInfo {
    TimelineCommand command;
    const char* id;    ///< in the settings
    const char* text;  ///< what it does
    const char* keys;  ///< at first, divided by blanks
};
[[nodiscard]] std::span<const TimelineCommandInfo> timelineCommands();

/// A key with what is held beside it, as bindings mean it: of the symbols only the sign itself
/// counts, however a keyboard makes it.
[[nodiscard]] QKeyCombination meantKey(int key, Qt::KeyboardModifiers modifiers);

/// Which keys do what on every canvas; changes are remembered.
class TimelineKeys : public QObject {
    Q_OBJECT
public:
    explicit TimelineKeys(Preferences& preferences, QObject* parent = nullptr);
    /// Takes up what is remembered; what cannot be read stays as at first.
    void load();
    /// Keys that belong to the window, with what they do there.
    void setReserved(std::vector<std::pair<QKeySequence, QString>> reserved);

    [[nodiscard]] const QList<QKeySequence>& keys(TimelineCommand command) const;
    [[nodiscard]] bool isFirst(TimelineCommand command) const;
    /// "W", "Backspace, Ctrl+Z"; empty for a command without keys.
    [[nodiscard]] QString keysText(TimelineCommand command) const;
    [[nodiscard]] std::optional<TimelineCommand> find(QKeyCombination key) const;

    /// Gives a command one key instead of those it has. What is wrong with it, in words; empty when
    /// it took effect. A key of another command or of the window is refused.
    [[nodiscard]] QString bind(TimelineCommand command, QKeyCombination key);
    void clear(TimelineCommand command);
    /// The keys it had at first; one that another command has by now stays there.
    void reset(TimelineCommand command);
    void resetAll();

    /// Keys and mouse, for the help on the canvas: what, and what it does.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> help() const;
    /// One line of the most useful ones.
    [[nodiscard]] QString hint() const;

Q_SIGNALS:
    void changed();

private:
    void set(TimelineCommand command, QList<QKeySequence> keys);

    Preferences& m_preferences;
    std::vector<QList<QKeySequence>> m_keys;  ///< [command]
    std::vector<std::pair<QKeySequence, QString>> m_reserved;
};

/// The bindings as a table: what, its keys.
class TimelineKeysModel : public QAbstractTableModel {
    Q_OBJECT
public:
    explicit TimelineKeysModel(TimelineKeys& keys, QObject* parent = nullptr);
    [[nodiscard]] static TimelineCommand commandAt(int row);
    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    TimelineKeys& m_keys;
};

}  // namespace piper::ui
