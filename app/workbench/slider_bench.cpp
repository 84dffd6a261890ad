// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/slider_bench.h"

#include <QElapsedTimer>
#include <QSlider>

#include "app/workbench/paint_watch.h"
#include "app/workbench/settle.h"
#include "app/workbench/slider_mouse.h"
#include "ui/views/knob_control.h"
#include "ui/views/plan_page.h"
#include "ui/views/widgets.h"

namespace piper::app {
namespace {

constexpr int kMoveTimeoutMs = 10'000;
constexpr ui::Knob kDragged = ui::Knob::NumExperts;

/// What the MFU tile must say.
bool showsModel(const ui::PlanPage& page, const ui::Workbench& workbench) {
    const Prediction* p = workbench.plan.prediction();
    return p != nullptr &&
           page.tile(0)->value() == ui::planMetrics(workbench.plan.plan(), *p).front().value;
}

/// One drag of the slider, move by move.
class SliderDrag {
public:
    SliderDrag(ui::PlanPage& page, ui::Workbench& workbench)
        : m_page(page), m_workbench(workbench), m_slider(*page.knob(kDragged)->slider()) {
        auto* plot = page.memoryPlot()->findChild<QWidget*>(QStringLiteral("plot"));
        m_number.add(page.tile(0)->valueLine());
        m_first.add(&m_slider);
        m_first.add(plot);
        // The simulated number may read the same; the plot is painted anew in any case.
        m_second.add(plot);
        m_value = m_slider.value();
        slideMouse(m_slider, QEvent::MouseButtonPress, m_value);
    }
    ~SliderDrag() { slideMouse(m_slider, QEvent::MouseButtonRelease, m_value); }
    SliderDrag(const SliderDrag&) = delete;
    SliderDrag& operator=(const SliderDrag&) = delete;

    Status move() {
        turn();
        m_value += m_direction;
        m_first.reset();
        m_number.reset();
        const QString before = m_page.tile(0)->value();
        QElapsedTimer clock;
        clock.start();
        slideMouse(m_slider, QEvent::MouseMove, m_value);
        // A number that reads the same is not painted again.
        const bool same = m_page.tile(0)->value() == before;
        if (!spinUntil([&] { return m_first.all() && (same || m_number.all()); }, kMoveTimeoutMs))
            return fail(ErrorCode::External, "a move was not painted in {} ms", kMoveTimeoutMs);
        closed.push_back(milliseconds(clock));
        if (m_slider.value() != m_value || !showsModel(m_page, m_workbench))
            return fail(ErrorCode::External, "a move shows a value that is not the model's");
        m_second.reset();
        const bool painted = simulatedNow();
        if (!spinUntil([&] { return simulatedNow() && (painted || m_second.all()); },
                       kMoveTimeoutMs))
            return fail(ErrorCode::External, "a move was not simulated in {} ms", kMoveTimeoutMs);
        simulated.push_back(milliseconds(clock));
        if (!spinUntil([&] { return m_workbench.executor.idle(); }, kMoveTimeoutMs))
            return fail(ErrorCode::External, "a move did not settle in {} ms", kMoveTimeoutMs);
        return {};
    }

    std::vector<double> closed, simulated;  ///< milliseconds

private:
    void turn() {
        const int next = m_value + m_direction;
        if (next > m_slider.maximum() || next < m_slider.minimum()) m_direction = -m_direction;
    }
    [[nodiscard]] bool simulatedNow() const {
        return m_workbench.plan.mode() == PredictMode::Simulated;
    }

    ui::PlanPage& m_page;
    ui::Workbench& m_workbench;
    QSlider& m_slider;
    PaintWatch m_first, m_number, m_second;
    int m_value = 0;
    int m_direction = 1;
};

}  // namespace

Result<SliderBench> benchSlider(ui::MainWindow& window, ui::Workbench& workbench, int moves) {
    window.showPage(ui::PageId::Plan);
    auto* page = qobject_cast<ui::PlanPage*>(window.page(ui::PageId::Plan));
    if (!settle(window, workbench.executor, kMoveTimeoutMs))
        return fail(ErrorCode::External, "the plan page did not settle");
    const int values = page->knob(kDragged)->slider()->maximum() + 1;
    if (values < 3)
        return fail(ErrorCode::RuleBroken, "the plan leaves {} legal expert counts to drag over",
                    values);
    SliderDrag drag(*page, workbench);
    for (int i = 0; i < moves; ++i) PIPER_TRY(drag.move());
    return SliderBench{latencies(drag.closed), latencies(drag.simulated), window.width(),
                       window.height()};
}

std::string benchJson(const SliderBench& bench) {
    const Json json = {{"format_version", 1},
                       {"bench", "slider"},
                       {"width", bench.width},
                       {"height", bench.height},
                       {"closed_form", latencyJson(bench.closed_form, "moves")},
                       {"simulated", latencyJson(bench.simulated, "moves")}};
    return json.dump(2);
}

}  // namespace piper::app
