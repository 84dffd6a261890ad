// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <deque>
#include <functional>
#include <map>
#include <stop_token>

namespace piper::ui {

/// Where everything that may take longer than a frame, or that opens a file, a database or a
/// socket, happens. The window's thread only submits and receives.
///
/// A request belongs to a topic ("predict", "search", "open"). A newer request of a topic replaces
/// the waiting one, asks the running one to stop and makes its answer stale; stale answers are
/// dropped. Work captures values only and runs elsewhere; what it returns and what it posts run on
/// the window's thread.
class Executor {
public:
    /// Network: what may wait for a host or for its user's answer. Long: what takes seconds, as
    /// searches do. Each request of these two has a thread of its own, so that no file waits for a
    /// search and nobody for a host that does not answer.
    enum class Lane { Interactive, Background, Network, Long };
    using OnWindow = std::function<void()>;
    struct Context {
        std::stop_token stop;
        std::function<void(OnWindow)> post;  ///< progress; dropped when stale
    };
    using Work = std::function<OnWindow(const Context&)>;

    virtual ~Executor() = default;
    virtual void submit(const QString& topic, Lane lane, Work work) = 0;
    virtual void cancel(const QString& topic) = 0;
    /// Nothing waits, runs or is still to be delivered.
    [[nodiscard]] virtual bool idle() const = 0;
};

/// Runs requests when told, on the caller's thread: for tests.
class ManualExecutor final : public Executor {
public:
    void submit(const QString& topic, Lane lane, Work work) override;
    void cancel(const QString& topic) override;
    [[nodiscard]] bool idle() const override { return m_waiting.empty(); }
    /// Runs the oldest waiting request; `before_delivery` runs between work and answer.
    bool runOne(const std::function<void()>& before_delivery = {});
    void runAll();

private:
    struct Request {
        QString topic;
        std::uint64_t revision;
        Work work;
    };
    std::deque<Request> m_waiting;
    std::map<QString, std::uint64_t> m_revision;
    std::map<QString, std::stop_source> m_stop;
};

}  // namespace piper::ui
