// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QEvent>
#include <QWidget>
#include <algorithm>
#include <map>

namespace piper::app {

/// Remembers that its widgets were painted since the last reset.
class PaintWatch : public QObject {
public:
    void add(QWidget* widget) {
        widget->installEventFilter(this);
        m_painted[widget] = false;
    }
    void reset() {
        for (auto& [widget, painted] : m_painted) painted = false;
    }
    [[nodiscard]] bool all() const {
        return std::ranges::all_of(m_painted, [](const auto& entry) { return entry.second; });
    }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override {
        if (event->type() == QEvent::Paint) m_painted[watched] = true;
        return false;
    }

private:
    std::map<QObject*, bool> m_painted;
};

}  // namespace piper::app
