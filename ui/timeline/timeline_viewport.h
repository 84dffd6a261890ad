// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace piper::ui {

/// The visible stretch of time, shared by all panes: zoom and pan are coupled. Times are relative
/// to each pane's origin (the start of the step it shows).
class TimelineViewport {
public:
    void setBounds(double length_ns) {
        m_length = std::max(length_ns, 1000.0);
        clamp();
    }
    [[nodiscard]] double begin() const { return m_begin; }
    [[nodiscard]] double span() const { return m_span; }

    void fit() {
        m_begin = -0.01 * m_length;
        m_span = 1.02 * m_length;
    }
    /// factor < 1 zooms in; `at` in 0..1 stays where it is on the screen.
    void zoom(double factor, double at) {
        const double fixed = m_begin + at * m_span;
        m_span = std::clamp(m_span * factor, kSmallestSpan, 1.2 * m_length);
        m_begin = fixed - at * m_span;
        clamp();
    }
    /// A share of the visible span; positive moves to later times.
    void pan(double share) {
        m_begin += share * m_span;
        clamp();
    }
    void show(double begin, double span) {
        m_begin = begin;
        m_span = std::clamp(span, kSmallestSpan, 1.2 * m_length);
        clamp();
    }
    /// Keeps what is shown for undo(), before a change; small changes in a row make one step.
    void remember() {
        if (!m_history.empty()) {
            const auto& [begin, span] = m_history.back();
            const bool near = m_span < 2 * span && span < 2 * m_span &&
                              m_begin > begin - 0.5 * span && m_begin < begin + 0.5 * span;
            if (near) return;
        }
        if (m_history.size() >= kMostSteps) m_history.erase(m_history.begin());
        m_history.emplace_back(m_begin, m_span);
    }
    /// Shows what was kept last; false when there is nothing.
    bool undo() {
        if (m_history.empty()) return false;
        const auto [begin, span] = m_history.back();
        m_history.pop_back();
        show(begin, span);
        return true;
    }
    void forget() { m_history.clear(); }
    [[nodiscard]] double toShare(double ns) const { return (ns - m_begin) / m_span; }
    [[nodiscard]] double toNs(double share) const { return m_begin + share * m_span; }

private:
    /// Some of the run always stays visible.
    void clamp() {
        m_span = std::min(m_span, 1.2 * m_length);
        m_begin = std::clamp(m_begin, -0.9 * m_span, m_length - 0.1 * m_span);
    }
    static constexpr double kSmallestSpan = 100.0;  ///< ns
    static constexpr std::size_t kMostSteps = 64;
    std::vector<std::pair<double, double>> m_history;  ///< begin and span
    double m_length = 1e9;
    double m_begin = 0.0;
    double m_span = 1e9;
};

/// A round distance between time marks: 1, 2 or 5 times a power of ten, at most `most` marks.
[[nodiscard]] double markDistance(double span_ns, int most);

}  // namespace piper::ui
