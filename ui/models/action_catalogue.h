// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QKeySequence>
#include <QObject>
#include <functional>
#include <vector>

namespace piper::ui {

/// What the window can do, each as one action: menu, shortcuts and palette are made of the same.
class ActionCatalogue : public QObject {
    Q_OBJECT
public:
    struct Entry {
        QString section;  ///< "Plan"
        QString text;     ///< "Pin this plan"
        QList<QKeySequence> keys;
        std::function<void()> run;
        std::function<bool()> possible = {};  ///< empty: always
        /// Keys that another widget reads (those of the timeline), for showing only.
        std::function<QString()> keys_text = {};
    };

    using QObject::QObject;

    /// The action of a new entry. It is always enabled, so that its keys work as soon as it is
    /// possible; while it is not, triggering it does nothing.
    QAction* add(Entry entry);
    [[nodiscard]] std::size_t size() const { return m_entries.size(); }
    [[nodiscard]] const Entry& entry(std::size_t index) const { return m_entries[index]; }
    [[nodiscard]] QAction* action(std::size_t index) const { return m_actions[index]; }
    /// Null without such an entry.
    [[nodiscard]] QAction* find(const QString& section, const QString& text) const;
    [[nodiscard]] bool possible(std::size_t index) const;
    /// As a menu shows them; empty without any.
    [[nodiscard]] QString keysText(std::size_t index) const;
    /// In the order in which they first appeared.
    [[nodiscard]] QStringList sections() const;

private:
    std::vector<Entry> m_entries;
    std::vector<QAction*> m_actions;
};

}  // namespace piper::ui
