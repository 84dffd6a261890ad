// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/thread_set.h"

#include <utility>

namespace piper::app {

ThreadSet::~ThreadSet() {
    requestStop();
}

void ThreadSet::requestStop() {
    for (Member& member : m_members) member.thread.request_stop();
}

std::stop_source ThreadSet::start(Work work) {
    {
        const std::lock_guard held(m_ending->mutex);
        m_members.remove_if([](const Member& member) { return *member.ended; });
        ++m_ending->running;
    }
    const auto ended = std::make_shared<bool>(false);
    std::jthread thread(
        [work = std::move(work), ended, ending = m_ending](const std::stop_token& stop) mutable {
            std::exchange(work, {})(stop);
            const std::lock_guard held(ending->mutex);
            *ended = true;
            --ending->running;
            ending->changed.notify_all();
        });
    std::stop_source stop = thread.get_stop_source();
    m_members.push_back({ended, std::move(thread)});
    return stop;
}

bool ThreadSet::endBy(std::chrono::steady_clock::time_point deadline) {
    requestStop();
    std::unique_lock held(m_ending->mutex);
    return m_ending->changed.wait_until(held, deadline, [this] { return m_ending->running == 0; });
}

}  // namespace piper::app
