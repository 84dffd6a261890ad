// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/plan_page.h"

#include <QComboBox>
#include <QDropEvent>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>
#include <QSlider>
#include <QStandardItemModel>
#include <QStyle>
#include <QTableView>
#include <QTest>

#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/models/phase_colours.h"
#include "ui/views/choice_control.h"
#include "ui/views/knob_control.h"
#include "ui/views/rank_map_view.h"
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

TEST_F(PlanPageTest, AGreyOptionSaysWhyAndALegalOneIsTaken) {
    Plan plan = test::clusterPlan();
    plan.framework = Framework::Megatron;
    open(plan);
    ASSERT_TRUE(settled());
    QComboBox* box = page()->choice(Choice::Schedule)->box();
    const int zb = box->findText(QStringLiteral("zb_v"));
    ASSERT_GE(zb, 0);
    EXPECT_FALSE(qobject_cast<QStandardItemModel*>(box->model())->item(zb)->isEnabled());
    EXPECT_TRUE(box->itemData(zb, Qt::ToolTipRole).toString().contains(QStringLiteral("megatron")));
    const int looped = box->findText(QStringLiteral("interleaved_1f1b"));
    box->setCurrentIndex(looped);
    Q_EMIT box->activated(looped);
    EXPECT_EQ(m_workbench->plan.plan().schedule, ScheduleKind::InterleavedOneF1B);
    ASSERT_TRUE(settled());
    EXPECT_EQ(box->currentText(), QStringLiteral("interleaved_1f1b"));
    QTest::mouseClick(child<QPushButton>(PageId::Plan, "undo"), Qt::LeftButton);
    EXPECT_EQ(m_workbench->plan.plan().schedule, plan.schedule);
    ASSERT_TRUE(settled());
    EXPECT_EQ(box->currentText(), QStringLiteral("1f1b"));
}

TEST_F(PlanPageTest, APinnedPlanIsShownBesideAndTakenBackByADoubleClick) {
    open(test::clusterPlan());
    auto* pins = child<QTableView>(PageId::Plan, "pins");
    EXPECT_FALSE(pins->isVisibleTo(page()));
    QTest::mouseClick(child<QPushButton>(PageId::Plan, "pin"), Qt::LeftButton);
    EXPECT_TRUE(pins->isVisibleTo(page()));
    m_workbench->plan.setKnob(Knob::Pp, 8);
    const QPoint cell = pins->visualRect(pins->model()->index(1, 1)).center();
    QTest::mouseClick(pins->viewport(), Qt::LeftButton, {}, cell);
    QTest::mouseDClick(pins->viewport(), Qt::LeftButton, {}, cell);
    EXPECT_EQ(m_workbench->plan.plan().layout.pp, 4);
    QTest::keyClick(pins, Qt::Key_Delete);
    EXPECT_FALSE(pins->isVisibleTo(page()));
}

TEST_F(PlanPageTest, ARankIsChosenByClickAndKeyAndItsGroupIsNamed) {
    open(test::clusterPlan());
    page()->showAnswer(PlanPage::Answer::Ranks);
    auto* ranks = child<RankMapView>(PageId::Plan, "ranks");
    auto* words = child<QLabel>(PageId::Plan, "ranks.words");
    ASSERT_TRUE(ranks->map().has_value());
    // The same rank is found in the expert grid, far from where it is on the nodes.
    const RankId rank(std::int32_t{42});
    QTest::mouseClick(ranks, Qt::LeftButton, {}, ranks->cellOf(2, rank));
    EXPECT_EQ(ranks->selected(), rank);
    EXPECT_TRUE(words->text().startsWith(QStringLiteral("Rank 42: node 5, device 2")))
        << words->text().toStdString();
    QTest::keyClick(ranks, Qt::Key_Right);
    QTest::keyClick(ranks, Qt::Key_Up);
    EXPECT_EQ(ranks->selected().value, 35);
    child<QComboBox>(PageId::Plan, "ranks.dimension")->setCurrentText(QStringLiteral("PP"));
    EXPECT_TRUE(words->text().contains(QStringLiteral("its pp group: 4 ranks on 4 nodes")))
        << words->text().toStdString();
    m_workbench->plan.setKnob(Knob::Pp, 8);
    EXPECT_TRUE(words->text().contains(QStringLiteral("its pp group: 8 ranks")))
        << words->text().toStdString();
}

TEST_F(PlanPageTest, TheRooflineFollowsThePlan) {
    open(test::clusterPlan());
    page()->showAnswer(PlanPage::Answer::Roofline);
    ASSERT_TRUE(settled());
    auto* table = child<QTableView>(PageId::Plan, "roofline");
    EXPECT_GT(table->model()->rowCount(), 10);
    EXPECT_FALSE(tableText(*table->model()).contains(QStringLiteral("TP communication")));
    m_workbench->plan.setKnob(Knob::Tp, 2);
    ASSERT_TRUE(settled());
    EXPECT_TRUE(tableText(*table->model()).contains(QStringLiteral("TP communication")));
    Plan broken = test::clusterPlan();
    broken.layout.ep = 7;
    m_workbench->plan.setPlan(broken);
    EXPECT_EQ(table->model()->rowCount(), 0);
}

TEST_F(PlanPageTest, ASmallWindowShowsEveryPhase) {
    open(test::clusterPlan());
    m_window->resize(1200, 760);
    ASSERT_TRUE(settled());
    const auto* phases = page()->findChild<PhaseShareView*>();
    ASSERT_NE(phases, nullptr);
    EXPECT_GE(phases->height(), phases->minimumSizeHint().height());
    EXPECT_LE(phases->mapTo(m_window.get(), QPoint(0, phases->height())).y(), m_window->height());
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
