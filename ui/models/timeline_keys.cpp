// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/timeline_keys.h"

#include <QFont>
#include <QStringList>
#include <algorithm>
#include <array>

namespace piper::ui {
namespace {

// In the order of TimelineCommand.
constexpr auto kCommands = std::to_array<TimelineCommandInfo>({
    {TimelineCommand::ZoomIn, "zoom_in", "zoom in at the middle", "W"},
    {TimelineCommand::ZoomOut, "zoom_out", "zoom out", "S"},
    {TimelineCommand::Earlier, "earlier", "move to earlier times", "A Left"},
    {TimelineCommand::Later, "later", "move to later times", "D Right"},
    {TimelineCommand::RowsUp, "rows_up", "scroll rows up", "Up"},
    {TimelineCommand::RowsDown, "rows_down", "scroll rows down", "Down"},
    {TimelineCommand::Fit, "fit", "fit what is selected, measured or chosen; else all", "F"},
    {TimelineCommand::UndoZoom, "undo_zoom", "the zoom before", "Backspace Ctrl+Z"},
    {TimelineCommand::NextEvent, "next_event", "next event on the chosen one's row", "."},
    {TimelineCommand::PreviousEvent, "previous_event", "previous event on that row", ","},
    {TimelineCommand::Search, "search", "search by name", "/"},
    {TimelineCommand::Mark, "mark", "mark at the pointer; again: remove", "M"},
    {TimelineCommand::ClearMarks, "clear_marks", "remove all marks", "Shift+M"},
    {TimelineCommand::Fold, "fold", "fold the rank under the pointer", "C"},
    {TimelineCommand::FoldAll, "fold_all", "fold all ranks", "Shift+C"},
    {TimelineCommand::Pin, "pin", "pin the row under the pointer to the top", "P"},
    {TimelineCommand::Clear, "clear", "let go of what is selected", "Esc"},
    {TimelineCommand::Help, "help", "these keys", "?"},
});

QString settingOf(const TimelineCommandInfo& info) {
    return QStringLiteral("timeline_keys.") + QString::fromLatin1(info.id);
}

const TimelineCommandInfo& infoOf(TimelineCommand command) {
    return kCommands[static_cast<std::size_t>(command)];
}

/// Nothing where a part is no single key.
std::optional<QList<QKeySequence>> readKeys(const QString& text) {
    QList<QKeySequence> out;
    for (const QString& part : text.split(u' ', Qt::SkipEmptyParts)) {
        const auto key = QKeySequence::fromString(part, QKeySequence::PortableText);
        if (key.count() != 1 || key[0].key() == Qt::Key_unknown) return std::nullopt;
        out << key;
    }
    return out;
}

QString join(const QList<QKeySequence>& keys, const QString& between,
             QKeySequence::SequenceFormat format) {
    QStringList out;
    for (const QKeySequence& key : keys) out << key.toString(format);
    return out.join(between);
}

QList<QKeySequence> firstKeys(TimelineCommand command) {
    return *readKeys(QString::fromLatin1(infoOf(command).keys));
}

}  // namespace

std::span<const TimelineCommandInfo> timelineCommands() {
    return kCommands;
}

QKeyCombination meantKey(int key, Qt::KeyboardModifiers modifiers) {
    modifiers &= ~Qt::KeyboardModifiers(Qt::KeypadModifier | Qt::GroupSwitchModifier);
    const bool letter = key >= Qt::Key_A && key <= Qt::Key_Z;
    const bool symbol = key > Qt::Key_Space && key < 0x100 && !letter;
    if (symbol) modifiers &= ~Qt::KeyboardModifiers(Qt::ShiftModifier);
    return QKeyCombination(modifiers, static_cast<Qt::Key>(key));
}

TimelineKeys::TimelineKeys(Preferences& preferences, QObject* parent)
    : QObject(parent), m_preferences(preferences) {
    load();
}

void TimelineKeys::load() {
    m_keys.clear();
    for (const TimelineCommandInfo& info : kCommands) {
        const QString remembered =
            m_preferences.value(settingOf(info), QString::fromLatin1(info.keys));
        m_keys.push_back(readKeys(remembered).value_or(firstKeys(info.command)));
    }
    Q_EMIT changed();
}

void TimelineKeys::setReserved(std::vector<std::pair<QKeySequence, QString>> reserved) {
    m_reserved = std::move(reserved);
}

const QList<QKeySequence>& TimelineKeys::keys(TimelineCommand command) const {
    return m_keys[static_cast<std::size_t>(command)];
}

bool TimelineKeys::isFirst(TimelineCommand command) const {
    return keys(command) == firstKeys(command);
}

QString TimelineKeys::keysText(TimelineCommand command) const {
    return join(keys(command), QStringLiteral(", "), QKeySequence::NativeText);
}

std::optional<TimelineCommand> TimelineKeys::find(QKeyCombination key) const {
    for (const TimelineCommandInfo& info : kCommands)
        if (keys(info.command).contains(QKeySequence(key))) return info.command;
    return std::nullopt;
}

QString TimelineKeys::bind(TimelineCommand command, QKeyCombination key) {
    const QKeySequence sequence(key);
    const QString name = sequence.toString(QKeySequence::NativeText);
    const std::optional<TimelineCommand> other = find(key);
    if (other && *other != command)
        return QStringLiteral("%1 does “%2”; give that another key or none first.")
            .arg(name, QString::fromLatin1(infoOf(*other).text));
    for (const auto& [taken, what] : m_reserved)
        if (taken == sequence && !firstKeys(command).contains(sequence))
            return QStringLiteral("%1 is the window's: %2. Choose another key.").arg(name, what);
    set(command, {sequence});
    return {};
}

void TimelineKeys::clear(TimelineCommand command) {
    set(command, {});
}

void TimelineKeys::reset(TimelineCommand command) {
    QList<QKeySequence> keys = firstKeys(command);
    keys.removeIf([&](const QKeySequence& key) {
        const auto other = find(key[0]);
        return other && *other != command;
    });
    set(command, keys);
}

void TimelineKeys::resetAll() {
    for (const TimelineCommandInfo& info : kCommands) set(info.command, firstKeys(info.command));
}

void TimelineKeys::set(TimelineCommand command, QList<QKeySequence> keys) {
    const TimelineCommandInfo& info = infoOf(command);
    m_keys[static_cast<std::size_t>(command)] = std::move(keys);
    if (isFirst(command))
        m_preferences.remove(settingOf(info));
    else
        m_preferences.set(settingOf(info), join(this->keys(command), QStringLiteral(" "),
                                                QKeySequence::PortableText));
    Q_EMIT changed();
}

std::vector<std::pair<std::string, std::string>> TimelineKeys::help() const {
    std::vector<std::pair<std::string, std::string>> out = {
        {"Ctrl+wheel", "zoom at the pointer"},
        {"right-drag, Shift+wheel", "move in time"},
        {"wheel", "scroll rows"},
        {"drag", "select time and rows: sums in the table below"},
        {"Shift+drag", "measure a stretch of time"},
        {"click", "choose an event: its numbers below; on a rank: fold it"}};
    for (const TimelineCommandInfo& info : kCommands) {
        const QString text =
            join(keys(info.command), QStringLiteral(", "), QKeySequence::PortableText);
        out.emplace_back(text.isEmpty() ? std::string("no key") : text.toStdString(), info.text);
    }
    return out;
}

QString TimelineKeys::hint() const {
    const auto first = [this](TimelineCommand command) {
        return keys(command).isEmpty() ? QStringLiteral("–")
                                       : keys(command).front().toString(QKeySequence::NativeText);
    };
    return QStringLiteral(
               "Darker: backward. Ctrl+wheel or %1 %2 zoom, %3 %4 or right-drag pan, drag to "
               "select, Shift+drag to measure, %5 search, %6 all keys.")
        .arg(first(TimelineCommand::ZoomIn), first(TimelineCommand::ZoomOut),
             first(TimelineCommand::Earlier), first(TimelineCommand::Later),
             first(TimelineCommand::Search), first(TimelineCommand::Help));
}

TimelineKeysModel::TimelineKeysModel(TimelineKeys& keys, QObject* parent)
    : QAbstractTableModel(parent), m_keys(keys) {
    connect(&keys, &TimelineKeys::changed, this,
            [this] { Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, 1)); });
}

TimelineCommand TimelineKeysModel::commandAt(int row) {
    return kCommands[static_cast<std::size_t>(row)].command;
}

int TimelineKeysModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(kCommands.size());
}

int TimelineKeysModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : 2;
}

QVariant TimelineKeysModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const TimelineCommand command = commandAt(index.row());
    if (role == Qt::DisplayRole && index.column() == 0) {
        QString what = QString::fromLatin1(infoOf(command).text);
        what[0] = what[0].toUpper();
        return what;
    }
    if (role == Qt::DisplayRole) {
        const QString keys = m_keys.keysText(command);
        return keys.isEmpty() ? QStringLiteral("none") : keys;
    }
    if (role == Qt::FontRole && !m_keys.isFirst(command)) {
        QFont font;
        font.setBold(true);
        return font;
    }
    return {};
}

QVariant TimelineKeysModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return section == 0 ? QStringLiteral("On the canvas") : QStringLiteral("Keys");
}

}  // namespace piper::ui
