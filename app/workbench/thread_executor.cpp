// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/thread_executor.h"

#include <algorithm>
#include <utility>

namespace piper::app {

ThreadExecutor::ThreadExecutor() {
    for (auto& worker : m_workers) {
        worker = std::make_unique<Worker>();
        Worker& w = *worker;
        w.thread = std::jthread([this, &w](const std::stop_token& stop) { loop(w, stop); });
    }
}

ThreadExecutor::~ThreadExecutor() {
    requestStop();
    joinWorkers();
}

void ThreadExecutor::requestStop() {
    for (auto& [topic, stop] : m_stop) stop.request_stop();
    for (auto& worker : m_workers) worker->thread.request_stop();
    m_own_threads.requestStop();
}

void ThreadExecutor::joinWorkers() {
    for (auto& worker : m_workers)
        if (worker->thread.joinable()) worker->thread.join();
}

bool ThreadExecutor::endBy(std::chrono::steady_clock::time_point deadline) {
    requestStop();
    joinWorkers();
    return m_own_threads.endBy(deadline);
}

void ThreadExecutor::submit(const QString& topic, Lane lane, Work work) {
    cancel(topic);
    Request request{topic, m_revision[topic], m_stop[topic], std::move(work)};
    ++m_open;
    if (lane == Lane::Network || lane == Lane::Long) {
        (void)m_own_threads.start(
            [this, request = std::move(request)](const std::stop_token&) { execute(request); });
        return;
    }
    Worker& worker = *m_workers[static_cast<std::size_t>(lane)];
    {
        const std::lock_guard lock(worker.mutex);
        worker.waiting.push_back(std::move(request));
    }
    worker.wake.notify_one();
}

void ThreadExecutor::cancel(const QString& topic) {
    ++m_revision[topic];
    m_stop[topic].request_stop();
    m_stop[topic] = {};
    for (auto& worker : m_workers) {
        const std::lock_guard lock(worker->mutex);
        m_open -= static_cast<int>(
            std::erase_if(worker->waiting, [&](const Request& r) { return r.topic == topic; }));
    }
}

void ThreadExecutor::loop(Worker& worker, const std::stop_token& stop) {
    while (true) {
        Request request;
        {
            std::unique_lock lock(worker.mutex);
            if (!worker.wake.wait(lock, stop, [&] { return !worker.waiting.empty(); })) return;
            request = std::move(worker.waiting.front());
            worker.waiting.pop_front();
        }
        execute(request);
    }
}

void ThreadExecutor::execute(const Request& request) {
    const auto send = [this, topic = request.topic, revision = request.revision](OnWindow done,
                                                                                 bool last) {
        m_window.post([this, topic, revision, done = std::move(done), last] {
            deliver(topic, revision, done, last);
        });
    };
    const Context context{request.stop.get_token(),
                          [&send](OnWindow done) { send(std::move(done), false); }};
    send(request.work(context), true);
}

void ThreadExecutor::deliver(const QString& topic, std::uint64_t revision, OnWindow done,
                             bool last) {
    if (done && m_revision[topic] == revision) done();
    if (last) --m_open;
}

}  // namespace piper::app
