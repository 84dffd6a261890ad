// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/action_catalogue.h"

namespace piper::ui {

QAction* ActionCatalogue::add(Entry entry) {
    auto* action = new QAction(entry.text, this);
    action->setShortcuts(entry.keys);
    const std::size_t index = m_entries.size();
    connect(action, &QAction::triggered, this, [this, index] {
        if (possible(index)) m_entries[index].run();
    });
    m_entries.push_back(std::move(entry));
    m_actions.push_back(action);
    return action;
}

QAction* ActionCatalogue::find(const QString& section, const QString& text) const {
    for (std::size_t i = 0; i < m_entries.size(); ++i)
        if (m_entries[i].section == section && m_entries[i].text == text) return m_actions[i];
    return nullptr;
}

bool ActionCatalogue::possible(std::size_t index) const {
    return !m_entries[index].possible || m_entries[index].possible();
}

QString ActionCatalogue::keysText(std::size_t index) const {
    const Entry& e = m_entries[index];
    if (e.keys_text) return e.keys_text();
    return e.keys.isEmpty() ? QString() : e.keys.front().toString(QKeySequence::NativeText);
}

QStringList ActionCatalogue::sections() const {
    QStringList out;
    for (const Entry& e : m_entries)
        if (!out.contains(e.section)) out << e.section;
    return out;
}

}  // namespace piper::ui
