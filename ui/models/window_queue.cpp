// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/window_queue.h"

#include <QMetaObject>
#include <utility>

namespace piper::ui {

void WindowQueue::post(Work work) {
    {
        const std::lock_guard held(m_mutex);
        m_waiting.push_back(std::move(work));
    }
    QMetaObject::invokeMethod(this, "runNext", Qt::QueuedConnection);
}

void WindowQueue::runNext() {
    Work work;
    {
        const std::lock_guard held(m_mutex);
        if (m_waiting.empty()) return;
        work = std::move(m_waiting.front());
        m_waiting.pop_front();
    }
    work();
}

}  // namespace piper::ui
