// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/plan_page.h"

#include <QDropEvent>
#include <QLabel>
#include <QMimeData>
#include <QSlider>
#include <QStyle>
#include <QTest>

#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/models/phase_colours.h"
#include "ui/views/knob_control.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

class PlanPageTest : public test::WindowTest {
protected:
    PlanPage* page() { return pageAs<PlanPage>(PageId::Plan); }
};

TEST_F(PlanPageTest, DraggingASliderChangesTheNumbersInTheSameEvent) {
    open(test::clusterPlan());
    QSlider* slider = page()->knob(Knob::RouterTopk)->slider();
    ASSERT_GT(slider->maximum(), 3);
    const QString before = page()->tile(0)->value();
    const std::int64_t topk = m_workbench->plan.value(Knob::RouterTopk);
    // From where the handle is to the left end: top-1.
    const int y = slider->height() / 2;
    const int from =
        QStyle::sliderPositionFromValue(0, slider->maximum(), slider->value(), slider->width());
    QTest::mousePress(slider, Qt::LeftButton, {},
                      QPoint(std::clamp(from, 6, slider->width() - 6), y));
    QTest::mouseMove(slider, QPoint(4, y));
    QMouseEvent move(QEvent::MouseMove, QPointF(4, y), slider->mapToGlobal(QPointF(4, y)),
                     Qt::NoButton, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(slider, &move);
    EXPECT_LT(m_workbench->plan.value(Knob::RouterTopk), topk);
    EXPECT_NE(page()->tile(0)->value(), before);
    EXPECT_EQ(m_workbench->plan.mode(), PredictMode::ClosedForm);
    QTest::mouseRelease(slider, Qt::LeftButton, {}, QPoint(4, y));
    EXPECT_TRUE(waitFor([&] { return m_workbench->plan.mode() == PredictMode::Simulated; }));
}

TEST_F(PlanPageTest, ATypedIllegalValueIsExplainedAndTakenBack) {
    open(test::clusterPlan());
    KnobControl* ep = page()->knob(Knob::Ep);
    ep->spinBox()->setValue(7);
    EXPECT_EQ(ep->spinBox()->value(), 8);
    EXPECT_TRUE(ep->note()->isVisibleTo(page()));
    EXPECT_TRUE(ep->note()->text().contains(QStringLiteral("Legal near it: 4, 8")))
        << ep->note()->text().toStdString();
    ep->spinBox()->stepBy(-1);
    EXPECT_EQ(m_workbench->plan.plan().layout.ep, 4);
    EXPECT_FALSE(ep->note()->isVisibleTo(page()));
}

TEST_F(PlanPageTest, ADroppedConfigBecomesTheModel) {
    open(test::clusterPlan());
    QMimeData data;
    const auto path = piper::test::sourceDir() / "packaging/examples/configs/OLMoE-1B-7B-0924.json";
    data.setUrls({QUrl::fromLocalFile(QString::fromStdString(path.string()))});
    QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(page(), &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent drop(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(page(), &drop);
    EXPECT_TRUE(waitFor([&] { return m_workbench->plan.value(Knob::NumExperts) == 64; }));
}

TEST_F(PlanPageTest, ABrokenPlanSaysWhyInsteadOfNumbers) {
    Plan plan = test::clusterPlan();
    plan.layout.ep = 7;
    open(plan);
    EXPECT_EQ(page()->tile(0)->value(), QStringLiteral("–"));
    EXPECT_TRUE(child<QLabel>(PageId::Plan, "fault")->text().contains(QStringLiteral("7")));
}

TEST_F(PlanPageTest, NoTextOfATileIsClipped) {
    open(test::clusterPlan());
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_TRUE(page()->tile(i)->valueLine()->fits()) << page()->tile(i)->value().toStdString();
    for (const TextLine* line : page()->findChildren<TextLine*>())
        EXPECT_TRUE(line->fits()) << line->text().toStdString();
}

}  // namespace
}  // namespace piper::ui
