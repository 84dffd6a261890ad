// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/slider_bench.h"

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QLabel>
#include <QMouseEvent>
#include <QSlider>
#include <QStyle>
#include <QStyleOptionSlider>
#include <QTimer>
#include <algorithm>

#include "app/workbench/settle.h"
#include "core/base/json.h"
#include "ui/views/knob_control.h"
#include "ui/views/plan_page.h"
#include "ui/views/widgets.h"

namespace piper::app {
namespace {

constexpr int kTimeoutMs = 10'000;
constexpr ui::Knob kDragged = ui::Knob::NumExperts;

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
        return std::all_of(m_painted.begin(), m_painted.end(),
                           [](const auto& entry) { return entry.second; });
    }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override {
        if (event->type() == QEvent::Paint) m_painted[watched] = true;
        return false;
    }

private:
    std::map<QObject*, bool> m_painted;
};

double handleX(const QSlider& slider, int value) {
    QStyleOptionSlider option;
    option.initFrom(&slider);
    option.minimum = slider.minimum();
    option.maximum = slider.maximum();
    const int handle = slider.style()->pixelMetric(QStyle::PM_SliderLength, &option, &slider);
    const int span = slider.width() - handle;
    return handle / 2.0 +
           QStyle::sliderPositionFromValue(slider.minimum(), slider.maximum(), value, span);
}

void mouse(QSlider& slider, QEvent::Type type, double x) {
    const QPointF at(x, slider.height() / 2.0);
    const Qt::MouseButtons held =
        type == QEvent::MouseButtonRelease ? Qt::MouseButtons() : Qt::LeftButton;
    QMouseEvent event(type, at, slider.mapToGlobal(at),
                      type == QEvent::MouseMove ? Qt::NoButton : Qt::LeftButton, held,
                      Qt::NoModifier);
    QCoreApplication::sendEvent(&slider, &event);
}

template <class Condition>
bool spinUntil(const Condition& condition) {
    QElapsedTimer clock;
    clock.start();
    QTimer wake;  // so that a missing event ends in the time-out and not in a hang
    wake.start(50);
    while (!condition()) {
        if (clock.elapsed() > kTimeoutMs) return false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    }
    return true;
}

Latencies latencies(std::vector<double> ms) {
    std::sort(ms.begin(), ms.end());
    const auto at = [&](double q) {
        return ms[static_cast<std::size_t>(q * static_cast<double>(ms.size() - 1) + 0.5)];
    };
    return {static_cast<int>(ms.size()), at(0.5), at(0.95), ms.back()};
}

Json latencyJson(const Latencies& l) {
    return {{"moves", l.count}, {"p50_ms", l.p50_ms}, {"p95_ms", l.p95_ms}, {"max_ms", l.max_ms}};
}

/// What the MFU tile must say.
bool showsModel(const ui::PlanPage& page, const ui::Workbench& workbench) {
    const Prediction* p = workbench.plan.prediction();
    return p != nullptr &&
           page.tile(0)->value() == ui::planMetrics(workbench.plan.plan(), *p).front().value;
}

}  // namespace

Result<SliderBench> benchSlider(ui::MainWindow& window, ui::Workbench& workbench, int moves) {
    window.showPage(ui::PageId::Plan);
    auto* page = qobject_cast<ui::PlanPage*>(window.page(ui::PageId::Plan));
    if (!settle(window, workbench.executor, kTimeoutMs))
        return fail(ErrorCode::External, "the plan page did not settle");
    QSlider& slider = *page->knob(kDragged)->slider();
    if (slider.maximum() < 2)
        return fail(ErrorCode::RuleBroken, "the plan leaves {} legal expert counts to drag over",
                    slider.maximum() + 1);
    PaintWatch watch;
    watch.add(page->tile(0)->valueLabel());
    watch.add(&slider);
    watch.add(page->memoryPlot()->findChild<QWidget*>(QStringLiteral("plot")));

    std::vector<double> closed, simulated;
    mouse(slider, QEvent::MouseButtonPress, handleX(slider, slider.value()));
    int value = slider.value(), direction = 1;
    for (int i = 0; i < moves; ++i) {
        if (value + direction > slider.maximum() || value + direction < slider.minimum())
            direction = -direction;
        value += direction;
        watch.reset();
        QElapsedTimer clock;
        clock.start();
        mouse(slider, QEvent::MouseMove, handleX(slider, value));
        if (!spinUntil([&] { return watch.all(); }))
            return fail(ErrorCode::External, "move {} was not painted in {} ms", i, kTimeoutMs);
        closed.push_back(static_cast<double>(clock.nsecsElapsed()) * 1e-6);
        if (slider.value() != value || !showsModel(*page, workbench))
            return fail(ErrorCode::External, "move {} shows a value that is not the model's", i);
        const auto done = [&] {
            return workbench.plan.mode() == PredictMode::Simulated && workbench.executor.idle();
        };
        watch.reset();
        const bool already = workbench.plan.mode() == PredictMode::Simulated;
        if (!spinUntil([&] {
                return workbench.plan.mode() == PredictMode::Simulated && (already || watch.all());
            }))
            return fail(ErrorCode::External, "move {} was not simulated in {} ms", i, kTimeoutMs);
        simulated.push_back(static_cast<double>(clock.nsecsElapsed()) * 1e-6);
        if (!spinUntil(done)) return fail(ErrorCode::External, "move {} did not settle", i);
    }
    mouse(slider, QEvent::MouseButtonRelease, handleX(slider, value));
    return SliderBench{latencies(closed), latencies(simulated), window.width(), window.height()};
}

std::string benchJson(const SliderBench& bench) {
    const Json json = {{"format_version", 1},
                       {"bench", "slider"},
                       {"width", bench.width},
                       {"height", bench.height},
                       {"closed_form", latencyJson(bench.closed_form)},
                       {"simulated", latencyJson(bench.simulated)}};
    return json.dump(2);
}

}  // namespace piper::app
